"""What an attempt ends with, and which ended tasks a gang continues without: one rule of termination at a time."""

from typing import Any

import pytest
from tests.builders import Sketch, group

from bailiff_core.lifecycle.termination import broken_attempts, finished_attempts, scaled_down, shrunk_gangs
from bailiff_core.model.state import Eviction, Job

DRAINED = Eviction(1, "drain", 5)


def gang(*tasks: dict[str, Any], minimum: int = 1, **about: Any) -> tuple[Sketch, Job]:
    """A running job with tasks of one GPU each, about which these fields say what is not usual."""
    sketch = Sketch()
    sketch.node("a", gpus=8)
    job = sketch.at(sketch.job("job", group(len(tasks), gpus=1)), *(("a", [number]) for number in range(len(tasks))))
    job.demand = job.demand.model_copy(update={"min_tasks": minimum, **about.pop("demand", {})})
    for task, fields in zip(job.tasks, tasks, strict=True):
        for name, value in fields.items():
            setattr(task, name, value)
    for name, value in about.items():
        setattr(job, name, value)
    sketch.state.indices.touched["job"] = None
    return sketch, job


def left(state: str = "released", **about: Any) -> dict[str, Any]:
    """A task that was evicted singly, with TERM and exit code 143."""
    return {"state": state, "eviction": DRAINED, "noticed": True, "term_sent": True, "exit_code": 143, **about}


LOST = {"state": "released", "exit_code": None}


@pytest.mark.parametrize(
    ("tasks", "removed"),
    [
        (({}, left()), [("1", "preempted-unclean", "drain")]),
        (({}, left("exited")), []),  # its resources are not free yet
        (({}, left(exit_code=None)), [("1", "lost", "drain")]),  # once, whatever its eviction
        (({}, LOST), [("1", "lost", "exit")]),
        (({}, LOST, left()), [("2", "preempted-unclean", "drain"), ("1", "lost", "exit")]),
        ((left(), left()), []),  # none is left: the attempt is over
        (({}, left(exit_code=1, noticed=False, term_sent=False)), []),  # it failed by itself
    ],
)
def test_a_gang_goes_on_without_tasks_that_are_gone(tasks: tuple[dict[str, Any], ...], removed: Any) -> None:
    sketch, _ = gang(*tasks)
    found = [(each.tasks, each.outcome, each.cause) for each in shrunk_gangs(sketch.state)]  # type: ignore[attr-defined]
    assert found == removed


@pytest.mark.parametrize(("last", "removed"), [({}, [("0", "lost")]), ({"state": "released", "exit_code": 0}, [])])
def test_a_lost_task_is_replaced_only_while_another_runs(last: dict[str, Any], removed: Any) -> None:
    """Below its minimum it may run for ever."""
    sketch, _ = gang(LOST, last, minimum=2, demand={"stale_grace": "never"})
    assert [(each.tasks, each.outcome) for each in shrunk_gangs(sketch.state)] == removed  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("tasks", "about", "reason"),
    [
        (({}, left()), {}, None),
        (({}, LOST), {}, None),
        (({}, LOST), {"minimum": 2}, "task 1 ended, so the gang is stopped"),
        (({}, {"state": "released", "exit_code": 1}), {}, "task 1 ended, so the gang is stopped"),
        (({}, {"state": "released", "exit_code": 0}), {}, None),
        (({}, left(exit_code=1, noticed=False, term_sent=False)), {}, "task 1 ended, so the gang is stopped"),
        (({}, {}), {"cancelled": True}, "cancellation requested"),
    ],
)
def test_which_ended_task_stops_its_gang(tasks: tuple[dict[str, Any], ...], about: dict[str, Any], reason: str | None) -> None:
    sketch, _ = gang(*tasks, **about)
    assert [each.reason for each in broken_attempts(sketch.state)] == ([reason] if reason else [])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("tasks", "phase", "decided"),
    [
        (({}, {}), "running", [("EvictionDecided", "1")]),
        (({}, {}), "evicting", []),
        (({}, left("running")), "running", []),
        (({}, {"state": "exited"}), "running", []),
        (({}, {"state": "released"}), "running", []),
        (({}, {"state": "reserved"}), "running", [("ReservationDropped", "1")]),
        (({"state": "reserved"}, {"state": "reserved"}), "reserved", [("ReservationDropped", "")]),
    ],
)
def test_of_a_job_that_was_scaled_down_tasks_that_have_not_ended_go(tasks: Any, phase: Any, decided: Any) -> None:
    sketch, job = gang(*tasks, phase=phase)
    job.demand = job.demand.model_copy(update={"tasks": (group(1, gpus=1),)})
    assert [(type(each).__name__, each.tasks) for each in scaled_down(sketch.state)] == decided  # type: ignore[attr-defined]


YIELDED = {"state": "released", "exit_code": 85}
PREEMPTED = {"state": "released", "exit_code": 143, "noticed": True, "term_sent": True}
ZERO = {"state": "released", "exit_code": 0, "noticed": True, "term_sent": True}
ENDS = {"demand": {"on_eviction": "end"}}


@pytest.mark.parametrize(
    ("task", "about", "ended"),
    [
        (YIELDED, {"yields": 9}, ("JobRequeued", "yielded", "")),
        (
            YIELDED,
            {"yields": 10},
            ("JobEnded", "failed", "it exited with 85 without an eviction notice, 11 times (rule exit-85-without-notice)"),
        ),
        (LOST, {"yields": 10}, ("JobRequeued", "lost", "")),
        (YIELDED, ENDS, ("JobRequeued", "yielded", "")),  # nobody evicted it
        (LOST, ENDS, ("JobRequeued", "lost", "")),
        (PREEMPTED, {"eviction": DRAINED}, ("JobRequeued", "preempted-unclean", "")),
        (PREEMPTED, {"eviction": DRAINED, **ENDS}, ("JobEnded", "evicted", "")),
        (PREEMPTED, {"eviction": Eviction(1, "paused", 5), **ENDS}, ("JobRequeued", "preempted-unclean", "")),
        (
            ZERO,
            {"eviction": DRAINED, **ENDS},
            ("JobEnded", "evicted", "it exited with 0 after its eviction notice (rule exit-0-after-notice)"),
        ),
    ],
)
def test_how_a_job_goes_on_after_an_attempt(task: dict[str, Any], about: dict[str, Any], ended: Any) -> None:
    sketch, _ = gang(task, **about)
    assert sketch.state.rules.restarts.max_yields == 10
    (found,) = finished_attempts(sketch.state)
    assert (type(found).__name__, found.outcome, getattr(found, "reason", "")) == ended  # type: ignore[attr-defined]
