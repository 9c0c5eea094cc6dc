"""Reservations as the fold keeps them: some of their tasks start, their victims pass to another preemptor, they are dropped."""

from typing import Any

import pytest
from tests.builders import Sketch, group

from bailiff_core.fold.allocation import drop_reservation, evict_job, reindex, set_phase, set_reservation
from bailiff_core.fold.preemptions import _evict_victim
from bailiff_core.fold.registry import FOLDS
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.proposal import VictimChoice
from bailiff_core.model.state import Eviction, Job, Preemption, Task
from bailiff_core.records import decisions


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    made.node("a", gpus=8)
    return made


def fold(sketch: Sketch, decision: Any) -> None:
    FOLDS[type(decision)](sketch.state, decision)


def growing(sketch: Sketch) -> Job:
    """It runs on one GPU, and two more are reserved for it, by a preemption."""
    job = sketch.at(sketch.job("job", group(3, gpus=1)), ("a", [0]), ("a", [1]), ("a", [2]))
    for task in job.tasks[1:]:
        task.state = "reserved"
    job.reserved_until, job.preemption = 99, 7
    sketch.state.preemptions[7] = Preemption(7, "job", ["victim"])
    return job


@pytest.mark.parametrize(
    ("tasks", "states", "complete"),
    [
        ("1", ["running", "starting", "reserved"], False),
        ("2", ["running", "reserved", "starting"], False),
        ("0-1", ["running", "starting", "reserved"], False),
        ("1-2", ["running", "starting", "starting"], True),
        ("", ["running", "starting", "starting"], True),
    ],
)
def test_the_preemption_is_complete_when_the_last_reserved_task_starts(
    sketch: Sketch, tasks: str, states: list[str], complete: bool
) -> None:
    job = growing(sketch)
    fold(sketch, decisions.JobStarting(job="job", attempt=1, tasks=tasks))
    assert [task.state for task in job.tasks] == states
    assert (job.reserved_until, job.preemption) == ((None, None) if complete else (99, 7))
    assert list(sketch.state.preemptions) == ([] if complete else [7])
    assert job.phase == "running"


@pytest.mark.parametrize("reserved", [True, False])
def test_a_task_has_an_order_to_start_only_once_it_is_to_start(sketch: Sketch, reserved: bool) -> None:
    """Its number fences older orders: a task that is only reserved has none yet."""
    job = sketch.job("job", group(2, gpus=1))
    sketch.state.seq = 8
    first, second = (NodeShare(node=0, tasks=str(number), devices=str(number)) for number in range(2))
    fold(sketch, decisions.JobPlaced(job="job", attempt=1, placement=(first,), reserved=reserved))
    fold(sketch, decisions.JobGrown(job="job", attempt=1, placement=(second,), reserved=reserved))
    assert [task.start_seq for task in job.tasks] == ([None, None] if reserved else [8, 8])
    sketch.state.seq = 9
    fold(sketch, decisions.JobStarting(job="job", attempt=1))
    assert [task.start_seq for task in job.tasks] == ([9, 9] if reserved else [8, 8])


def test_a_job_without_a_preemption_starts_as_well(sketch: Sketch) -> None:
    job = growing(sketch)
    job.preemption = None
    fold(sketch, decisions.JobStarting(job="job", attempt=1))
    assert (job.reserved_until, list(sketch.state.preemptions)) == (None, [7])


@pytest.mark.parametrize(("steps", "kept"), [((3, 7, None), 7), ((7, 3, 5), 7), ((None, None, None), 4), ((0, None, None), 0)])
def test_a_job_that_is_requeued_has_come_as_far_as_its_furthest_task(sketch: Sketch, steps: Any, kept: int) -> None:
    job = sketch.at(sketch.job("job", group(3, gpus=1)), ("a", [0]), ("a", [1]), ("a", [2]))
    job.step = 4
    for task, step in zip(job.tasks, steps, strict=True):
        task.step = step
    fold(sketch, decisions.JobRequeued(job="job", attempt=1, outcome="lost", cause="exit"))
    assert (job.step, job.tasks) == (kept, [])


