"""What agents measured, summed up by project and window; and that a crash between two looks changes nothing."""

import json
from random import Random

import pytest

from bailiff_bus import topics
from bailiff_bus.messages import DeviceMeasured, MeasuredWindow, NodeTelemetry
from bailiff_bus.port import Message
from bailiff_rollup.figures import Entitled, Figures
from bailiff_rollup.measured import Measured
from bailiff_rollup.sums import of

SECOND, MINUTE = 1_000_000, 60_000_000
MIDNIGHT = 1_800_057_600 * SECOND
GIB = 1 << 30
PATHS = {"train-1": ("vision", "research", ""), "train-2": ("speech", "research", "")}


def device(*jobs: str, busy: int | None = 50, used: int = 20) -> DeviceMeasured:
    return DeviceMeasured(device="GPU-0", jobs=jobs, busy_percent=busy, memory_used=used * GIB, memory_bytes=80 * GIB)


def look(*devices: DeviceMeasured, seconds: int = 15) -> NodeTelemetry:
    return NodeTelemetry(node="n1", lasted_ms=seconds * 1000, devices=devices)


def gpu_seconds(measured: Measured, name: str) -> dict[str, float]:
    return {project: amount / (100 * SECOND) for (project,), amount in of(measured.totals, name).items()}


def test_a_look_counts_for_the_project_and_for_all_above_it() -> None:
    measured = Measured()
    assert list(measured.count(MIDNIGHT, look(device("train-1"), device("train-2", busy=100)), PATHS)) == []
    assert gpu_seconds(measured, "gpu") == {"vision": 15, "speech": 15, "research": 30, "": 30}
    assert gpu_seconds(measured, "busy") == {"vision": 7.5, "speech": 15, "research": 22.5, "": 22.5}
    assert of(measured.totals, "memory-used")[("vision",)] == 20 * GIB * 15 * SECOND
    assert of(measured.totals, "memory")[("",)] == 160 * GIB * 15 * SECOND


def test_a_gpu_that_several_share_counts_once() -> None:
    measured = Measured()
    list(measured.count(MIDNIGHT, look(device("train-1", "train-1", "train-2")), PATHS))
    assert gpu_seconds(measured, "gpu") == {"vision": 10, "speech": 5, "research": 15, "": 15}


def test_where_nobody_can_tell_how_busy_a_gpu_is_its_memory_counts_alone() -> None:
    measured = Measured()
    list(measured.count(MIDNIGHT, look(device("train-1", busy=None)), PATHS))
    assert gpu_seconds(measured, "gpu") == {}
    assert set(of(measured.totals, "memory")) == {("vision",), ("research",), ("",)}


def test_a_job_that_is_not_known_any_more_counts_for_the_pool_alone() -> None:
    measured = Measured()
    list(measured.count(MIDNIGHT, look(device("gone")), PATHS))
    assert gpu_seconds(measured, "gpu") == {"": 15}


def test_windows_are_told_when_something_newer_comes() -> None:
    measured, told = Measured(), list[MeasuredWindow]()
    for number in range(5):
        told += measured.count(MIDNIGHT + number * 30 * SECOND, look(device("train-1"), seconds=30), PATHS)
    told += measured.count(MIDNIGHT + 61 * MINUTE, look(device("train-1"), seconds=30), PATHS)
    assert [(each.window, (each.begin - MIDNIGHT) // MINUTE, each.end - each.begin) for each in told] == [
        ("1m", 0, MINUTE), ("1m", 1, MINUTE), ("1m", 2, MINUTE), ("1h", 0, 60 * MINUTE),
    ]  # fmt: skip
    whole = {window.window: window.projects[0] for window in told[2:]}
    assert [each.name for each in told[0].projects] == ["", "research", "vision"]
    assert (whole["1h"].gpu_ms, whole["1h"].busy_gpu_ms) == (150_000, 75_000)
    assert (whole["1h"].memory_used_mib_s, whole["1h"].memory_mib_s) == (20 * 1024 * 150, 80 * 1024 * 150)
    assert whole["1m"].gpu_ms == 30_000


@pytest.mark.parametrize("crash_after", range(6))
def test_what_is_read_again_after_a_crash_comes_to_the_same(crash_after: int) -> None:
    places = [Message("t", 3, at, MIDNIGHT + at * 40 * SECOND, None, (), b"") for at in range(6)]
    looks = [(place, look(device("train-1", busy=10 * place.offset))) for place in places]

    def counted(figures: Figures, begin: int, end: int) -> list[MeasuredWindow]:
        told = []
        for message, body in looks[begin:end]:
            told += figures.measured.count(message.time, body, PATHS)
            figures.measured.passed(message)
        return told

    whole, stopped = Figures(), Figures()
    windows = counted(whole, 0, 6)
    counted(stopped, 0, crash_after)
    stored = stopped.to_bytes()
    counted(stopped, crash_after, 6)  # and is lost
    again = Figures.from_bytes(stored)
    assert again is not None
    begin = again.measured.offsets.get(3, 0)
    assert begin == crash_after
    assert [window for window in counted(again, begin, 6) if window not in windows] == []
    assert again.to_bytes() == whole.to_bytes()
    assert again.moved == 6


def test_figures_that_a_release_without_measurements_has_stored_go_on() -> None:
    stored = json.loads(Figures(next_seq=7).to_bytes())
    del stored["measured"]
    figures = Figures.from_bytes(json.dumps(stored).encode())
    assert figures is not None
    assert (figures.next_seq, figures.measured) == (7, Measured())


def test_the_sums_of_a_thousand_projects_fit_into_one_message() -> None:
    """And come back from it; those of a few stand in it as any reader of JSON has them."""
    few, many = Figures(), Figures()
    dice = Random(7)
    for figures, projects in ((few, 3), (many, 1_000)):
        list(figures.advance(MIDNIGHT))
        for number in range(projects):
            name = f"team-{number:04}-of-a-department"
            figures.sample[name] = Entitled(8_000, 16_000, 8_000, 24_000)
            for sum_ in ("used", "idle", "entitled"):
                figures.add(sum_, name, amount=dice.randrange(10**15, 10**17))
            for each in figures.measured.count(MIDNIGHT, look(device("train-1")), {"train-1": (name, "")}):
                pytest.fail(f"no window is over: {each}")
            for sums in (figures.measured.totals, *(sums for _, sums in figures.measured.windows.values())):
                sums |= {key: dice.randrange(10**15, 10**17) for key in sums}
    assert len(many.to_bytes()) < topics.ROLLUP_STATE.max_message_bytes
    assert json.loads(few.to_bytes())["schema"] == 1
    for figures in (few, many):
        assert Figures.from_bytes(figures.to_bytes()) == figures
