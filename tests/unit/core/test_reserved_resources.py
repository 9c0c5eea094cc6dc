"""When reserved tasks start, wait, or lose their reservation."""

from typing import Any

import pytest
from tests.kits.builders import Sketch, group

from bailiff_core.lifecycle.reservations import reservations
from bailiff_core.model.demand import SubGroup, TaskGroup
from bailiff_core.model.gpu_shares import task_resources
from bailiff_core.model.resources import add
from bailiff_core.model.state import Drain, Eviction, Job, Preemption, Task
from bailiff_core.records.decisions import JobStarting, MigrationDecided, ReservationDropped
from bailiff_core.records.payload import Decision

# --- when reserved tasks start, wait, or lose their reservation: device by device, CPU, memory and slots, to the last unit


HALF = group(gpu_share_milli=500)
STARTS, WAITS, LOST = "starts", "waits", "lost"


def outcome(sketch: Sketch) -> str:
    """What becomes of the reservations now."""
    decisions: list[Decision] = list(reservations(sketch.state))
    if not decisions:
        return WAITS
    (decision,) = decisions
    if isinstance(decision, ReservationDropped):
        assert decision.reason == "resources-lost"
        return LOST
    assert isinstance(decision, JobStarting)
    return STARTS


def reserved(sketch: Sketch, need: TaskGroup, *devices: int) -> Job:
    sketch.state.reserved["waits"] = None
    return sketch.at(sketch.job("waits", need), ("a", devices), phase="reserved")


@pytest.mark.parametrize(("milli", "expected"), [(400, STARTS), (500, STARTS), (501, WAITS), (1000, WAITS)])
def test_a_part_of_a_gpu_starts_once_the_rest_of_the_gpu_suffices(milli: int, expected: str) -> None:
    sketch = Sketch(a=2)
    sketch.at(sketch.job("leaves", group(gpu_share_milli=milli)), ("a", [0]), phase="evicting")
    reserved(sketch, HALF, 0)
    assert outcome(sketch) == expected


def test_a_whole_gpu_waits_for_the_last_part_of_it() -> None:
    sketch = Sketch(a=2)
    sketch.at(sketch.job("leaves", group(gpu_share_milli=100)), ("a", [0]), phase="evicting")
    reserved(sketch, group(gpus=2), 0, 1)
    assert outcome(sketch) == WAITS


def test_the_members_of_a_gang_are_added_up() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2, cpu=8)
    sketch.at(sketch.job("leaves", group(cpu=3)), ("a", []), phase="evicting")
    sketch.state.reserved["waits"] = None
    sketch.at(sketch.job("waits", group(2, cpu=3)), ("a", []), ("a", []), phase="reserved")
    assert outcome(sketch) == WAITS


@pytest.mark.parametrize("state", ["unreachable", "lost"])
def test_a_reservation_on_a_node_that_is_gone_is_lost(state: Any) -> None:
    sketch = Sketch()
    sketch.node("a").state = state
    reserved(sketch, HALF, 0)
    assert outcome(sketch) == LOST


@pytest.mark.parametrize(("quarantined", "expected"), [(0b01, LOST), (0b10, STARTS)])
def test_only_the_reserved_gpu_counts_in_quarantine(quarantined: int, expected: str) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2).quarantined = quarantined
    reserved(sketch, group(gpus=1), 0)
    assert outcome(sketch) == expected


# --- tasks that join a running job


def growing(sketch: Sketch, **demand: Any) -> Job:
    """Task 0 runs on GPU 0; GPUs 1 and 2 are reserved for tasks 1 and 2, and `leaves` is being evicted from GPU 2."""
    node = sketch.node("a", gpus=3)
    job = sketch.running("grows", "a", [0])
    job.demand = job.demand.model_copy(update={"tasks": (group(3, gpus=1),), "min_tasks": 1, **demand})
    job.tasks[0].start_seq = sketch.state.last_fact = 0
    job.last_checkpoint = sketch.state.now
    for index in (1, 2):
        job.tasks.append(Task(index, 0, 1 << index, "reserved"))
        add(node.reserved, *task_resources(node, job.group(index), 1 << index))
    sketch.state.reserved["grows"] = None
    sketch.running("leaves", "a", [2], phase="evicting")
    return job


def test_surplus_starts_task_by_task_as_its_gpus_come_free() -> None:
    sketch = Sketch()
    growing(sketch)
    assert [each.to_data() for each in reservations(sketch.state)] == [{"job": "grows", "attempt": 1, "tasks": "1"}]


def test_a_gang_that_restarts_to_grow_takes_what_is_free() -> None:
    sketch = Sketch()
    growing(sketch, elastic="restart")
    (decided,) = reservations(sketch.state)
    assert isinstance(decided, MigrationDecided)
    assert [(share.tasks, share.devices) for share in decided.placement] == [("0-1", "0-1")]
    assert decided.reason.startswith("it grows to 2 tasks: 1.0 GPU-h in 1h for a loss of 0 GPU-s of work")


