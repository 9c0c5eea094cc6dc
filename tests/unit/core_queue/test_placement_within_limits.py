"""Tasks that request MiB of a GPU count by its size: within a limit they go to larger ones where they exceed it on smaller."""

from typing import Any

import pytest
from tests.kits.builders import GIB, Sketch, group, requested_unit
from tests.kits.pools import project

from bailiff_core.model.demand import TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY, Topology
from bailiff_core.model.state import Job
from bailiff_core.placement import GangPlacement, NoFit, StepBudget
from bailiff_core.quota.quota_aware_placement import _only_on, _sizes, place_within_bounds
from bailiff_core.scheduling_snapshot import SchedulingSnapshot, current_snapshot


def pool(limit: float, **gib: int) -> Sketch:
    """Nodes with one GPU of so many GiB, or none, and a project that may use so many GPUs."""
    made = Sketch()
    topology = Topology(name="dc", levels=("rack",))
    made.state.policy = DEFAULT_POLICY.model_copy(
        update={"projects": (project("team", limit={"gpus": limit}),), "topologies": (topology,)}
    )
    for name, size in gib.items():
        node = made.node(name, gpus=1 if size else 0, cpu=4, labels={"rack": "r"})
        for device in node.devices:
            device.memory_bytes = size * GIB
    return made


def asks(sketch: Sketch, *groups: Any, **rest: Any) -> Job:
    job = sketch.job("asks", *groups)
    job.project = "team"
    job.demand = job.demand.model_copy(update=rest)
    return job


def placed(sketch: Sketch, job: Job, **options: Any) -> list[str] | str:
    """The node of each task, or what the placement exceeds."""
    sketch.state.indices.snapshot = None
    snapshot = current_snapshot(sketch.state)
    before = free(snapshot)
    found = place_within_bounds(snapshot, requested_unit(job), StepBudget(1000), **options)
    if not isinstance(found, GangPlacement):
        assert free(snapshot) == before, "nothing stays taken"
        return "no fit" if isinstance(found, NoFit) else found
    return [sketch.state.nodes[task.node].name for task in found.tasks]


def free(snapshot: SchedulingSnapshot) -> list[Any]:
    return [(node.unallocated, node.future) for node in snapshot.cluster.nodes.values()]


PART = group(gpu_share_bytes=20 * GIB)  # half of a GPU of 40 GiB, a quarter of one of 80


@pytest.mark.parametrize(("limit", "nodes"), [(0.5, ["a"]), (0.25, ["b"])])
def test_the_best_place_is_taken_where_it_is_within_the_limit_and_else_a_larger_gpu(limit: float, nodes: list[str]) -> None:
    sketch = pool(limit, a=40, b=80)
    assert placed(sketch, asks(sketch, PART)) == nodes


def test_beyond_the_limit_everywhere_the_first_violation_is_named() -> None:
    sketch = pool(0.2, a=40, b=80)
    assert placed(sketch, asks(sketch, PART)) == "project team would use 0.5 of its limit of 0.2 GPUs"


def test_where_one_size_is_too_few_the_largest_ones_are_filled_first() -> None:
    """Five parts fit on no single size: four on the GPU of 80 GiB, and one on that of 40."""
    sketch = pool(1.5, a=40, b=80, c=24)
    assert placed(sketch, asks(sketch, group(5, gpu_share_bytes=20 * GIB))) == ["b", "b", "b", "b", "a"]


def test_a_node_without_gpus_is_no_place_for_them_and_takes_the_other_tasks() -> None:
    sketch = pool(1.5, a=40, b=80, c=24, d=0)
    job = asks(sketch, group(5, gpu_share_bytes=20 * GIB), group(2, cpu=3))
    assert _sizes(current_snapshot(sketch.state).cluster) == {"a": 40_000 * GIB, "b": 80_000 * GIB, "c": 24_000 * GIB}
    found = placed(sketch, job)
    assert found[:5] == ["b", "b", "b", "b", "a"]
    assert "d" in found[5:], "tasks without GPUs avoid nodes with GPUs"


def test_the_size_of_a_node_is_that_of_its_smallest_gpu() -> None:
    sketch = pool(1)
    for device, gib in zip(sketch.node("a", gpus=2).devices, (80, 40), strict=True):
        device.memory_bytes = gib * GIB
    assert _sizes(current_snapshot(sketch.state).cluster) == {"a": 40_000 * GIB}


