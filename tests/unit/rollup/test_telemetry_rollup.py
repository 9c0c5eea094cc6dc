"""Telemetry summed by project and window; a crash between two samples changes nothing."""

import json
from random import Random

import pytest

from bailiff_bus import topics
from bailiff_bus.messages.rollups import TelemetryWindow
from bailiff_bus.messages.telemetry import DeviceTelemetry, NodeTelemetry
from bailiff_bus.port import Message, Span
from bailiff_core.model.state import PoolState
from bailiff_core.records.nodes import MAX_DEVICES
from bailiff_rollup.aggregates import SCHEMA, Aggregates, Entitlement
from bailiff_rollup.telemetry_rollup import TelemetryRollup
from bailiff_rollup.windowed_counters import of

SECOND, MINUTE = 1_000_000, 60_000_000
MIDNIGHT = 1_800_057_600 * SECOND
GIB = 1 << 30
PATHS = {"train-1": ("vision", "research", ""), "train-2": ("speech", "research", "")}


def device(*jobs: str, busy: int | None = 50, used: int = 20) -> DeviceTelemetry:
    return DeviceTelemetry(device="GPU-0", jobs=jobs, busy_percent=busy, memory_used=used * GIB, memory_bytes=80 * GIB)


def look(*devices: DeviceTelemetry, seconds: int = 15) -> NodeTelemetry:
    return NodeTelemetry(node="n1", interval_ms=seconds * 1000, devices=devices)


def gpu_seconds(telemetry: TelemetryRollup, name: str) -> dict[str, float]:
    return {project: amount / (100 * SECOND) for (project,), amount in of(telemetry.totals, name).items()}


def test_a_sample_counts_for_the_project_and_its_ancestors() -> None:
    telemetry = TelemetryRollup()
    assert list(telemetry.count(MIDNIGHT, look(device("train-1"), device("train-2", busy=100)), PATHS)) == []
    assert gpu_seconds(telemetry, "gpu") == {"vision": 15, "speech": 15, "research": 30, "": 30}
    assert gpu_seconds(telemetry, "busy") == {"vision": 7.5, "speech": 15, "research": 22.5, "": 22.5}
    assert of(telemetry.totals, "memory-used")[("vision",)] == 20 * GIB * 15 * SECOND
    assert of(telemetry.totals, "memory")[("",)] == 160 * GIB * 15 * SECOND


@pytest.mark.parametrize(
    "claimed",
    [
        look(device("train-1"), seconds=601),
        look(*[device("train-1")] * (MAX_DEVICES + 1)),
        look(device("train-1", used=1 << 20)),
        look(device("train-1")).model_copy(update={"node": "invented"}),
    ],
    ids=["too long", "too many GPUs", "too much memory", "an unknown node"],
)
def test_what_no_node_of_the_pool_can_have_measured_is_not_counted(claimed: NodeTelemetry) -> None:
    state = PoolState(node_numbers={"n1": 0})
    assert TelemetryRollup.is_plausible(look(device("train-1")), state)
    assert not TelemetryRollup.is_plausible(claimed, state)


def test_however_much_is_claimed_a_window_can_be_published() -> None:
    telemetry = TelemetryRollup()
    most = DeviceTelemetry(device="GPU-0", jobs=("train-1",), memory_used=2**53 - 1, memory_bytes=2**53 - 1, busy_percent=100)
    claimed = NodeTelemetry(node="n1", interval_ms=2**53 - 1, devices=(most, most))
    list(telemetry.count(MIDNIGHT, claimed, PATHS))
    window, *_ = telemetry.count(MIDNIGHT + MINUTE, look(device("train-1")), PATHS)
    assert {each.name: each.gpu_ms for each in window.projects} == dict.fromkeys(("", "research", "vision"), 2**53 - 1)


def test_a_shared_gpu_counts_once() -> None:
    telemetry = TelemetryRollup()
    list(telemetry.count(MIDNIGHT, look(device("train-1", "train-1", "train-2")), PATHS))
    assert gpu_seconds(telemetry, "gpu") == {"vision": 10, "speech": 5, "research": 15, "": 15}


def test_without_utilization_only_memory_counts() -> None:
    telemetry = TelemetryRollup()
    list(telemetry.count(MIDNIGHT, look(device("train-1", busy=None)), PATHS))
    assert gpu_seconds(telemetry, "gpu") == {}
    assert set(of(telemetry.totals, "memory")) == {("vision",), ("research",), ("",)}


def test_an_unknown_job_counts_for_the_pool_alone() -> None:
    telemetry = TelemetryRollup()
    list(telemetry.count(MIDNIGHT, look(device("gone")), PATHS))
    assert gpu_seconds(telemetry, "gpu") == {"": 15}


