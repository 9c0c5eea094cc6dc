"""The page of figures: kept by bench, rendered from the file, marked as stale when decisions have changed."""

from pathlib import Path

import pytest
from tests.bench import figures
from tests.bench.figures import Figure, Measurement, figure_of, keep, page, read
from tests.bench.table import Row

from bailiff_core.engine import LOGIC

OLD = Measurement("fold", "2026-11-22", "idle", "abc", LOGIC - 1, (Figure("fold", "1 s", "–", "–"),))
NEW = Measurement("fold --records 9", "2026-11-29", "load 3", "def", LOGIC, (Figure("fold", "2 s", "–", "–"),))
OTHER = Measurement("engine", "2026-11-29", "idle", None, LOGIC, (Figure("decision", "3 ms", "–", "–"),))


def test_the_page_is_rendered_from_the_file() -> None:
    assert figures.PAGE.read_text(encoding="utf-8") == page(read())


def test_a_figure_from_before_the_last_change_of_decisions_is_stale() -> None:
    old, new = page([OLD, NEW]).splitlines()[-2:]
    assert old.endswith("2026-11-22, idle, abc, *stale* |")
    assert new.endswith("2026-11-29, load 3, def |")


def test_a_bench_that_is_measured_anew_replaces_its_figures_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "FILE", tmp_path / "figures.json")
    monkeypatch.setattr(figures, "PAGE", tmp_path / "figures.md")
    figures.write([OLD, OTHER])
    keep(NEW)
    assert read() == [NEW, OTHER]
    assert (tmp_path / "figures.md").read_text(encoding="utf-8") == page([NEW, OTHER])


@pytest.mark.parametrize(
    ("row", "target"),
    [
        (Row("a", 20.0, "ms", target="≤ 20 ms"), "≤ 20 ms: met"),
        (Row("a", 20.1, "ms", target="≤ 20 ms"), "≤ 20 ms: **missed**"),
        (Row("a", 900.0, "/s", target="≥ 1,000 /s"), "≥ 1,000 /s: **missed**"),
        (Row("a", 3.0, "ms", target="≤ 2 ×", baseline=2.0, baseline_is="raw"), "≤ 2 ×: met"),
        (Row("a", 3.0, "ms", target="≤ 1 s"), "≤ 1 s"),
        (Row("a", 3.0, "ms"), "–"),
    ],
)
def test_a_target_says_whether_it_is_met(row: Row, target: str) -> None:
    assert figure_of(row).target == target