@pytest.mark.parametrize(("own", "allowed"), [((), ("a", "b")), (("b", "c"), ("b",)), (("c",), ("",))])
def test_only_tasks_that_request_mib_are_bound_and_to_nodes_of_their_own_list(
    own: tuple[str, ...], allowed: tuple[str, ...]
) -> None:
    job = Sketch().job("asks", group(gpu_share_bytes=GIB, nodes=own), group(cpu=1, nodes=own))
    bound, other = _only_on(requested_unit(job), ["a", "b"]).job.demand.tasks
    assert (bound.nodes, other.nodes) == (allowed, own)


def test_a_job_with_a_topology_rule_is_not_placed_size_by_size() -> None:
    sketch = pool(1.5, a=40, b=80, c=24)
    job = asks(sketch, group(5, gpu_share_bytes=20 * GIB), topology=TopologyRule(topology="dc", required="rack"))
    assert "of its limit of 1.5 GPUs" in placed(sketch, job)


@pytest.mark.parametrize(("wanted", "problem"), [({"gpus": 1}, None), ({"gpu_share_bytes": 20 * GIB}, "over")])
def test_whole_gpus_are_placed_without_a_look_at_the_bounds(wanted: dict[str, int], problem: str | None) -> None:
    sketch = pool(9, a=40)
    found = place_within_bounds(
        current_snapshot(sketch.state), requested_unit(asks(sketch, group(**wanted))), StepBudget(1000), over=lambda _: "over"
    )
    assert (None if isinstance(found, GangPlacement) else found) == problem


def test_size_by_size_a_part_that_must_wait_makes_all_of_it_wait() -> None:
    """The GPU of 80 GiB, which is filled first, is not free yet; that of 40 is."""
    sketch = pool(9, a=40, b=80, c=24)
    sketch.at(sketch.job("leaves", group(gpu_share_bytes=70 * GIB)), ("b", [0]), phase="evicting")
    job, answers = asks(sketch, group(5, gpu_share_bytes=20 * GIB)), iter(["the best place", "all on 40 and more", None])
    found = place_within_bounds(
        current_snapshot(sketch.state), requested_unit(job), StepBudget(1000), over=lambda _: next(answers)
    )
    assert isinstance(found, GangPlacement)
    assert [task.node for task in found.tasks] == [1, 1, 1, 1, 0]
    assert found.future


def test_size_by_size_the_other_tasks_may_not_fit_one_kind_after_the_other() -> None:
    """The task of one CPU comes first, and takes it where another task needs all four."""
    sketch = pool(0.2, a=40, b=80)
    sketch.state.nodes[1].capacity.cpu_milli = 3000
    job = asks(sketch, group(cpu=1), group(cpu=4), PART)
    assert placed(sketch, job) == "project team would use 0.5 of its limit of 0.2 GPUs"


def test_a_reservation_is_one_in_every_way() -> None:
    sketch = pool(1.5, a=40, b=80, c=24)
    for count in (1, 2, 5):
        job = asks(sketch, group(count, gpu_share_bytes=20 * GIB))
        snapshot = current_snapshot(sketch.state)
        found = place_within_bounds(snapshot, requested_unit(job), StepBudget(1000), reserve=True)
        assert isinstance(found, GangPlacement)
        assert found.future, count
        snapshot.cluster.rollback(0)
        del sketch.state.jobs["asks"]


def test_the_caller_may_say_what_a_placement_exceeds() -> None:
    sketch = pool(9, a=40, b=80)
    job = asks(sketch, PART)
    assert placed(sketch, job, over=lambda place: None if place.tasks[0].node == 1 else "too small") == ["b"]
    assert placed(sketch, job, over=lambda _: "never") == "never"


def test_where_size_by_size_not_all_tasks_fit_the_violation_of_the_best_place_remains() -> None:
    """The task without GPUs is placed first, on the node of the smaller GPU, whose CPUs the fifth part would need."""
    sketch = pool(1.5, a=40, b=80)
    sketch.state.nodes[1].capacity.cpu_milli = 8000
    job = asks(sketch, group(5, gpu_share_bytes=20 * GIB, cpu=1), group(cpu=4))
    assert placed(sketch, job) == "project team would use 1.75 of its limit of 1.5 GPUs"


def test_what_fits_nowhere_is_no_question_of_limits() -> None:
    assert placed(pool(9, a=40), asks(pool(9, a=40), group(3, gpu_share_bytes=20 * GIB))) == "no fit"
