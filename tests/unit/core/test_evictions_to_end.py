"""Which evictions are cancelled, since nothing needs them any more, and which count as stuck: one rule at a time."""

from typing import Any

import pytest
from tests.builders import Sketch, group

from bailiff_core.lifecycle.evictions import cancelled_evictions_of_preemptions, stuck_at, stuck_evictions
from bailiff_core.model.state import Drain, Eviction, Job, Preemption, Task


def evicting(cause: Any, *, drains: Any = (), started: int | None = None, tasks: str = "", **about: Any) -> tuple[Sketch, Job]:
    """A gang of two, on nodes a and b, is being evicted, or these tasks of it. drains: of node a, and of node b, whether due."""
    sketch = Sketch()
    for name in ("a", "b"):
        sketch.node(name)
    for node, due in zip(sketch.state.nodes.values(), drains, strict=False):
        node.drain = None if due is None else Drain(1, "graceful", due=due)
    job = sketch.at(sketch.job("job", group(2, gpus=1)), ("a", [0]), ("b", [0]))
    preemption = 7 if cause == "preemption" else None
    eviction = Eviction(3, cause, 5, preemption=preemption, for_job="gone" if preemption else "", started_seq=started)
    if tasks:
        job.tasks[1].eviction = eviction
    else:
        job.phase, job.eviction = "evicting", eviction
    for name, value in about.items():
        setattr(job, name, value)
    sketch.state.evicting["job"] = None
    return sketch, job


def cancelled(sketch: Sketch) -> list[tuple[str, bool, str, int | None]]:
    found: list[Any] = list(cancelled_evictions_of_preemptions(sketch.state))
    return [(each.reason, each.notified, each.tasks, each.preemption) for each in found]


MOVES, DRAINS, NEEDS = "its reservation was dropped", "its node is no longer drained", "gone no longer needs the resources"
PLACE = [Task(0, 1, 0b10, "reserved"), Task(1, 0, 0b10, "reserved")]


@pytest.mark.parametrize("cause", ["migration", "resize"])
@pytest.mark.parametrize(
    ("about", "ends"),
    [({}, True), ({"reservation": PLACE}, False), ({"started": 4}, False), ({"restart_pending": True}, False)],
    ids=("no place any more", "has a place", "notified", "has to restart"),
)
def test_a_job_that_was_to_move_stays_if_it_has_no_place_and_nobody_was_notified(cause: str, about: Any, ends: bool) -> None:
    sketch, _ = evicting(cause, **about)
    assert cancelled(sketch) == ([(MOVES, False, "", None)] if ends else [])


@pytest.mark.parametrize("tasks", ["", "1"])
@pytest.mark.parametrize(
    ("drains", "started", "ends"),
    [
        ((None, None), None, True),
        ((False, False), None, True),  # they may run to their end
        ((None, True), None, False),
        ((True, True), None, False),
        ((None, None), 4, False),
    ],
)
def test_a_job_stays_on_a_node_that_is_drained_no_more(tasks: str, drains: Any, started: Any, ends: bool) -> None:
    sketch, _ = evicting("drain", drains=drains, started=started, tasks=tasks)
    assert cancelled(sketch) == ([(DRAINS, False, tasks, None)] if ends else [])


@pytest.mark.parametrize(
    ("tasks", "started", "exited", "ended"),
    [
        ("", None, 0, (NEEDS, False, "", 7)),
        ("", 4, 0, (NEEDS, True, "", 7)),
        ("", 4, 1, None),  # a gang of which one has exited cannot go on
        ("1", None, 0, (NEEDS, False, "1", 7)),
        ("1", 4, 0, (NEEDS, True, "1", 7)),
        ("1", 4, 1, None),
    ],
)
def test_an_eviction_ends_with_the_preemption_that_needed_it(tasks: str, started: Any, exited: int, ended: Any) -> None:
    sketch, job = evicting("preemption", started=started, tasks=tasks)
    if exited:
        job.tasks[1].state = "exited"
    assert cancelled(sketch) == ([ended] if ended else [])
    sketch.state.preemptions[7] = Preemption(7, "gone", ["job"])
    assert cancelled(sketch) == []


def test_of_several_tasks_those_that_have_not_exited_stay() -> None:
    sketch, job = evicting("preemption", started=4, tasks="1")
    job.tasks[0].eviction, job.tasks[0].state = job.tasks[1].eviction, "exited"
    assert cancelled(sketch) == [(NEEDS, True, "1", 7)]


def test_an_eviction_is_cancelled_once() -> None:
    sketch, job = evicting("preemption", started=4)
    assert job.eviction is not None
    job.eviction.cancel_seq = 9
    assert cancelled(sketch) == []


@pytest.mark.parametrize(
    ("started_at", "stuck", "due"), [(None, False, None), (1000, True, None), (1000, False, 1000 + 5 + 60_000_000)]
)
def test_when_an_eviction_counts_as_stuck(started_at: Any, stuck: bool, due: Any) -> None:
    sketch, _ = evicting("drain")
    sketch.state.policy = sketch.state.rules.model_copy(
        update={"eviction": sketch.state.rules.eviction.model_copy(update={"stuck_after": 60_000_000})}
    )
    assert stuck_at(sketch.state, Eviction(1, "drain", 5, started_at=started_at, stuck=stuck)) == due


@pytest.mark.parametrize("tasks", ["", "1"])
@pytest.mark.parametrize(("late", "stuck"), [(-1, False), (0, True), (1, True)])
def test_an_eviction_is_stuck_from_that_moment(tasks: str, late: int, stuck: bool) -> None:
    sketch, job = evicting("drain", started=4, tasks=tasks)
    eviction = job.tasks[1].eviction if tasks else job.eviction
    assert eviction is not None
    eviction.started_at = sketch.state.now
    due = stuck_at(sketch.state, eviction)
    assert due is not None
    sketch.state.now = due + late
    found: list[Any] = list(stuck_evictions(sketch.state))
    assert [(each.job, each.tasks) for each in found] == ([("job", tasks)] if stuck else [])
