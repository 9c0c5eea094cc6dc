"""Parts of backfill: when the head starts, what is kept for it, and what is left for the jobs behind it."""

from typing import Any

import pytest
from tests.builders import HOUR, Sketch, group, requested_unit

from bailiff_core.model.demand import TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY, Topology
from bailiff_core.model.state import Job, Resources
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.queue.backfill import Backfill, resources_to_reserve
from bailiff_core.scheduling_snapshot import current_snapshot

STEPS = 10_000


def limited(job: Job, limit: int) -> Job:
    """The job with a run-time limit."""
    job.demand = job.demand.model_copy(update={"run_time_limit": limit})
    return job


def behind(sketch: Sketch, head: Job, steps: int = STEPS) -> Backfill:
    sketch.state.indices.snapshot = sketch.state.indices.timers = None
    return Backfill(current_snapshot(sketch.state), requested_unit(head), StepBudget(steps))


def place(found: Backfill, job: Job) -> Any:
    return found.place(requested_unit(job), StepBudget(STEPS))


@pytest.fixture
def sketch() -> Sketch:
    """A node of eight GPUs: on each pair a job with a run-time limit, which end one hour after the other."""
    made = Sketch()
    made.node("a", gpus=8, cpu=100)
    for number in range(4):
        limited(made.running(f"j{number}", "a", (2 * number, 2 * number + 1), age=0), (number + 1) * HOUR)
    return made


# --- a head of one kind of tasks


def test_a_head_that_fits_now_starts_now_and_not_by_evictions() -> None:
    made = Sketch()
    made.node("a", gpus=4)
    found = behind(made, made.job("head", group(gpus=4)))
    assert (found.starts, found.starts_by_evictions) == (made.state.now, False)


def test_a_head_that_never_fits_starts_by_no_evictions() -> None:
    made = Sketch()
    made.node("a", gpus=4)
    found = behind(made, made.job("head", group(gpus=5)))
    assert (found.starts, found.starts_by_evictions, found.reserved) == (None, False, {})


def test_a_job_that_has_run_for_a_while_needs_only_the_rest_of_its_time(sketch: Sketch) -> None:
    """It asks for a further task an hour after its start, of two hours."""
    head = sketch.job("head", group(gpus=4))
    grows = limited(sketch.job("grows", group(2, gpus=1)), 3 * HOUR)
    found = behind(sketch, head)
    assert found.starts == sketch.state.now + 2 * HOUR
    unit = Unit(grows, (1,), core=False)
    assert not found.completes_before_head(unit)
    grows.last_start = sketch.state.now - HOUR
    assert found.completes_before_head(unit)
    grows.last_start += 1
    assert not found.completes_before_head(unit)


def test_what_one_job_behind_the_head_takes_is_gone_for_the_next() -> None:
    made = Sketch()
    made.node("a", gpus=8)
    made.running("old", "a", (0, 1))
    found = behind(made, made.job("head", group(gpus=7)))
    first, second = made.job("first", group(gpus=1)), made.job("second", group(gpus=1))
    got = place(found, first)
    assert isinstance(got, GangPlacement)
    assert not got.future
    assert not isinstance(place(found, second), GangPlacement), "one GPU of eight is left beside the head"


# --- a head of several kinds of tasks


def kinds(sketch: Sketch, gpus: int, **rest: Any) -> Job:
    """A head with one task of GPUs and one without."""
    return sketch.job("head", group(gpus=gpus), group(cpu=1), **rest)


def test_it_starts_now_where_it_fits_now() -> None:
    made = Sketch()
    made.node("a", gpus=4)
    found = behind(made, kinds(made, 4))
    assert (found.starts, found.starts_by_evictions) == (made.state.now, False)


@pytest.mark.parametrize(("gpus", "hours"), [(2, 1), (4, 2), (6, 3), (8, 4)])
def test_it_starts_with_the_last_completion_that_it_needs(sketch: Sketch, gpus: int, hours: int) -> None:
    assert behind(sketch, kinds(sketch, gpus)).starts == sketch.state.now + hours * HOUR


@pytest.mark.parametrize(("one", "other"), [(2, 1), (2, 2), (2, 3), (4, 3)])
def test_only_what_it_waits_for_is_expected_to_be_gone(one: int, other: int) -> None:
    """Each of its two tasks fits after fewer completions than both; for both of them, more are tried than are needed."""
    made = Sketch()
    made.node("a", gpus=4, cpu=8)
    for number in range(8):
        limited(made.at(made.job(f"j{number}", group(cpu=1)), ("a", ()), age=0), (number + 1) * HOUR)
    found = behind(made, made.job("head", group(gpus=1, cpu=one), group(cpu=other)))
    assert [unit.job.id for unit in found._future.ended] == [f"j{number}" for number in range(one + other)]


def test_what_is_reserved_stays_as_it_is_while_jobs_behind_the_head_are_tried(sketch: Sketch) -> None:
    found = behind(sketch, sketch.job("head", group(gpus=3)))
    reserved = found.reserved
    limited(sketch.state.jobs["j1"], HOUR // 2)
    sketch.state.seq += 1
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


def test_it_has_no_start_where_a_job_without_a_limit_must_end_first(sketch: Sketch) -> None:
    last = sketch.state.jobs["j3"]
    last.demand = last.demand.model_copy(update={"run_time_limit": None})
    found = behind(sketch, kinds(sketch, 8))
    assert found.starts is None
    assert found.reserved, "it is kept all the same"


def test_where_the_steps_end_before_it_fits_nothing_is_kept(sketch: Sketch) -> None:
    head = kinds(sketch, 8)
    kept = [bool(behind(sketch, head, steps).reserved) for steps in range(6)]
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


# --- which jobs are backfilled


def test_one_task_of_the_head_that_could_use_the_node_is_enough() -> None:
    made = Sketch()
    made.node("a", gpus=2, labels={"disk": "fast"})
    made.running("old", "a", (0,))
    head = made.job("head", group(gpus=2, node_labels={"disk": "fast"}), group(gpus=1, node_labels={"disk": "slow"}))
    job = made.job("small", group(gpus=1))
    assert behind(made, head).is_backfilled(job, GangPlacement((TaskPlacement(0, 0, 0b10),), future=False))


# --- what is kept


def test_nothing_is_kept_of_a_shared_gpu_that_will_be_whole() -> None:
    made = Sketch()
    made.node("a", gpus=2, cpu=10)
    made.at(made.job("part", group(gpu_share_milli=500)), ("a", [1]))
    node = current_snapshot(made.state).cluster.nodes[0]
    after = Resources(0b11, node.future.cpu_milli, node.future.memory_bytes, node.future.slots)
    assert resources_to_reserve(node, after) == Resources()
