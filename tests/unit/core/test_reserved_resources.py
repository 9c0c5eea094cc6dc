"""When reserved tasks start, wait, or lose their reservation: device by device, CPU, memory and slots, to the last unit."""

from typing import Any

import pytest
from tests.builders import Sketch, group

from bailiff_core.fold.allocation import drop_reservation
from bailiff_core.lifecycle.reservations import reservations
from bailiff_core.lifecycle.resize import resized_gangs
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.gpu_shares import task_resources
from bailiff_core.model.resources import add
from bailiff_core.model.state import Job, Task
from bailiff_core.records.decisions import JobStarting, MigrationDecided, ReservationDropped
from bailiff_core.records.payload import Decision

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


@pytest.mark.parametrize(
    ("other", "devices", "while_it_runs", "while_it_leaves"),
    [
        (group(gpus=1), (0,), LOST, WAITS),
        (group(gpus=1), (1,), STARTS, STARTS),
        (group(cpu=6), (), STARTS, STARTS),
        (group(cpu=7), (), LOST, WAITS),
        (group(gib=6), (), STARTS, STARTS),
        (group(gib=7), (), LOST, WAITS),
        (group(2), (), STARTS, STARTS),
        (group(3), (), LOST, WAITS),
    ],
)
@pytest.mark.parametrize("leaves", [False, True])
def test_a_whole_gpu_with_cpu_memory_and_a_slot(
    leaves: bool, other: TaskGroup, devices: tuple[int, ...], while_it_runs: str, while_it_leaves: str
) -> None:
    """The node has 2 GPUs, 8 CPUs, 8 GiB and 3 slots, of which 1, 2, 2 and 1 are reserved."""
    sketch = Sketch()
    sketch.node("a", gpus=2, cpu=8, gib=8, slots=3)
    sketch.at(sketch.job("other", other), *[("a", devices)] * other.count, phase="evicting" if leaves else "running")
    reserved(sketch, group(gpus=1, cpu=2, gib=2), 0)
    assert outcome(sketch) == (while_it_leaves if leaves else while_it_runs)


@pytest.mark.parametrize(("milli", "expected"), [(400, STARTS), (500, STARTS), (501, WAITS), (1000, WAITS)])
def test_a_part_of_a_gpu_starts_once_the_rest_of_the_gpu_suffices(milli: int, expected: str) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.at(sketch.job("leaves", group(gpu_share_milli=milli)), ("a", [0]), phase="evicting")
    reserved(sketch, HALF, 0)
    assert outcome(sketch) == expected


def test_a_whole_gpu_waits_for_the_last_part_of_it() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
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
    assert decided.reason == "it grows to 2 tasks"


def test_after_a_preemption_it_restarts_once_all_of_it_is_free() -> None:
    sketch = Sketch()
    growing(sketch, elastic="restart").preemption = 7
    assert list(reservations(sketch.state)) == []
    sketch.state.nodes[0].allocated.devices &= ~0b100
    assert [each.reason for each in reservations(sketch.state) if isinstance(each, MigrationDecided)] == ["it grows to 3 tasks"]


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


def test_a_part_of_what_is_reserved_for_the_next_attempt_is_dropped() -> None:
    sketch = Sketch()
    node = sketch.node("a", gpus=4)
    job = sketch.at(sketch.job("moves", group(2, gpus=1)), ("a", [0]), ("a", [1]), phase="evicting")
    job.reservation, job.reservation_until, job.reservation_action = (
        [Task(0, 0, 4, "reserved"), Task(1, 0, 8, "reserved")],
        9,
        "migrate",
    )
    add(node.reserved, *task_resources(node, group(2, gpus=2), 12))
    drop_reservation(sketch.state, job, [5])
    assert [task.index for task in job.reservation] == [0, 1]
    drop_reservation(sketch.state, job, [0])
    assert ([task.index for task in job.reservation], job.reservation_until, job.reservation_action) == ([1], 9, "migrate")
    assert node.reserved.devices == 8
    drop_reservation(sketch.state, job, [1])
    assert (job.reservation, job.reservation_until, node.reserved.devices) == ([], None, 0)


# --- a gang that lost members for good


@pytest.mark.parametrize(
    ("change", "restarts"),
    [
        ({}, True),
        ({"restart_pending": False}, False),
        ({"phase": "starting"}, False),
        ({"evicted": 1}, False),
        ({"exited": 1}, False),
        ({"finished": 0}, False),
        ({"none-active": 0}, False),
    ],
)
def test_a_gang_restarts_with_fewer_once_nobody_leaves_and_nobody_has_finished(change: dict[str, Any], restarts: bool) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=4)
    job = sketch.at(sketch.job("gang", group(3, gpus=1)), ("a", [0]), ("a", [1]), ("a", [2]))
    job.restart_pending = True
    sketch.state.indices.touched["gang"] = None
    for name, value in change.items():
        if name == "evicted":
            sketch.running("other", "a", [3], phase="evicting")
            job.tasks[value].eviction = sketch.state.jobs["other"].eviction
        elif name == "exited":
            job.tasks[value].state = "exited"
        elif name == "finished":
            job.tasks[value].state, job.tasks[value].exit_code = "released", 0
        elif name == "none-active":
            for task in job.tasks:
                task.state = "reserved"
        else:
            setattr(job, name, value)
    assert [type(each) for each in resized_gangs(sketch.state)] == [MigrationDecided] * restarts