@pytest.mark.parametrize(
    ("action", "retries", "again"), [("report", False, False), ("pass", False, True), ("report", True, True)]
)
def test_once_a_job_is_passed_the_others_are_tried_again(sketch: Sketch, action: Any, retries: bool, again: bool) -> None:
    job = sketch.job("job", group(gpus=8))
    sketch.state.indices.retry_unschedulable = retries
    fold(sketch, decisions.ScheduleTimedOut(job="job", waited=1, action=action))
    assert (job.timeout_recorded, sketch.state.indices.retry_unschedulable) == (True, again)


@pytest.mark.parametrize("before", [True, False])
def test_a_gang_is_below_its_minimum_without_the_reservation_and_not_with_it(sketch: Sketch, before: bool) -> None:
    state, job = sketch.state, sketch.at(sketch.job("job", group(2, gpus=1)), ("a", [0]), ("a", [1]))
    job.tasks.pop()
    places = [Task(1, 0, 0b10, "reserved")]
    job.reservation, job.stale_since = (places, None) if before else ([], 5)
    state.indices.changed_times.clear()
    set_reservation(state, job, [] if before else places)
    assert job.stale_since == (state.now if before else None)
    assert list(state.indices.changed_times) == ["job"], "the end of its grace has changed"


def test_to_drop_what_is_not_reserved_frees_nothing(sketch: Sketch) -> None:
    state, job = sketch.state, sketch.running("job", "a", [0])
    job.reservation = [Task(1, 0, 0b10, "reserved")]
    for index, freed in ((0, False), (1, True), (1, False)):
        state.indices.retry_unschedulable = False
        state.indices.changed_times.clear()
        drop_reservation(state, job, [index])
        assert state.indices.retry_unschedulable is freed
        assert bool(state.indices.changed_times) is freed


@pytest.mark.parametrize(("backoff", "evicted", "kept"), [(0, True, True), (1, True, False), (0, False, False)])
def test_a_job_that_moves_keeps_its_new_place_unless_it_has_to_wait(
    sketch: Sketch, backoff: int, evicted: bool, kept: bool
) -> None:
    state, job = sketch.state, sketch.running("job", "a", [0], phase="evicting")
    job.eviction = Eviction(1, "preemption", 5) if evicted else None
    job.reservation = [Task(0, 0, 0b10, "reserved")]
    fold(
        sketch,
        decisions.JobRequeued(job="job", attempt=1, outcome="preempted", cause="preemption", not_before=state.now + backoff),
    )
    assert bool(job.reservation) is kept


def test_a_gang_that_lost_a_task_while_it_was_being_evicted_is_below_its_minimum_once_it_goes_on(sketch: Sketch) -> None:
    job = sketch.at(sketch.job("job", group(2, gpus=1)), ("a", [0]), ("a", [1]))
    job.tasks[1].state = "released"
    fold(sketch, decisions.JobShrunk(job="job", attempt=1, tasks="1", outcome="lost", cause="exit"))
    assert ([task.index for task in job.tasks], job.stale_since) == ([0], sketch.state.now)


def test_a_job_that_ends_needs_its_victims_no_longer(sketch: Sketch) -> None:
    growing(sketch)
    fold(sketch, decisions.JobEnded(job="job", attempt=1, outcome="cancelled"))
    assert sketch.state.preemptions == {}
    assert "victim" in sketch.state.indices.touched, "its eviction may be cancelled"


def choice(job: str, **about: Any) -> VictimChoice:
    return VictimChoice(job=job, attempt=1, priority=50, gpus=1, lost_gpu_ms=0, **about)


def evicted_for(sketch: Sketch, name: str, number: int, preemption: int) -> Job:
    job = sketch.running(name, "a", [number], phase="evicting")
    job.eviction = Eviction(preemption, "preemption", 0, preemption=preemption, for_job="holder")
    return job


@pytest.mark.parametrize(
    ("cancelled", "inherited"), [((), ["first", "second"]), (("first",), ["second"]), (("first", "second"), [])]
)
def test_victims_of_a_reservation_that_is_preempted_are_evicted_for_the_new_preemptor(
    sketch: Sketch, cancelled: tuple[str, ...], inherited: list[str]
) -> None:
    state = sketch.state
    victims = [evicted_for(sketch, "first", 0, 7), evicted_for(sketch, "second", 1, 7)]
    other = evicted_for(sketch, "other", 2, 6)
    holder = sketch.running("holder", "a", [0, 1], phase="reserved")
    holder.preemption = 7
    state.preemptions[7] = Preemption(7, "holder", ["first", "forgotten", "second", "other"])
    state.seq = 9
    new = Preemption(9, "preemptor", [])
    _evict_victim(state, holder, choice("holder", reserved=True), 0, new, cancelled)
    assert new.victims == inherited
    assert [job.eviction.preemption for job in victims if job.eviction] == [9 if job.id in inherited else 7 for job in victims]
    assert [job.eviction.for_job for job in victims if job.eviction] == [
        "preemptor" if job.id in inherited else "holder" for job in victims
    ]
    assert other.eviction is not None
    assert other.eviction.preemption == 6
    assert (holder.phase, holder.tasks) == ("pending", [])