def test_windows_are_published_when_a_newer_sample_arrives() -> None:
    telemetry, published = TelemetryRollup(), list[TelemetryWindow]()
    for number in range(5):
        published += telemetry.count(MIDNIGHT + number * 30 * SECOND, look(device("train-1"), seconds=30), PATHS)
    published += telemetry.count(MIDNIGHT + 61 * MINUTE, look(device("train-1"), seconds=30), PATHS)
    assert [(each.window, (each.begin - MIDNIGHT) // MINUTE, each.end - each.begin) for each in published] == [
        ("1m", 0, MINUTE),
        ("1m", 1, MINUTE),
        ("1m", 2, MINUTE),
        ("1h", 0, 60 * MINUTE),
    ]
    whole = {window.window: window.projects[0] for window in published[2:]}
    assert [each.name for each in published[0].projects] == ["", "research", "vision"]
    assert (whole["1h"].gpu_ms, whole["1h"].busy_gpu_ms) == (150_000, 75_000)
    assert (whole["1h"].memory_used_mib_s, whole["1h"].memory_mib_s) == (20 * 1024 * 150, 80 * 1024 * 150)
    assert whole["1m"].gpu_ms == 30_000


@pytest.mark.parametrize("crash_after", range(6))
def test_what_is_read_again_after_a_crash_comes_to_the_same(crash_after: int) -> None:
    places = [Message("t", 3, at, MIDNIGHT + at * 40 * SECOND, None, (), b"") for at in range(6)]
    looks = [(place, look(device("train-1", busy=10 * place.offset))) for place in places]

    def counted(aggregates: Aggregates, begin: int, end: int) -> list[TelemetryWindow]:
        published = []
        for message, body in looks[begin:end]:
            published += aggregates.telemetry.count(message.time, body, PATHS)
            aggregates.telemetry.advance_past(message)
        return published

    whole, stopped = Aggregates(), Aggregates()
    windows = counted(whole, 0, 6)
    counted(stopped, 0, crash_after)
    stored = stopped.to_bytes()
    counted(stopped, crash_after, 6)  # and is lost
    again = Aggregates.from_bytes(stored)
    assert again is not None
    begin = again.telemetry.offsets.get(3, 0)
    assert begin == crash_after
    assert [window for window in counted(again, begin, 6) if window not in windows] == []
    assert again.to_bytes() == whole.to_bytes()
    assert again.size == 6


def test_a_topic_made_anew_is_read_from_its_begin_also_after_a_restart() -> None:
    telemetry = TelemetryRollup()
    assert telemetry.begin({0: Span(2, 9, "a"), 1: Span(0, 4, "a")}) == {0: 2, 1: 0}
    telemetry.advance_past(Message(topics.TELEMETRY.name, 0, 6, 1, None, (), b""))
    assert telemetry.begin({0: Span(2, 9, "a"), 1: Span(0, 4, "a")}) == {0: 7, 1: 0}
    assert telemetry.begin({0: Span(8, 9, "a")}) == {0: 8}, "expired"
    again = TelemetryRollup.from_data(json.loads(json.dumps(telemetry.to_data())))
    assert again.begin({0: Span(1, 90, "b"), 1: Span(0, 4, "b")}) == {0: 1, 1: 0}
    released = TelemetryRollup.from_data({"offsets": [[0, 7]], "messages": 1, "totals": [], "windows": {}})
    assert released.begin({0: Span(0, 9, "a")}) == {0: 7}


@pytest.mark.slow
def test_the_sums_of_a_thousand_projects_fit_into_one_message() -> None:
    """And come back from it; those of a few stand in it as any reader of JSON has them."""
    few, many = Aggregates(), Aggregates()
    dice = Random(7)
    for aggregates, projects in ((few, 3), (many, 1_000)):
        list(aggregates.advance(MIDNIGHT))
        for number in range(projects):
            name = f"team-{number:04}-of-a-department"
            aggregates.sample[name] = Entitlement(8_000, 16_000, 8_000, 24_000)
            for sum_ in ("used", "idle", "entitled"):
                aggregates.add(sum_, name, amount=dice.randrange(10**15, 10**17))
            for each in aggregates.telemetry.count(MIDNIGHT, look(device("train-1")), {"train-1": (name, "")}):
                pytest.fail(f"no window is over: {each}")
        for sums in (aggregates.telemetry.totals, *(sums for _, sums in aggregates.telemetry.windows.values())):
            sums |= {key: dice.randrange(10**15, 10**17) for key in sums}
    assert len(many.to_bytes()) < topics.ROLLUP_STATE.max_message_bytes
    assert json.loads(few.to_bytes())["schema"] == SCHEMA
    for aggregates in (few, many):
        assert Aggregates.from_bytes(aggregates.to_bytes()) == aggregates
