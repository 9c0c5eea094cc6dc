"""When a reserved task starts, and when a reservation is dropped, decision by decision."""

from typing import Any

import pytest
from tests.builders import MINUTE, Sketch, group

from bailiff_core.lifecycle.reservations import reservations
from bailiff_core.lifecycle.timers import timers_of
from bailiff_core.model.demand import SubGroup
from bailiff_core.model.state import Drain, Eviction, Job, Preemption, Task


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    made.node("a", gpus=8)
    made.node("b", gpus=8)
    return made


def decided(sketch: Sketch) -> list[tuple[str, str, str]]:
    """Kind of each decision, its reason, and its tasks or those with a place."""
    return [
        (
            type(each).__name__,
            getattr(each, "reason", ""),
            each.tasks if hasattr(each, "tasks") else ",".join(share.tasks for share in each.placement),  # type: ignore[attr-defined]
        )
        for each in reservations(sketch.state)
    ]


# --- reservations for the next attempt


@pytest.mark.parametrize(
    ("until", "expired"), [(None, False), (1, False), (0, True), (-1, True)], ids=["never", "later", "now", "before"]
)
def test_a_reservation_for_the_next_attempt_expires_at_its_time_if_it_has_one(
    sketch: Sketch, until: int | None, expired: bool
) -> None:
    job = sketch.running("job", "a", [0], phase="evicting")
    job.reservation = [Task(0, 1, 0b1, "reserved")]
    job.reservation_until = None if until is None else sketch.state.now + until
    sketch.state.evicting["job"] = None
    assert decided(sketch) == ([("ReservationDropped", "expired", "")] if expired else [])


def test_a_time_without_a_reservation_drops_nothing(sketch: Sketch) -> None:
    job = sketch.running("job", "a", [0], phase="evicting")
    job.reservation_until = 0
    sketch.state.evicting["job"] = None
    assert decided(sketch) == []


def test_of_a_job_that_goes_on_only_the_reserved_tasks_are_dropped(sketch: Sketch) -> None:
    job = sketch.at(sketch.job("job", group(2, gpus=1)), ("a", [0]), ("a", [1]))
    job.tasks[1].eviction = Eviction(1, "preemption", 5)
    job.reservation, job.reservation_until = [Task(1, 1, 0b1, "reserved")], 0
    sketch.state.evicting["job"] = None
    assert decided(sketch) == [("ReservationDropped", "expired", "1")]


# --- reserved tasks


def reserved(sketch: Sketch) -> Job:
    """A gang of two that has not started, on free GPUs."""
    job = sketch.at(sketch.job("job", group(2, gpus=1)), ("a", [0]), ("a", [1]), phase="reserved")
    sketch.state.reserved["job"] = None
    return job


def test_a_reserved_gang_starts_whole(sketch: Sketch) -> None:
    reserved(sketch)
    assert decided(sketch) == [("JobStarting", "", "")]


def test_a_gang_that_would_restart_to_grow_starts_at_once_where_none_of_it_has_started(sketch: Sketch) -> None:
    job = reserved(sketch)
    job.demand = job.demand.model_copy(update={"elastic": "restart"})
    for task in job.tasks:
        task.start_seq = 0
    assert decided(sketch) == [("JobStarting", "", "")]


def test_nothing_starts_while_tasks_that_the_log_lost_may_still_run(sketch: Sketch) -> None:
    reserved(sketch)
    sketch.state.truncation_unreconciled = True
    assert decided(sketch) == []


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_reservation_on_a_drained_node_is_dropped(sketch: Sketch, name: str) -> None:
    reserved(sketch)
    number = sketch.state.node_numbers[name]
    sketch.state.nodes[number].drain, sketch.state.draining = Drain(1, "graceful"), {number: None}
    assert decided(sketch) == [("ReservationDropped", "drain", "") if name == "a" else ("JobStarting", "", "")]


def growing(sketch: Sketch, *, blocked: int, sub_groups: bool = False, elastic: Any = "live") -> Job:
    """Tasks 0 and 1 run, 2 and 3 are reserved: on GPUs 2 and 3, of which others still use the last `blocked`."""
    need = group(4, gpus=1, sub_group="part" if sub_groups else None)
    job = sketch.at(sketch.job("job", need), *(("a", [number]) for number in range(4)))
    groups = (SubGroup(name="part", min_tasks=1),) if sub_groups else ()
    job.demand = job.demand.model_copy(update={"min_tasks": None if sub_groups else 1, "sub_groups": groups, "elastic": elastic})
    node = sketch.state.nodes[0]
    for task in job.tasks[:2]:
        task.start_seq = 0
    for task in job.tasks[2:]:
        task.state = "reserved"
        node.allocated.devices &= ~task.devices
        node.reserved.devices |= task.devices
        node.allocated.slots, node.reserved.slots = node.allocated.slots - 1, node.reserved.slots + 1
    for number in range(4 - blocked, 4):
        sketch.running(f"other-{number}", "a", [number], phase="evicting")
    sketch.state.last_fact, sketch.state.reserved["job"] = 5, None
    return job


@pytest.mark.parametrize(
    ("blocked", "sub_groups", "starts"), [(0, False, "2-3"), (1, False, "2"), (2, False, ""), (0, True, "2-3"), (1, True, "")]
)
def test_surplus_starts_one_by_one_unless_the_job_has_sub_groups(
    sketch: Sketch, blocked: int, sub_groups: bool, starts: str
) -> None:
    growing(sketch, blocked=blocked, sub_groups=sub_groups)
    assert decided(sketch) == ([("JobStarting", "", starts)] if starts else [])


@pytest.mark.parametrize(
    ("blocked", "about", "size"),
    [
        (0, {}, 4),
        (1, {}, 3),
        (2, {}, None),
        (0, {"preemption": 7}, 4),
        (1, {"preemption": 7}, None),  # its victims are evicted for all of its tasks
        (1, {"sub_groups": True}, None),
        (0, {"phase": "starting"}, None),
        (0, {"first": {"state": "exited"}}, None),
        (0, {"first": {"eviction": Eviction(1, "drain", 5)}}, None),
    ],
)
def test_a_gang_that_cannot_grow_live_restarts_with_the_tasks_whose_resources_are_free(
    sketch: Sketch, blocked: int, about: dict[str, Any], size: int | None
) -> None:
    job = growing(sketch, blocked=blocked, sub_groups=about.pop("sub_groups", False), elastic="restart")
    for name, value in about.pop("first", {}).items():
        setattr(job.tasks[0], name, value)
    for name, value in about.items():
        setattr(job, name, value)
    sketch.state.preemptions = {7: Preemption(7, "job", [])}
    tasks = {4: "0-3", 3: "0-2"}
    found = decided(sketch)
    assert found == ([("MigrationDecided", f"it grows to {size} tasks", tasks[size])] if size else [])


# --- timers


def test_a_job_that_was_forgotten_has_no_timers(sketch: Sketch) -> None:
    state = sketch.state
    job = sketch.job("job")
    job.not_before = state.now + MINUTE
    state.indices.changed_times["job"] = None
    assert timers_of(state).next(state.now) == job.not_before
    del state.jobs["job"]
    state.indices.changed_times["job"] = None
    assert timers_of(state).next(state.now) is None
