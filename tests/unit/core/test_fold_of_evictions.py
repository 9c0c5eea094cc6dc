"""Evictions, preemptions and reservations as the fold keeps them."""

from typing import Any

import pytest
from tests.kits.builders import Sketch, group
from tests.kits.log_builder import policy as rules

from bailiff_core.fold.allocation import drop_reservation
from bailiff_core.fold.preemptions import _evict_victim
from bailiff_core.fold.registry import FOLDS
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.proposal import Explanation, VictimChoice
from bailiff_core.model.state import Eviction, Job, Preemption, Task
from bailiff_core.records import decisions, facts

# --- evictions and preemptions as the fold keeps them: of one task among others, of reserved tasks


@pytest.fixture
def sketch() -> Sketch:
    return Sketch(a=8, b=8)


def fold(sketch: Sketch, record: Any) -> None:
    FOLDS[type(record)](sketch.state, record)


def elastic(sketch: Sketch, *states: Any, name: str = "job") -> Job:
    """Tasks in these states, one GPU each on node a."""
    places = [("a", [len(sketch.state.jobs) * 3 + number]) for number in range(len(states))]
    job = sketch.at(sketch.job(name, group(len(states), gpus=1)), *places)
    for task, state in zip(job.tasks, states, strict=True):
        task.state = state
    return job


def choice(job: str, **about: Any) -> VictimChoice:
    return VictimChoice(job=job, attempt=1, priority=50, gpus=1, lost_gpu_ms=0, **about)


def preempted(action: Any, *victims: VictimChoice, expires: int = 300) -> decisions.PreemptionDecided:
    """For the pending job `preemptor`, on device 7 of node a."""
    return decisions.PreemptionDecided(
        request=1,
        action=action,
        preemptor=decisions.Preemptor(job="preemptor", class_name="train", priority=60),
        attempt=1,
        victims=victims,
        graces=(5,) * len(victims),
        placement=(NodeShare(node=0, tasks="0", devices="7"),),
        expires=expires,
        explanation=Explanation(),
    )


# --- evictions of single tasks


def test_of_the_evicted_tasks_those_that_are_only_reserved_are_dropped(sketch: Sketch) -> None:
    job = elastic(sketch, "running", "running", "reserved")
    eviction = decisions.EvictionDecided(job="job", attempt=1, cause="drain", grace=5, tasks="1-2")
    fold(sketch, eviction)
    assert [(task.index, task.eviction is not None) for task in job.tasks] == [(0, False), (1, True)]


def test_an_eviction_starts_once_and_starts_no_other(sketch: Sketch) -> None:
    state, job = sketch.state, elastic(sketch, "running", "running", "running")
    first, second = Eviction(3, "drain", 5), Eviction(4, "scaled", 5)
    job.tasks[0].eviction, job.tasks[1].eviction = first, second
    state.seq = 6
    fold(sketch, facts.EvictionStarted(job="job", attempt=1, decided_by=4))
    assert (first.started_seq, second.started_seq, second.started_at) == (None, 6, state.now)
    state.seq, state.now = 7, state.now + 1
    fold(sketch, facts.EvictionStarted(job="job", attempt=1, decided_by=4))
    assert (second.started_seq, second.started_at) == (6, state.now - 1), "from here on its agents are notified"


@pytest.mark.parametrize("notified", [True, False])
def test_the_cancelled_eviction_of_a_task_leaves_that_of_its_gang(sketch: Sketch, notified: bool) -> None:
    state, job = sketch.state, elastic(sketch, "running", "running", "running")
    job.phase, job.eviction = "evicting", Eviction(5, "preemption", 5)
    job.tasks[1].eviction = Eviction(3, "drain", 5)
    state.seq = 8
    cancelled = decisions.EvictionCancelled(job="job", attempt=1, preemption=None, notified=notified, reason="", tasks="1")
    fold(sketch, cancelled)
    assert (job.phase, job.eviction.cancel_seq) == ("evicting", None)
    own = job.tasks[1].eviction
    assert (own.cancel_seq if own is not None else None) == (8 if notified else None)
    assert (own is None) is not notified


@pytest.mark.parametrize(("tasks", "left"), [("1", [2]), ("1-2", []), ("0", [1, 2]), ("", [])])
def test_with_the_eviction_of_a_task_the_place_that_was_reserved_for_it_is_given_up(
    sketch: Sketch, tasks: str, left: list[int]
) -> None:
    job = elastic(sketch, "running", "running", "running")
    job.reservation = [Task(index, 1, 1 << index, "reserved") for index in (1, 2)]
    cancelled = decisions.EvictionCancelled(job="job", attempt=1, preemption=None, notified=True, reason="", tasks=tasks)
    fold(sketch, cancelled)
    assert [task.index for task in job.reservation] == left


def test_a_gang_without_the_tasks_that_are_evicted_is_below_its_minimum_from_then_on(sketch: Sketch) -> None:
    job = elastic(sketch, "running", "running")
    fold(sketch, decisions.EvictionDecided(job="job", attempt=1, cause="drain", grace=5, tasks="1"))
    assert job.stale_since == sketch.state.now
    assert list(sketch.state.evicting) == ["job"], "a part of it is being evicted"


# --- victims of a preemption


