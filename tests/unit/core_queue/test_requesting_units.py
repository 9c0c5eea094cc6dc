"""Which pending jobs request a preemption now, how many, and when the head of the queue does before its backoff is over."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.core_protections.kit import MINUTE, Bench

from bailiff_core.actions import requesting
from bailiff_core.actions.allocate import allocate
from bailiff_core.actions.possible_victims import PossibleVictims
from bailiff_core.actions.requesting import requesting_units
from bailiff_core.fold import enact


@pytest.fixture
def bench() -> Bench:
    """A job of low priority has all GPUs; the preemptor and two others wait."""
    made = Bench(preemption={"scope": "pool", "actions": ["allocate", "preempt"]})
    made.running("x", gpus=8, priority=10)
    for name, priority in (("first", 90), ("second", 80)):
        made.waiting(name, gpus=2, priority=priority)
    made.state.indices.snapshot = None
    return made


def found(bench: Bench, limit: int = 9, besides: tuple[str, ...] = ()) -> list[tuple[str, tuple[str, ...]]]:
    units = requesting_units(bench.state, PossibleVictims(bench.state), limit, besides)
    return [(unit.job.id, actions) for unit, actions in units]


@pytest.mark.parametrize(("limit", "besides", "names"), [
    (1, (), ["first"]),
    (2, (), ["first", "second"]),
    (9, (), ["first", "second", "preemptor"]),
    (2, ("first",), ["second", "preemptor"]),
    (0, (), []),
])  # fmt: skip
def test_the_first_in_the_queue_request_and_no_more_than_the_limit(
    bench: Bench, limit: int, besides: tuple[str, ...], names: list[str]
) -> None:
    assert found(bench, limit, besides) == [(name, ("preempt",)) for name in names]


@pytest.mark.parametrize(("later", "names"), [(-1, ["first", "second"]), (0, ["first", "second"]), (1, ["second"])])
def test_a_job_waits_for_its_backoff_to_the_microsecond(bench: Bench, later: int, names: list[str]) -> None:
    bench.state.jobs["first"].next_request_at = bench.state.now + later
    assert [name for name, _ in found(bench, 2)][: len(names)] == names


@pytest.mark.parametrize("later", [-1, 1])
def test_the_head_that_fits_once_backfilled_jobs_leave_requests_whatever_its_backoff(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, later: int
) -> None:
    head = bench.state.jobs["first"]
    head.next_request_at = bench.state.now + later
    monkeypatch.setattr(requesting, "_head_with_backfilled_victims", lambda _: head)
    assert found(bench, 1) == [("first", ("preempt",))]


@pytest.mark.parametrize(
    ("about", "is_head"),
    [
        ({}, True),
        ({"backfilled": {}}, False),
        ({"actions": ("allocate", "reclaim")}, False),
        ({"fits": False}, False),
        ({"next_request_at": 0}, True),
        ({"next_request_at": 1}, False),
        ({"next_request_at": 1, "freed_seq": 6}, True),
        ({"next_request_at": 1, "freed_seq": 5}, False),
        ({"next_request_at": 0, "freed_seq": 4}, True),
        ({"no_head": True}, False),
    ],
)
def test_when_the_head_is_one_that_fits_once_backfilled_jobs_leave(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, about: dict[str, Any], is_head: bool
) -> None:
    state, head = bench.state, bench.state.jobs["first"]
    state.backfilled = about.get("backfilled", {"x": None})
    if "actions" in about:
        preemption = state.rules.preemption.model_copy(update={"actions": about["actions"]})
        state.policy = state.rules.model_copy(update={"preemption": preemption})
    head.next_request_at, head.refused_seq = state.now + about.get("next_request_at", -MINUTE), 5
    state.freed_seq = about.get("freed_seq", 0)
    monkeypatch.setattr(requesting, "Backfill", lambda *_: SimpleNamespace(starts_by_evictions=about.get("fits", True)))
    if "no_head" in about:
        monkeypatch.setattr(requesting, "head_of_queue", lambda _: None)
    assert requesting._head_with_backfilled_victims(state) is (head if is_head else None)


@pytest.mark.parametrize("later", [-1, 1])
def test_a_job_that_may_not_request_yet_does_not_count_for_the_place_of_its_project(later: int) -> None:
    """With the four GPUs of `large`, project a would use more than project b with the two of `b1`."""
    bench = Bench(projects=[{"name": name} for name in "ab"], preemption={"scope": "pool", "actions": ["allocate", "preempt"],
                                                                          "cap_at_fair_share": False})  # fmt: skip
    del bench.state.jobs["preemptor"]
    bench.state.queue.clear()
    bench.running("x", gpus=8, priority=10, project="b")
    bench.state.jobs["x"].project = ""
    large = bench.waiting("large", gpus=4, priority=90, project="a")
    bench.waiting("b1", gpus=2, priority=80, project="b")
    bench.waiting("a1", gpus=1, priority=80, project="a")
    large.next_request_at = bench.state.now + later
    bench.state.indices.snapshot = None
    order = [name for name, _ in found(bench)]
    assert order == (["b1", "large", "a1"] if later < 0 else ["a1", "b1"])


def test_nobody_starts_whom_a_job_may_evict_that_lost_its_place_in_this_pass() -> None:
    """Two GPUs are free. `b1` would have fitted, but project a is first, and leaves one GPU."""
    bench = Bench(projects=[{"name": name} for name in "abc"], backfill="greedy",
                  preemption={"scope": "pool", "actions": ["allocate", "preempt"], "cap_at_fair_share": False})  # fmt: skip
    del bench.state.jobs["preemptor"]
    bench.state.queue.clear()
    bench.state.indices.to_schedule.clear()
    bench.running("x", gpus=6, priority=10, project="c")
    bench.waiting("a1", gpus=1, priority=30, project="a")
    bench.waiting("b1", gpus=2, priority=60, project="b")
    bench.waiting("c1", gpus=1, priority=40, project="c")
    found = []
    for decision in allocate(bench.state):
        enact(bench.state, decision)
        found.append((type(decision).__name__, decision.job))  # type: ignore[attr-defined]
    assert found == [("JobPlaced", "a1"), ("JobPending", "b1"), ("JobPending", "c1")]
    assert list(bench.state.indices.withheld) == ["c1"], "it is tried again every cycle"
