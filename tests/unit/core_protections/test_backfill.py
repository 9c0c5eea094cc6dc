"""Small jobs may pass a waiting gang where they cannot delay it; what is kept for the gang."""

from dataclasses import dataclass
from typing import Any

import pytest
from tests.kits.builders import HOUR, MINUTE, Sketch, group, requested_unit

from bailiff_core.fold.pending_queue import dequeue
from bailiff_core.model.demand import TopologyRule
from bailiff_core.model.gpu_shares import task_resources, units_of
from bailiff_core.model.policy import DEFAULT_POLICY, Topology
from bailiff_core.model.resources import remove, subtract
from bailiff_core.model.state import Job, Resources
from bailiff_core.placement.cluster_resources import NodeResources
from bailiff_core.placement.gang import GangPlacement, place_unit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.queue.backfill import Backfill, resources_to_reserve
from bailiff_core.scheduling_snapshot import current_snapshot

# --- small jobs may pass a waiting gang where they cannot delay it; large gangs do not starve


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
    place = found.find_place(requested_unit(job), StepBudget(STEPS))
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
    sketch = Sketch(a=1)
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
    sketch = Sketch(a=8, b=8)
    sketch.running("young", "a", range(7), age=HOUR)
    sketch.running("old", "b", range(7), age=2 * HOUR)
    head = sketch.job("head", group(gpus=8))
    assert list(backfill(sketch, head).reserved) == [1], "the head waits for `old` on b"
    assert may_start(sketch, head, sketch.job("small", group(gpus=1))), "on a, that is"


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
            place = Backfill(snapshot, requested_unit(head), StepBudget(STEPS)).find_place(
                requested_unit(small), StepBudget(STEPS)
            )
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


def test_where_only_some_jobs_have_a_time_limit_the_gang_may_wait_for_one_that_started_later():
    """A job without a limit ends, and the future place moves to a node where the end of a younger job is known."""
    stream = [(1, 1, False), (4, 19, False), (4, 24, False), (1, 12, True)]
    waited = run(2, 1, stream, reserve=True)
    assert waited is not None
    assert 24 < waited <= 24 + 12


# --- parts of backfill: when the head starts, what is kept for it, and what is left for the jobs behind it


def behind(ending: Sketch, head: Job, steps: int = STEPS) -> Backfill:
    ending.state.indices.snapshot = ending.state.indices.timers = None
    return Backfill(current_snapshot(ending.state), requested_unit(head), StepBudget(steps))


def place(found: Backfill, job: Job) -> Any:
    """The placement of a job behind the head, which is then allocated."""
    unit = requested_unit(job)
    found_place = found.find_place(unit, StepBudget(STEPS))
    if isinstance(found_place, GangPlacement):
        found._snapshot.cluster.place(unit, found_place)
    return found_place


@pytest.fixture
def ending() -> Sketch:
    """A node of eight GPUs: on each pair a job with a run-time limit, which end one hour after the other."""
    made = Sketch()
    made.node("a", gpus=8, cpu=100)
    for number in range(4):
        limited(made.running(f"j{number}", "a", (2 * number, 2 * number + 1), age=0), (number + 1) * HOUR)
    return made


# --- a head of one kind of tasks


def test_a_head_that_fits_now_starts_now_and_not_by_evictions() -> None:
    made = Sketch(a=4)
    found = behind(made, made.job("head", group(gpus=4)))
    assert (found.starts, found.starts_by_evictions) == (made.state.now, False)


def test_a_head_that_never_fits_starts_by_no_evictions() -> None:
    made = Sketch(a=4)
    found = behind(made, made.job("head", group(gpus=5)))
    assert (found.starts, found.starts_by_evictions, found.reserved) == (None, False, {})


def test_what_one_job_behind_the_head_takes_is_gone_for_the_next() -> None:
    made = Sketch(a=8)
    made.running("old", "a", (0, 1))
    found = behind(made, made.job("head", group(gpus=7)))
    first, second = made.job("first", group(gpus=1)), made.job("second", group(gpus=1))
    got = place(found, first)
    assert isinstance(got, GangPlacement)
    assert not got.future
    assert not isinstance(place(found, second), GangPlacement), "one GPU of eight is left beside the head"


# --- a head of several kinds of tasks


def kinds(ending: Sketch, gpus: int, **rest: Any) -> Job:
    """A head with one task of GPUs and one without."""
    return ending.job("head", group(gpus=gpus), group(cpu=1), **rest)


def test_it_starts_now_where_it_fits_now() -> None:
    made = Sketch(a=4)
    found = behind(made, kinds(made, 4))
    assert (found.starts, found.starts_by_evictions) == (made.state.now, False)


