"""Exact boundaries of placement: one too little, exactly enough; and what the parts of a pool count as."""

from dataclasses import replace

import pytest
from tests.builders import GIB, Sketch, group, requested_unit
from tests.unit.core_placement.tables import need, pool

from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.state import Device, PoolState
from bailiff_core.placement import GangPlacement, StepBudget, place_unit
from bailiff_core.placement.allocation_index import AllocationIndex
from bailiff_core.placement.cluster_resources import ClusterResources, NodeResources, slots_for
from bailiff_core.placement.free_gpu_index import free_gpu_index_of
from bailiff_core.placement.node_scoring import shared_gpu_rank
from bailiff_core.placement.packing import ANYWHERE, PlacementScope, capacity, offers, take_chunk
from bailiff_core.placement.placement_codec import decode_placement
from bailiff_core.placement.task_requirements import TaskRequirements


def shared_node(cpu: int = 4, gib: int = 4, slots: int = 4) -> NodeResources:
    """One GPU, half of it taken by a task without CPUs and memory, on a node with so much of the rest."""
    sketch = Sketch()
    sketch.node("a", gpus=1, cpu=cpu, gib=gib, slots=slots)
    sketch.at(sketch.job("half", group(gpu_share_milli=500)), ("a", [0]))
    return ClusterResources.of(sketch.state).nodes[0]


@pytest.mark.parametrize(
    ("room", "asked", "fits"),
    [
        ({"cpu": 2}, {"cpu": 2}, True),
        ({"cpu": 1}, {"cpu": 2}, False),
        ({"gib": 2}, {"gib": 2}, True),
        ({"gib": 1}, {"gib": 2}, False),
        ({"slots": 2}, {}, True),
        ({"slots": 1}, {}, False),
        ({}, {"gpu_share_milli": 500}, True),
        ({}, {"gpu_share_milli": 501}, False),
        ({"cpu": 0}, {"cpu_milli": 1}, False),
        ({"gib": 0}, {"memory_bytes": 1}, False),
        ({"cpu": -1}, {}, True),  # it has fewer than its tasks use, and the task needs none
        ({"gib": -1}, {}, True),
    ],
)
def test_a_shared_gpu_takes_a_task_only_with_all_that_it_needs(room, asked, fits):
    need = TaskRequirements.of(group(**{"gpu_share_milli": 250, **asked}))
    assert (shared_gpu_rank(need, shared_node(**room), 1, spread=False) is not None) is fits


def test_a_shared_gpu_that_does_not_match_is_none():
    need = TaskRequirements.of(group(gpu_share_milli=250))
    assert shared_gpu_rank(need, shared_node(), 0, spread=False) is None


def test_a_scope_is_all_nodes_packed_and_without_islands_unless_it_says_otherwise():
    assert PlacementScope() == ANYWHERE == PlacementScope(within=None, labels=(), spread=False, islands=False)


def test_a_scope_bounds_the_nodes_that_a_task_names():
    sketch = Sketch()
    for name in "abc":
        sketch.node(name, gpus=1)
    cluster = ClusterResources.of(sketch.state)
    need = TaskRequirements.of(group(gpus=1, nodes=("a", "c")))
    within = PlacementScope(within=[cluster.nodes[1], cluster.nodes[2]])
    assert [offer.node.name for offer in offers(cluster, need, within, future=False)] == ["c"]
    assert [offer.node.name for offer in offers(cluster, need, ANYWHERE, future=False)] == ["a", "c"]
    assert capacity(cluster, need, within, future=False) == 1


def test_an_island_has_at_least_two_gpus():
    sketch = Sketch()
    node = sketch.node("a", gpus=5)
    node.devices = [Device(n, f"a-{n}", "h100", 80 * GIB, island=island) for n, island in enumerate(("x", "x", "y", "", "x"))]
    assert ClusterResources.of(sketch.state).nodes[0].islands == {"x": 0b10011}


