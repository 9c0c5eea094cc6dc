"""What the allocation index notes of one job: its GPUs by node and task, those that cost nothing, and the work to lose."""

from typing import Any

import pytest
from tests.builders import HOUR, MINUTE, Sketch, group

from bailiff_core.model.demand import SubGroup
from bailiff_core.model.state import Eviction, Job
from bailiff_core.placement.allocation_index import NO_LOSS, AllocationIndex, JobAllocation, NodeAllocation


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    for name in "ab":
        made.node(name)
    return made


def three_sizes(sketch: Sketch, phase: Any = "running", minimum: int | None = None) -> Job:
    """Tasks of one, two and four GPUs on nodes a, a and b."""
    job = sketch.job("asks", group(gpus=1), group(gpus=2), group(gpus=4))
    job.demand = job.demand.model_copy(update={"min_tasks": minimum})
    return sketch.at(job, ("a", [0]), ("a", [1, 2]), ("b", range(4)), phase=phase)


def noted(sketch: Sketch) -> JobAllocation:
    """The only job's entry; the totals of the index are those of the job."""
    index = AllocationIndex.of_pool(sketch.state)
    (found,) = index.of.values()
    assert (index.tasks, index.gpus, index.cpu_milli) == (found.tasks, found.gpus, found.cpu_milli)
    return found


def test_the_gpus_of_each_task_on_each_node(sketch: Sketch) -> None:
    three_sizes(sketch)
    found = noted(sketch)
    assert found.nodes == {0: NodeAllocation(0, [1, 2], 3), 1: NodeAllocation(0, [4], 4)}
    assert (found.tasks, found.gpus) == (3, 7)


@pytest.mark.parametrize(("exited", "gpus"), [(0, {0: [2], 1: [4]}), (1, {0: [1], 1: [4]}), (2, {0: [1, 2]})])
def test_a_task_that_has_ended_has_no_gpus(sketch: Sketch, exited: int, gpus: dict[int, list[int]]) -> None:
    three_sizes(sketch).tasks[exited].state = "exited"
    found = noted(sketch)
    assert {number: here.of_tasks for number, here in found.nodes.items()} == gpus
    assert found.tasks == 2


@pytest.mark.parametrize(("leaving", "gpus"), [(0, {0: [2], 1: [4]}), (1, {0: [1], 1: [4]}), (2, {0: [1, 2], 1: []})])
def test_a_task_that_is_leaving_still_counts_and_its_gpus_do_not(
    sketch: Sketch, leaving: int, gpus: dict[int, list[int]]
) -> None:
    three_sizes(sketch, minimum=1).tasks[leaving].eviction = Eviction(1, "preemption", 0)
    found = noted(sketch)
    assert {number: here.of_tasks for number, here in found.nodes.items()} == gpus
    assert {number: here.staying for number, here in found.nodes.items()} == {number: sum(each) for number, each in gpus.items()}
    assert found.tasks == 3


@pytest.mark.parametrize(
    ("phase", "cost_free", "staying"),
    [("running", 0, 3), ("starting", 0, 3), ("reserved", 3, 3), ("evicting", 0, 0)],
)
def test_reserved_gpus_cost_nothing_and_those_of_a_leaving_job_do_not_stay(
    sketch: Sketch, phase: Any, cost_free: int, staying: int
) -> None:
    three_sizes(sketch, phase)
    here = noted(sketch).nodes[0]
    assert (here.cost_free, here.staying, sum(here.of_tasks)) == (cost_free, staying, 3 - cost_free)


def test_parts_of_gpus_cost_nothing_beside_whole_ones(sketch: Sketch) -> None:
    job = sketch.job("asks", group(gpu_share_milli=500, gpu_devices=2), group(gpus=1))
    sketch.at(job, ("a", [0, 1]), ("a", [2]))
    assert noted(sketch).nodes == {0: NodeAllocation(2, [1], 3)}


def test_cpus_count_of_tasks_without_gpus_only(sketch: Sketch) -> None:
    sketch.at(sketch.job("asks", group(2, cpu=2), group(gpus=1, cpu=4)), ("a", []), ("b", []), ("b", [0]))
    assert noted(sketch).cpu_milli == 4000


@pytest.mark.parametrize(
    ("started", "saved", "since"),
    [
        (HOUR, None, HOUR),
        (HOUR, HOUR + MINUTE, HOUR + MINUTE),
        (HOUR, HOUR - MINUTE, HOUR),  # saved by the attempt before
        (None, None, NO_LOSS),
        (None, HOUR, NO_LOSS),
        (0, None, 0),
    ],
)
def test_the_work_to_lose_is_that_since_the_start_or_the_last_checkpoint(
    sketch: Sketch, started: int | None, saved: int | None, since: int
) -> None:
    job = three_sizes(sketch)
    job.last_start, job.last_checkpoint = started, saved
    assert noted(sketch).since == since


@pytest.mark.parametrize(
    ("minimum", "parts", "shrinks"), [(None, (), False), (3, (), False), (2, (), True), (None, (SubGroup(name="s"),), True)]
)
def test_a_job_shrinks_if_it_has_more_tasks_than_it_needs_or_sub_groups(
    sketch: Sketch, minimum: int | None, parts: tuple[SubGroup, ...], shrinks: bool
) -> None:
    job = three_sizes(sketch, minimum=minimum)
    job.demand = job.demand.model_copy(update={"sub_groups": parts})
    assert noted(sketch).shrinks is shrinks