@pytest.mark.parametrize(("gpus", "hours"), [(2, 1), (4, 2), (6, 3), (8, 4)])
def test_it_starts_with_the_last_completion_that_it_needs(ending: Sketch, gpus: int, hours: int) -> None:
    assert behind(ending, kinds(ending, gpus)).starts == ending.state.now + hours * HOUR


@pytest.mark.parametrize(("one", "other"), [(2, 1), (2, 2), (2, 3), (4, 3)])
def test_only_what_it_waits_for_is_expected_to_be_gone(one: int, other: int) -> None:
    """Each of its two tasks fits after fewer completions than both; for both of them, more are tried than are needed."""
    made = Sketch()
    made.node("a", gpus=4, cpu=8)
    for number in range(8):
        limited(made.at(made.job(f"j{number}", group(cpu=1)), ("a", ()), age=0), (number + 1) * HOUR)
    found = behind(made, made.job("head", group(gpus=1, cpu=one), group(cpu=other)))
    assert [unit.job.id for unit in found._future.ended] == [f"j{number}" for number in range(one + other)]


def test_what_is_reserved_stays_as_it_is_while_jobs_behind_the_head_are_tried(ending: Sketch) -> None:
    found = behind(ending, ending.job("head", group(gpus=3)))
    reserved = found.reserved
    limited(ending.state.jobs["j1"], HOUR // 2)
    ending.state.seq += 1
    assert found.reserved is reserved


def test_tasks_that_fit_only_together_wait_for_more_than_each_of_them_would() -> None:
    """Two tasks of one GPU and two CPUs, and one of three CPUs: of five CPUs, two, and then all come free."""
    made = Sketch()
    made.node("a", gpus=4, cpu=5)
    for number in range(3):
        limited(made.at(made.job(f"j{number}", group(cpu=1)), ("a", ()), age=0), (number + 1) * HOUR)
    head = made.job("head", group(gpus=1, cpu=2), group(cpu=3))
    assert behind(made, head).starts == made.state.now + 3 * HOUR
    for steps in range(3):
        assert behind(made, head, steps).reserved == {}, "each of them fits after one completion, and three are too many steps"


def test_it_has_no_start_where_a_job_without_a_limit_must_end_first(ending: Sketch) -> None:
    last = ending.state.jobs["j3"]
    last.demand = last.demand.model_copy(update={"run_time_limit": None})
    found = behind(ending, kinds(ending, 8))
    assert found.starts is None
    assert found.reserved, "it is kept all the same"


def test_where_the_steps_end_before_it_fits_nothing_is_kept(ending: Sketch) -> None:
    head = kinds(ending, 8)
    kept = [bool(behind(ending, head, steps).reserved) for steps in range(6)]
    assert kept == [False, False, False, False, True, True], "a step for each completion"


def test_a_place_is_searched_only_once_each_kind_fits_on_its_own() -> None:
    """Of two GPUs 400 thousandths each are free, and no GPU has 500 before a job ends: a step for that, one for the domain."""
    made = Sketch()
    made.state.policy = DEFAULT_POLICY.model_copy(update={"topologies": (Topology(name="dc", levels=("rack",)),)})
    made.node("a", gpus=2, labels={"rack": "r"})
    for number in range(2):
        limited(made.at(made.job(f"j{number}", group(gpu_share_milli=600)), ("a", [number]), age=0), (number + 1) * HOUR)
    head = made.job("head", group(gpu_share_milli=500), group(cpu=1))
    head.demand = head.demand.model_copy(update={"topology": TopologyRule(topology="dc", required="rack")})
    found = behind(made, head)
    assert found.starts == made.state.now + HOUR
    assert found._budget.used == 2


# --- what is kept


def test_nothing_is_kept_of_a_shared_gpu_that_will_be_whole() -> None:
    made = Sketch()
    made.node("a", gpus=2, cpu=10)
    made.at(made.job("part", group(gpu_share_milli=500)), ("a", [1]))
    node = current_snapshot(made.state).cluster.nodes[0]
    after = Resources(0b11, node.future.cpu_milli, node.future.memory_bytes, node.future.slots)
    assert resources_to_reserve(node, after) == Resources()


# --- what backfill keeps of one node for the head of the queue: just what leaves of the node's future what the head leaves


HALF, PART, REST = 500, 300, 200  # thousandths of a GPU


def one_node(*shares: int, gpus: int = 1) -> NodeResources:
    """A node, on whose first GPU jobs stand with so many thousandths each."""
    sketch = Sketch()
    sketch.node("n", gpus=gpus, cpu=10, gib=10, slots=10)
    for number, share in enumerate(shares):
        sketch.at(sketch.job(f"j{number}", group(gpu_share_milli=share)), ("n", [0]))
    return current_snapshot(sketch.state).cluster.nodes[0]


def units(node: NodeResources, milli: int) -> int:
    return units_of(node.node.devices[0]) * milli // 1000


def kept(node: NodeResources, devices: int, **milli: int) -> Resources:
    """For a head after which these whole devices, and so many thousandths of the first one, stay free."""
    shares = {0: units(node, milli["left"])} if milli else {}
    future = node.future
    after = Resources(devices, future.cpu_milli, future.memory_bytes, future.slots, shares)
    found = resources_to_reserve(node, after)
    remaining = subtract(future, found, node.units)
    assert (remaining.devices, {number: left for number, left in remaining.shares.items() if left}) == (
        devices,
        {number: left for number, left in shares.items() if left},
    ), "what is not kept is what the head leaves"
    return found


def test_nothing_is_kept_where_the_head_takes_nothing() -> None:
    node = one_node(gpus=2)
    assert kept(node, 0b11) == Resources()


def test_of_an_idle_gpu_the_part_that_the_head_takes_is_kept() -> None:
    node = one_node()
    assert kept(node, 0, left=PART) == Resources(shares={0: units(node, 1000 - PART)})


def test_of_a_shared_gpu_the_difference_is_kept() -> None:
    node = one_node(PART)
    assert kept(node, 0, left=HALF) == Resources(shares={0: units(node, REST)})


def test_nothing_is_kept_of_a_shared_gpu_that_will_be_freer_than_the_head_needs() -> None:
    node = one_node(HALF)
    before = node.future.shares[0]
    found = resources_to_reserve(
        node, Resources(0, node.future.cpu_milli, node.future.memory_bytes, node.future.slots, {0: before + 1})
    )
    assert found == Resources()


def test_shares_of_the_second_gpu_are_kept_like_those_of_the_first() -> None:
    sketch = Sketch()
    sketch.node("n", gpus=3, cpu=10, gib=10, slots=10)
    sketch.at(sketch.job("first", group(gpu_share_milli=HALF)), ("n", [0]))
    sketch.at(sketch.job("second", group(gpu_share_milli=PART)), ("n", [1]))
    node = current_snapshot(sketch.state).cluster.nodes[0]
    future = node.future
    shares = {0: future.shares[0], 1: units(node, HALF), 2: units(node, REST)}
    after = Resources(0, future.cpu_milli, future.memory_bytes, future.slots, shares)
    found = resources_to_reserve(node, after)
    assert found == Resources(shares={1: units(node, REST), 2: units(node, 1000 - REST)})


def test_of_a_gpu_that_has_left_the_pool_nothing_is_kept_and_the_others_still_are() -> None:
    node = one_node(PART, gpus=2)
    future = node.future
    after = Resources(0, future.cpu_milli, future.memory_bytes, future.slots, {1: units(node, HALF)})
    node.units = {number: units for number, units in node.units.items() if number}  # the mapping is shared by equal nodes
    assert resources_to_reserve(node, after) == Resources(shares={1: units(node, HALF)})


def test_of_equal_idle_gpus_the_head_gets_those_that_it_was_given() -> None:
    node = one_node(gpus=3)
    future = node.future
    after = Resources(0b101, future.cpu_milli, future.memory_bytes, future.slots)
    assert resources_to_reserve(node, after).devices == 0b010


def test_what_will_be_more_than_now_is_not_kept() -> None:
    node = one_node()
    future = node.future
    after = Resources(future.devices, future.cpu_milli + 3, future.memory_bytes + 5, future.slots + 1)
    assert resources_to_reserve(node, after) == Resources()


def test_of_equal_gpus_the_one_in_use_is_kept_for_the_head() -> None:
    sketch = Sketch(n=2)
    sketch.running("leaves", "n", [1], phase="evicting")
    node = current_snapshot(sketch.state).cluster.nodes[0]
    future = node.future
    after = Resources(0b10, future.cpu_milli, future.memory_bytes, future.slots)
    assert resources_to_reserve(node, after).devices == 0b10, "the idle one is left to others, who may start at once"


def test_a_part_of_an_idle_gpu_is_kept_there_and_not_on_a_gpu_that_others_still_use() -> None:
    sketch = Sketch(n=2)
    sketch.running("leaves", "n", [1], phase="evicting")
    node = current_snapshot(sketch.state).cluster.nodes[0]
    future = node.future
    after = Resources(0b10, future.cpu_milli, future.memory_bytes, future.slots, {0: units(node, HALF)})
    assert resources_to_reserve(node, after) == Resources(shares={0: units(node, HALF)})