def test_a_victim_is_named_once_and_keeps_what_is_reserved_for_tasks_that_stay(sketch: Sketch) -> None:
    state, job = sketch.state, growing(sketch)
    victim = evicted_for(sketch, "victim", 5, 7)
    state.seq = 9
    new = Preemption(9, "preemptor", [])
    _evict_victim(state, job, choice("job", tasks="2"), 10, new, ())
    assert victim.eviction is not None
    assert victim.eviction.preemption == 7, "task 1 is still reserved"
    assert [task.index for task in job.tasks] == [0, 1]
    _evict_victim(state, job, choice("job", tasks="0"), 10, new, ())
    _evict_victim(state, job, choice("job", tasks="0"), 10, new, ())
    assert new.victims == ["job"]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("index", ["reserved", "starting", "evicting"])
def test_one_task_of_a_job_is_enough_for_an_index(sketch: Sketch, index: str, first: bool) -> None:
    job = sketch.at(sketch.job("job", group(2, gpus=1)), ("a", [0]), ("a", [1]))
    task: Any = job.tasks[0 if first else 1]
    if index == "evicting":
        task.eviction = Eviction(1, "drain", 5)
    else:
        task.state = index
    reindex(sketch.state, job)
    found = {name: list(getattr(sketch.state, name)) for name in ("reserved", "starting", "evicting")}
    assert found == {name: ["job"] if name == index else [] for name in found}


@pytest.mark.parametrize(
    ("phase", "backfilled", "listed"),
    [("running", True, True), ("evicting", True, True), ("running", False, False), ("succeeded", True, False)],
)
def test_backfilled_jobs_are_listed_while_they_have_tasks(sketch: Sketch, phase: Any, backfilled: bool, listed: bool) -> None:
    job = sketch.running("job", "a", [0])
    job.phase, job.backfilled = phase, backfilled
    reindex(sketch.state, job)
    assert ("job" in sketch.state.backfilled) is listed


def test_a_phase_that_stays_changes_nothing(sketch: Sketch) -> None:
    job = sketch.running("job", "a", [0])
    sketch.state.indices.changed_jobs.clear()
    set_phase(sketch.state, job, "running")
    assert sketch.state.indices.changed_jobs == {}
    set_phase(sketch.state, job, "evicting")
    assert list(sketch.state.indices.changed_jobs) == ["job"]


@pytest.mark.parametrize(
    ("phase", "backfilled", "starting"),
    [
        ("starting", ["job"], ["job"]),
        ("running", ["job"], ["job"]),
        ("evicting", ["job"], []),
        ("pending", [], []),
    ],
)
def test_a_job_that_has_no_resources_any_more_or_leaves_them_is_in_no_index_for_jobs_that_do(
    sketch: Sketch, phase: Any, backfilled: list[str], starting: list[str]
) -> None:
    job = sketch.at(sketch.job("job", group(1, gpus=1)), ("a", [0]), phase="starting")
    job.backfilled, job.phase = True, phase
    reindex(sketch.state, job)
    assert (list(sketch.state.backfilled), list(sketch.state.starting)) == (backfilled, starting)


def test_a_job_that_is_evicted_gives_up_all_that_is_reserved_for_it(sketch: Sketch) -> None:
    state, job = sketch.state, growing(sketch)
    job.tasks[1].state, job.reservation = "running", [Task(1, 0, 0b1000, "reserved")]
    node = state.nodes[0]
    node.allocated.devices, node.reserved.devices, node.reserved.slots = 0b011, 0b1100, 2
    evict_job(state, job, Eviction(5, "drain", 5))
    assert ([task.index for task in job.tasks], job.reservation) == ([0, 1], [])
    assert (node.reserved.devices, node.allocated.devices, node.releasing.devices) == (0, 0b011, 0b011)