def test_a_pool_without_nodes_has_no_rows():
    index = AllocationIndex.of_pool(PoolState(pool="test"))
    assert (index.all_gpus.tolist(), index.max_devices, index.tasks, index.gpus) == ([], 0, 0, 0)


def test_tasks_that_name_nodes_are_not_placed_where_others_may_be():
    """Two nodes that are alike but for their names: one task names the second, so the other gets the first."""
    sketch = Sketch()
    sketch.node("a", gpus=1)
    sketch.node("b", gpus=1)
    for number, (first, second) in enumerate(((("b",), ()), ((), ("b",)), (("a",), ("b",)), (("b",), ("a",)))):
        job = sketch.job(f"job-{number}", group(gpus=1, nodes=first), group(gpus=1, cpu=1, nodes=second))
        found = place_unit(ClusterResources.of(sketch.state), requested_unit(job), StepBudget(1_000))
        assert isinstance(found, GangPlacement), (first, second)
        for task, names in zip(found.tasks, (first, second), strict=True):
            assert not names or "ab"[task.node] in names


def test_mixed_models_on_a_node_are_shared_exactly():
    """Of two GPUs of a node only one has the model of the whole-GPU task; the part goes to the other."""
    sketch = Sketch()
    sketch.node("a", gpus=2, models=("a100", "h100"))
    job = sketch.job("job", group(gpus=1, gpu_models=("a100",)), group(gpu_share_milli=500))
    found = place_unit(ClusterResources.of(sketch.state), requested_unit(job), StepBudget(1_000))
    assert isinstance(found, GangPlacement)
    assert [task.devices for task in found.tasks] == [0b01, 0b10]


@pytest.mark.parametrize("asked", [{"gpus": 1, "cpu": 1}, {"gpu_share_milli": 500, "cpu": 1}])
def test_a_node_with_fewer_cpus_than_its_tasks_use_has_no_slot_and_no_slots_below_none(asked: dict[str, int]) -> None:
    node = next(iter(pool(2, cpu=1).nodes.values()))
    free = replace(node.future, cpu_milli=-2000)
    assert slots_for(need(**asked), node, free, eligible=0b11) == 0


def test_the_index_of_free_gpus_follows_a_gpu_that_fails() -> None:
    sketch = Sketch()
    for name in ("a", "b"):
        sketch.node(name, gpus=2)
    cluster = ClusterResources.of(sketch.state)
    assert free_gpu_index_of(cluster, need(gpus=1)).free.tolist() == [2, 2]
    sketch.state.nodes[0].devices[1].healthy = False
    cluster.refresh(sketch.state, [0])
    assert free_gpu_index_of(cluster, need(gpus=1)).free.tolist() == [1, 2]


@pytest.mark.parametrize("device", [63, 64])
def test_a_node_has_at_most_64_devices(device: int) -> None:
    job = Sketch().job("asks", group(gpus=2))
    shares = (NodeShare(node=0, tasks="0", devices=f"0,{device}"),)
    if device < 64:
        assert decode_placement(job, shares)[0].devices == 1 << device | 1
    else:
        with pytest.raises(ValueError, match="node 0 has no device 64"):
            decode_placement(job, shares)


def test_the_index_of_free_gpus_counts_those_of_the_model() -> None:
    cluster, of_x = pool(4, models=("x", "y")), need(gpus=1, gpu_models=("x",))
    node = cluster.nodes[0]
    assert (free_gpu_index_of(cluster, of_x).free.tolist(), free_gpu_index_of(cluster, of_x).devices.tolist()) == ([2], [2])
    take_chunk(cluster, need(gpus=1, gpu_models=("y",)), node, 0b1010, 1, future=True)
    assert free_gpu_index_of(cluster, of_x).free.tolist() == [2]
    take_chunk(cluster, of_x, node, 0b0101, 1, future=True)
    assert free_gpu_index_of(cluster, of_x).free.tolist() == [1]
