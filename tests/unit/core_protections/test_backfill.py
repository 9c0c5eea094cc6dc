"""Small jobs may pass a waiting gang where they cannot delay it; large gangs do not starve."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import HOUR, MINUTE, Sketch, group, requested_unit

from bailiff_core.fold.pending_queue import dequeue
from bailiff_core.model.gpu_shares import task_resources
from bailiff_core.model.resources import remove
from bailiff_core.model.state import Job
from bailiff_core.placement.gang import GangPlacement, place_unit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.queue.backfill import Backfill
from bailiff_core.scheduling_snapshot import current_snapshot

STEPS = 10_000


def limited(job: Job, limit: int) -> Job:
    """The job with a run-time limit."""
    job.demand = job.demand.model_copy(update={"run_time_limit": limit})
    return job


def backfill(sketch: Sketch, head: Job) -> Backfill:
    sketch.state.indices.snapshot = sketch.state.indices.timers = None
    return Backfill(current_snapshot(sketch.state), requested_unit(head), StepBudget(STEPS))


def may_start(sketch: Sketch, head: Job, job: Job) -> bool:
    """Whether the job can be placed now, behind the head; the trial is undone."""
    found = backfill(sketch, head)
    before = {number: (node.unallocated, node.future) for number, node in found._snapshot.cluster.nodes.items()}
    place = found.place(requested_unit(job), StepBudget(STEPS))
    found._snapshot.cluster.rollback(0)
    assert {number: (node.unallocated, node.future) for number, node in found._snapshot.cluster.nodes.items()} == before
    return isinstance(place, GangPlacement) and not place.future


@pytest.fixture
def sketch() -> Sketch:
    """Two nodes of eight GPUs; on `a` four are free, on `b` none."""
    sketch = Sketch()
    sketch.node("a")
    sketch.node("b")
    limited(sketch.running("short", "a", range(4), age=HOUR), 2 * HOUR)
    sketch.running("endless", "b", range(8), age=3 * HOUR)
    return sketch


def test_the_head_starts_when_enough_jobs_have_ended(sketch):
    head = sketch.job("head", group(gpus=8))
    found = backfill(sketch, head)
    assert found.starts == sketch.state.now + HOUR
    assert {number: room.devices for number, room in found.reserved.items()} == {0: 0b11110000}


def test_a_job_without_a_time_limit_may_not_take_what_the_head_needs(sketch):
    head = sketch.job("head", group(gpus=8))
    assert not may_start(sketch, head, sketch.job("small", group(gpus=1)))


def test_a_job_that_ends_before_the_head_starts_may_and_a_later_one_may_not(sketch):
    head = sketch.job("head", group(gpus=8))
    assert may_start(sketch, head, limited(sketch.job("in-time", group(gpus=4)), HOUR))
    assert not may_start(sketch, head, limited(sketch.job("too-late", group(gpus=4)), HOUR + 1))


def test_a_job_that_takes_nothing_that_the_head_needs_may_start(sketch):
    head = sketch.job("head", group(gpus=6))
    assert may_start(sketch, head, sketch.job("two", group(gpus=2)))
    assert not may_start(sketch, head, sketch.job("three", group(gpus=3)))


def test_of_equal_devices_the_head_takes_those_that_others_still_use(sketch):
    head = sketch.job("head", group(gpus=4, cpu=900))
    sketch.job("x")
    sketch.running("last", "a", range(4, 8), age=2 * HOUR)
    found = backfill(sketch, head)
    assert found.starts == sketch.state.now + HOUR
    assert found.reserved[0].devices == 0


def test_cpu_and_memory_are_reserved_as_well():
    sketch = Sketch()
    sketch.node("a", gpus=0, cpu=16, gib=64)
    limited(sketch.at(sketch.job("busy", group(cpu=10)), ("a", ())), 2 * HOUR)
    head = sketch.job("head", group(cpu=12))
    assert may_start(sketch, head, sketch.job("fits", group(cpu=4)))
    assert not may_start(sketch, head, sketch.job("hurts", group(cpu=5)))
    assert may_start(sketch, head, limited(sketch.job("gone-by-then", group(cpu=6)), HOUR))


def test_a_part_of_a_device_is_reserved_for_a_head_that_needs_a_whole_one():
    sketch = Sketch()
    sketch.node("a", gpus=1)
    half = group(gpu_share_milli=500)
    limited(sketch.at(sketch.job("half", half), ("a", (0,))), 2 * HOUR)
    head = sketch.job("head", group(gpus=1))
    assert not may_start(sketch, head, sketch.job("other-half", half))
    assert may_start(sketch, head, limited(sketch.job("quick-half", half), HOUR))


def test_where_the_start_depends_on_jobs_without_a_limit_no_limit_helps(sketch):
    head = sketch.job("head", group(gpus=8, count=2))
    found = backfill(sketch, head)
    assert found.starts is None
    assert not may_start(sketch, head, limited(sketch.job("quick", group(gpus=1)), MINUTE))


def test_of_jobs_without_a_time_limit_the_one_running_longest_is_expected_to_end_first():
    sketch = Sketch()
    for name in "ab":
        sketch.node(name)
    sketch.running("young", "a", range(7), age=HOUR)
    sketch.running("old", "b", range(7), age=2 * HOUR)
    head = sketch.job("head", group(gpus=8))
    assert list(backfill(sketch, head).reserved) == [1], "the head waits for `old` on b"
    assert may_start(sketch, head, sketch.job("small", group(gpus=1))), "on a, that is"


def test_what_a_job_behind_the_head_gets_is_taken():
    sketch = Sketch()
    for name in "ab":
        sketch.node(name)
    sketch.running("young", "a", range(7), age=HOUR)
    sketch.running("old", "b", range(7), age=2 * HOUR)
    found = backfill(sketch, sketch.job("head", group(gpus=8)))
    first, second = (requested_unit(sketch.job(name, group(gpus=1))) for name in ("first", "second"))
    place = found.place(first, StepBudget(STEPS))
    assert isinstance(place, GangPlacement)
    assert [(task.node, task.devices) for task in place.tasks] == [(0, 1 << 7)]
    assert not isinstance(found.place(second, StepBudget(STEPS)), GangPlacement), "the other idle GPU is the head's"


@pytest.mark.parametrize(("one", "other", "ends"), [(3, 1, 20), (3, 2, 30), (4, 2, 40)])
def test_a_head_of_several_kinds_of_tasks_starts_with_the_last_completion_that_it_needs(one: int, other: int, ends: int):
    """Two GPUs are idle, then three, four, five and eight."""
    sketch = Sketch()
    sketch.node("a")
    for number, gpus in enumerate(((0,), (1,), (2,), (3, 4, 5))):
        limited(sketch.running(f"ends-{number}", "a", gpus, age=0), (number + 1) * 10 * MINUTE)
    found = backfill(sketch, sketch.job("head", group(gpus=one), group(gpus=other)))
    assert found.starts == sketch.state.now + ends * MINUTE


def test_a_head_of_several_kinds_of_tasks_waits_for_no_more_jobs_than_it_needs():
    """Two GPUs are idle. It needs five, which three completions free; four would, too."""
    sketch = Sketch()
    sketch.node("a")
    for number, gpus in enumerate(((0,), (1,), (2,), (3, 4, 5))):
        limited(sketch.running(f"ends-{number}", "a", gpus, age=0), (number + 1) * 10 * MINUTE)
    found = backfill(sketch, sketch.job("head", group(gpus=3), group(gpus=2)))
    assert found.starts == sketch.state.now + 30 * MINUTE
    assert found.reserved[0].devices == 0b11000000, "with what three jobs free it needs both idle ones"


def test_a_job_over_its_time_limit_may_end_at_any_moment(sketch):
    limited(sketch.state.jobs["short"], MINUTE)
    head = sketch.job("head", group(gpus=8))
    assert backfill(sketch, head).starts == sketch.state.now
    assert not may_start(sketch, head, limited(sketch.job("quick", group(gpus=1)), MINUTE))


def test_a_starting_job_ends_its_time_limit_from_now():
    sketch = Sketch()
    sketch.node("a")
    job = limited(sketch.running("starting", "a", range(8), phase="starting"), HOUR)
    job.last_start = None
    sketch.state.starting[job.id] = None
    head = sketch.job("head", group(gpus=8))
    assert backfill(sketch, head).starts == sketch.state.now + HOUR
    job.demand = job.demand.model_copy(update={"run_time_limit": None})
    assert backfill(sketch, head).starts is None


def test_a_head_that_does_not_fit_the_empty_pool_delays_no_job(sketch):
    head = sketch.job("head", group(gpus=8, count=3))
    assert backfill(sketch, head).reserved == {}
    assert may_start(sketch, head, sketch.job("small", group(gpus=4)))


def test_a_search_out_of_steps_delays_no_job(sketch):
    head = sketch.job("head", group(gpus=8))
    found = Backfill(current_snapshot(sketch.state), requested_unit(head), StepBudget(0))
    assert found.reserved == {}


# --- passes, simulated


@dataclass
class Cluster:
    """Nodes and jobs over time: ended jobs are removed, then the queue is tried, the head first."""

    sketch: Sketch
    ends: dict[str, int]

    def place(self, job: Job, place: GangPlacement, lasts: int) -> None:
        """Runs the job from now on for the given time."""
        state = self.sketch.state
        places = [(state.nodes[task.node].name, [n for n in range(64) if task.devices >> n & 1]) for task in place.tasks]
        self.sketch.at(job, *places, age=0)
        self.ends[job.id] = state.now + lasts

    def finish(self) -> None:
        """Removes jobs whose run time is over."""
        state = self.sketch.state
        for name in [name for name, end in self.ends.items() if end <= state.now]:
            job = state.jobs.pop(name)
            for task, need in zip(job.tasks, job.groups(), strict=True):
                remove(state.nodes[task.node].allocated, *task_resources(state.nodes[task.node], need, task.devices))
            del self.ends[name], state.active[name]


def run(nodes: int, gang: int, stream: list[tuple[int, int, bool]], *, reserve: bool) -> int | None:
    """Minutes until a gang of whole nodes runs while every minute one of these small jobs arrives for ever."""
    sketch = Sketch()
    cluster = Cluster(sketch, {})
    for number in range(nodes):
        sketch.node(f"n{number}")
    head = None
    for minute in range(240):
        sketch.state.now += MINUTE
        cluster.finish()
        sketch.state.indices.snapshot = sketch.state.indices.timers = None
        if minute == 10:
            head = sketch.job("gang", group(gpus=8, count=gang), seq=1_000_000)
        gpus, lasts, says = stream[minute % len(stream)]
        small = sketch.job(f"s{minute}", group(gpus=gpus))
        if says:
            limited(small, lasts * MINUTE)
        if head is not None:
            place = place_unit(current_snapshot(sketch.state).cluster, requested_unit(head), StepBudget(STEPS))
            if isinstance(place, GangPlacement):
                return minute - 10
        snapshot = current_snapshot(sketch.state)
        snapshot.cluster.rollback(0)
        if head is not None and reserve:
            place = Backfill(snapshot, requested_unit(head), StepBudget(STEPS)).place(requested_unit(small), StepBudget(STEPS))
        else:
            place = place_unit(snapshot.cluster, requested_unit(small), StepBudget(STEPS))
        if isinstance(place, GangPlacement):
            cluster.place(small, place, lasts * MINUTE)
        else:
            dequeue(sketch.state, small)
            del sketch.state.jobs[small.id]
    return None


def test_a_large_gang_starves_under_greedy_and_not_under_reserve():
    stream = [(4, 15, False), (3, 20, False), (2, 25, False)]
    assert run(2, 2, stream, reserve=False) is None
    waited = run(2, 2, stream, reserve=True)
    assert waited is not None
    assert waited <= 25, "it waits for nobody who came after it"


@settings(max_examples=40, deadline=None)
@given(
    nodes=st.integers(1, 3),
    stream=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 30)), min_size=1, max_size=6),
    limits=st.booleans(),
    data=st.data(),
)
def test_a_gang_waits_at_most_for_the_jobs_that_ran_when_it_was_submitted(nodes, stream, limits, data):
    gang = data.draw(st.integers(1, nodes))
    waited = run(nodes, gang, [(gpus, lasts, limits) for gpus, lasts in stream], reserve=True)
    assert waited is not None
    assert waited <= max(lasts for _, lasts in stream)


def test_where_only_some_jobs_have_a_time_limit_the_gang_may_wait_for_one_that_started_later():
    """A job without a limit ends, and the future place moves to a node where the end of a younger job is known."""
    stream = [(1, 1, False), (4, 19, False), (4, 24, False), (1, 12, True)]
    waited = run(2, 1, stream, reserve=True)
    assert waited is not None
    assert 24 < waited <= 24 + 12


@settings(max_examples=40, deadline=None)
@given(
    nodes=st.integers(1, 3),
    stream=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 30), st.booleans()), min_size=1, max_size=6),
    data=st.data(),
)
def test_a_gang_waits_at_most_for_the_jobs_that_ran_and_for_one_time_limit_after_them(nodes, stream, data):
    """Once the start is known it never moves later."""
    gang = data.draw(st.integers(1, nodes))
    waited = run(nodes, gang, stream, reserve=True)
    assert waited is not None
    assert waited <= max(lasts for _, lasts, _ in stream) + max((lasts for _, lasts, limit in stream if limit), default=0)


@settings(max_examples=60, deadline=None)
@given(
    running=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 100), st.integers(0, 100)), min_size=1, max_size=8),
    head=st.integers(2, 8),
    arriving=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 100)), max_size=6),
)
def test_the_expected_start_of_the_head_never_moves_later(running, head, arriving):
    sketch = Sketch()
    for name in "ab":
        sketch.node(name)
    free = {"a": list(range(8)), "b": list(range(8))}
    for number, (gpus, age, limit) in enumerate(running):
        node = "a" if len(free["a"]) >= gpus else "b"
        if len(free[node]) >= gpus:
            taken, free[node] = free[node][:gpus], free[node][gpus:]
            job = sketch.running(f"r{number}", node, taken, age=age * MINUTE)
            if limit:
                limited(job, (age + limit) * MINUTE)
    waiting = sketch.job("head", group(gpus=head, count=2))
    starts = [backfill(sketch, waiting).starts]
    kept = bool(backfill(sketch, waiting).reserved)
    cluster = Cluster(sketch, {})
    for number, (gpus, limit) in enumerate(arriving):
        small = sketch.job(f"s{number}", group(gpus=gpus))
        if limit:
            limited(small, limit * MINUTE)
        place = backfill(sketch, waiting).place(requested_unit(small), StepBudget(STEPS))
        if isinstance(place, GangPlacement):
            cluster.place(small, place, 0)
        if kept:
            starts.append(backfill(sketch, waiting).starts)
    if kept and starts[0] is not None:
        assert all(start is not None and start <= starts[0] for start in starts)