def test_after_a_preemption_it_restarts_once_all_of_it_is_free() -> None:
    sketch = Sketch()
    growing(sketch, elastic="restart").preemption = 7
    assert list(reservations(sketch.state)) == []
    sketch.state.nodes[0].allocated.devices &= ~0b100
    (found,) = (each for each in reservations(sketch.state) if isinstance(each, MigrationDecided))
    assert found.reason.startswith("it grows to 3 tasks: ")


def test_it_does_not_restart_while_a_member_is_evicted_or_its_node_is_silent() -> None:
    for hinder in ("eviction", "node", "phase"):
        sketch = Sketch()
        job = growing(sketch, elastic="restart")
        if hinder == "eviction":
            job.tasks[0].eviction = sketch.state.jobs["leaves"].eviction
        elif hinder == "node":
            sketch.node("b").state = "unreachable"
            job.tasks.append(Task(3, 1, 0, "running", start_seq=0))
        else:
            job.phase = "starting"
        assert [each for each in reservations(sketch.state) if isinstance(each, MigrationDecided)] == [], hinder


# --- when a reserved task starts, and when a reservation is dropped, decision by decision


@pytest.fixture
def sketch() -> Sketch:
    return Sketch(a=8, b=8)


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


def test_of_a_job_that_goes_on_only_the_reserved_tasks_are_dropped(sketch: Sketch) -> None:
    job = sketch.at(sketch.job("job", group(2, gpus=1)), ("a", [0]), ("a", [1]))
    job.tasks[1].eviction = Eviction(1, "preemption", 5)
    job.reservation, job.reservation_until = [Task(1, 1, 0b1, "reserved")], 0
    sketch.state.evicting["job"] = None
    assert decided(sketch) == [("ReservationDropped", "expired", "1")]


# --- reserved tasks


def reserved_of_reservation_rules(sketch: Sketch) -> Job:
    """A gang of two that has not started, on free GPUs."""
    job = sketch.at(sketch.job("job", group(2, gpus=1)), ("a", [0]), ("a", [1]), phase="reserved")
    sketch.state.reserved["job"] = None
    return job


def test_a_reserved_gang_starts_whole(sketch: Sketch) -> None:
    reserved_of_reservation_rules(sketch)
    assert decided(sketch) == [("JobStarting", "", "")]


def test_a_gang_that_would_restart_to_grow_starts_at_once_where_none_of_it_has_started(sketch: Sketch) -> None:
    job = reserved_of_reservation_rules(sketch)
    job.demand = job.demand.model_copy(update={"elastic": "restart"})
    for task in job.tasks:
        task.start_seq = 0
    assert decided(sketch) == [("JobStarting", "", "")]


def test_nothing_starts_while_tasks_that_the_log_lost_may_still_run(sketch: Sketch) -> None:
    reserved_of_reservation_rules(sketch)
    sketch.state.truncation_unreconciled = True
    assert decided(sketch) == []


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_reservation_on_a_drained_node_is_dropped(sketch: Sketch, name: str) -> None:
    reserved_of_reservation_rules(sketch)
    number = sketch.state.node_numbers[name]
    sketch.state.nodes[number].drain, sketch.state.draining = Drain(1, "graceful"), {number: None}
    assert decided(sketch) == [("ReservationDropped", "drain", "") if name == "a" else ("JobStarting", "", "")]


def growing_of_reservation_rules(sketch: Sketch, *, blocked: int, sub_groups: bool = False, elastic: Any = "live") -> Job:
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
    job.last_checkpoint = sketch.state.now
    return job


@pytest.mark.parametrize(
    ("blocked", "sub_groups", "starts"), [(0, False, "2-3"), (1, False, "2"), (2, False, ""), (0, True, "2-3"), (1, True, "")]
)
def test_surplus_starts_one_by_one_unless_the_job_has_sub_groups(
    sketch: Sketch, blocked: int, sub_groups: bool, starts: str
) -> None:
    growing_of_reservation_rules(sketch, blocked=blocked, sub_groups=sub_groups)
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
    job = growing_of_reservation_rules(sketch, blocked=blocked, sub_groups=about.pop("sub_groups", False), elastic="restart")
    for name, value in about.pop("first", {}).items():
        setattr(job.tasks[0], name, value)
    for name, value in about.items():
        setattr(job, name, value)
    sketch.state.preemptions = {7: Preemption(7, "job", [])}
    tasks = {4: "0-3", 3: "0-2"}
    found = [(kind, reason.partition(":")[0], tasks) for kind, reason, tasks in decided(sketch)]
    assert found == ([("MigrationDecided", f"it grows to {size} tasks", tasks[size])] if size else [])


def test_places_to_grow_are_given_up_once_the_restart_would_lose_more_than_they_win(sketch: Sketch) -> None:
    job = growing_of_reservation_rules(sketch, blocked=0, elastic="restart")
    job.last_checkpoint = sketch.state.now - 58 * 60_000_000  # 2 GPUs in an hour against 2 for 58 minutes, and a minute's restart
    assert [kind for kind, *_ in decided(sketch)] == ["MigrationDecided"]
    job.last_checkpoint -= 60_000_000
    assert decided(sketch) == [("ReservationDropped", "growth-cost", "2-3")]
