"""`make bench-check`: a figure that is a fifth worse than in git is named."""

from tests.bench.__main__ import BENCHES
from tests.bench.regression import measured, read_figures, worse
from tests.bench.table import Row

RATE, TIME = "jobs started", "seconds of a start"
HIGHER = {RATE: True, TIME: False}


def test_a_rate_that_falls_and_a_time_that_rises_are_worse() -> None:
    lines = worse({RATE: 1.0, TIME: 2.0}, {RATE: 0.5, TIME: 3.0}, HIGHER)
    assert [line.partition(":")[0] for line in lines] == [RATE, TIME]
    assert "100 % worse" in lines[0]
    assert "50 % worse" in lines[1]


def test_what_is_better_or_a_little_worse_is_not_named() -> None:
    assert worse({RATE: 1.0, TIME: 2.0}, {RATE: 2.0, TIME: 1.0}, HIGHER) == []
    assert worse({RATE: 1.0, TIME: 2.0}, {RATE: 0.84, TIME: 2.39}, HIGHER) == []


def test_a_figure_that_is_measured_no_more_is_named_and_a_new_one_is_not() -> None:
    assert worse({RATE: 1.0}, {TIME: 2.0}, HIGHER) == [f"{RATE}: not measured any more"]


def test_the_median_of_the_repetitions_counts_and_the_unit_says_which_way_is_better() -> None:
    figures = iter([10.0, 90.0, 20.0])

    def run() -> list[Row]:
        figure = next(figures)
        return [Row(RATE, figure, "/s", baseline=10), Row(TIME, figure, "s", baseline=10), Row("no baseline", figure, "s")]

    assert measured(run) == ({RATE: 2.0, TIME: 2.0}, HIGHER)


def test_the_figures_in_git_are_of_benches_that_there_are() -> None:
    assert read_figures()
    assert set(read_figures()) <= set(BENCHES)