def test_of_a_job_that_has_not_started_a_reserved_task_alone_may_be_taken(sketch: Sketch) -> None:
    job = sketch.at(sketch.job("job", group(2, gpus=1)), ("a", [0]), ("a", [1]), phase="reserved")
    preemption = Preemption(9, "preemptor", [])
    _evict_victim(sketch.state, job, choice("job", tasks="1", reserved=True), 0, preemption, ())
    assert (job.phase, [task.index for task in job.tasks]) == ("reserved", [0])
    _evict_victim(sketch.state, job, choice("job", reserved=True), 0, preemption, ())
    assert (job.phase, job.tasks) == ("pending", [])


def test_a_job_that_loses_only_reserved_tasks_is_no_victim_whose_eviction_is_awaited(sketch: Sketch) -> None:
    job = elastic(sketch, "running", "running", "reserved")
    preemption = Preemption(9, "preemptor", [])
    _evict_victim(sketch.state, job, choice("job", tasks="2"), 5, preemption, ())
    assert preemption.victims == []
    _evict_victim(sketch.state, job, choice("job", tasks="1"), 5, preemption, ())
    assert preemption.victims == ["job"]


def test_victims_of_a_reservation_pass_to_the_preemptor_only_with_the_last_of_its_reserved_tasks(sketch: Sketch) -> None:
    state = sketch.state
    victim = sketch.at(sketch.job("victim", group(gpus=1)), ("a", [7]), phase="evicting", preemption=7)
    holder = elastic(sketch, "running", "reserved", "reserved", name="holder")
    holder.preemption = 7
    state.preemptions[7] = Preemption(7, "holder", ["victim"])
    assert victim.eviction is not None
    _evict_victim(state, holder, choice("holder", tasks="2"), 5, Preemption(9, "preemptor", []), ())
    assert victim.eviction.preemption == 7
    _evict_victim(state, holder, choice("holder", tasks="1"), 5, last := Preemption(10, "preemptor", []), ())
    assert (victim.eviction.preemption, last.victims) == (10, ["victim"])


def test_a_gang_whose_tasks_are_evicted_one_by_one_is_one_victim(sketch: Sketch) -> None:
    state = sketch.state
    victim = elastic(sketch, "running", "running", "running", name="victim")
    victim.tasks[0].eviction = Eviction(7, "preemption", 5, preemption=7)
    victim.tasks[1].eviction = Eviction(7, "preemption", 5, preemption=7)
    victim.tasks[2].eviction = Eviction(6, "preemption", 5, preemption=6)
    holder = sketch.running("holder", "b", [0], phase="reserved")
    holder.preemption = 7
    state.preemptions[7] = Preemption(7, "holder", ["forgotten", "victim"])
    new = Preemption(9, "preemptor", [])
    _evict_victim(state, holder, choice("holder", reserved=True), 0, new, ())
    assert new.victims == ["victim"]
    assert [task.eviction.preemption for task in victim.tasks if task.eviction is not None] == [9, 9, 6]


@pytest.mark.parametrize(("before", "until"), [(900, 900), (200, 300), (None, 300)])
def test_a_victim_keeps_its_earlier_reservation_beside_the_new_one_until_the_later_time(
    sketch: Sketch, before: int | None, until: int
) -> None:
    job = elastic(sketch, "running", "running", "running")
    sketch.job("preemptor")
    if before is not None:
        job.tasks[2].eviction = Eviction(3, "preemption", 5)
        job.reservation, job.reservation_until = [Task(2, 1, 0b10, "reserved")], before
    moved = choice("job", tasks="1", moved_to=(NodeShare(node=1, tasks="1", devices="0"),))
    fold(sketch, preempted("preempt", moved))
    assert [task.index for task in job.reservation] == ([1] if before is None else [1, 2])
    assert job.reservation_until == until
    assert [(task.state, task.start_seq) for task in job.reservation if task.index == 1] == [("reserved", None)]


@pytest.mark.parametrize(
    ("tasks", "not_relocated", "parts"),
    [("", "", ["job", "job+"]), ("1", "", ["job+"]), ("", "1", ["job+"])],
    ids=("whole", "surplus", "surplus, while the rest moves"),
)
def test_what_of_a_victim_counts_as_displaced(sketch: Sketch, tasks: str, not_relocated: str, parts: list[str]) -> None:
    elastic(sketch, "running", "running")
    sketch.job("preemptor")
    places = (NodeShare(node=1, tasks="0", devices="0"),) if not_relocated else ()
    fold(sketch, preempted("preempt", choice("job", tasks=tasks, not_relocated=not_relocated, moved_to=places)))
    assert list(sketch.state.displaced_by) == parts


@pytest.mark.parametrize(("action", "reclaimed"), [("reclaim", ["theirs"]), ("preempt", []), ("consolidate", [])])
def test_only_reclaim_counts_for_the_cooldown_of_a_project(sketch: Sketch, action: Any, reclaimed: list[str]) -> None:
    sketch.state.policy = rules(projects=[{"name": "ours"}, {"name": "theirs"}])
    sketch.running("job", "a", [0])
    sketch.job("preemptor").project = "ours"
    fold(sketch, preempted(action, choice("job", project="theirs")))
    assert list(sketch.state.reclaimed_at) == reclaimed


# --- reservations as the fold keeps them: some of their tasks start, they are dropped, their victims pass on


def growing(sketch: Sketch) -> Job:
    """It runs on one GPU, and two more are reserved for it, by a preemption."""
    job = sketch.at(sketch.job("job", group(3, gpus=1)), ("a", [0]), ("a", [1]), ("a", [2]))
    for task in job.tasks[1:]:
        task.state = "reserved"
    job.reserved_until, job.preemption = 99, 7
    sketch.state.preemptions[7] = Preemption(7, "job", ["victim"])
    return job


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
