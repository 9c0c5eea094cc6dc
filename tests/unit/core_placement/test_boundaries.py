"""Exact boundaries of placement: one too little, exactly enough; and what the parts of a pool count as."""

import pytest
from tests.kits.builders import GIB, Sketch, group
from tests.kits.searches import need, pool

from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.state import Device
from bailiff_core.placement.cluster_resources import ClusterResources, NodeResources
from bailiff_core.placement.free_gpu_index import free_gpu_index_of
from bailiff_core.placement.node_scoring import shared_gpu_rank
from bailiff_core.placement.packing import take_chunk
from bailiff_core.placement.placement_codec import decode_placement
from bailiff_core.placement.task_requirements import TaskRequirements


def shared_node(cpu: int = 4, gib: int = 4, slots: int = 4) -> NodeResources:
    """One GPU, half of it taken by a task without CPUs and memory, on a node with so much of the rest."""
    sketch = Sketch()
    sketch.node("a", gpus=1, cpu=cpu, gib=gib, slots=slots)
    sketch.at(sketch.job("half", group(gpu_share_milli=500)), ("a", [0]))
    return ClusterResources.of(sketch.state).nodes[0]


def test_a_shared_gpu_that_does_not_match_is_none():
    need = TaskRequirements.of(group(gpu_share_milli=250))
    assert shared_gpu_rank(need, shared_node(), 0, spread=False) is None


def test_an_island_has_at_least_two_gpus():
    sketch = Sketch()
    node = sketch.node("a", gpus=5)
    node.devices = [Device(n, f"a-{n}", "h100", 80 * GIB, island=island) for n, island in enumerate(("x", "x", "y", "", "x"))]
    assert ClusterResources.of(sketch.state).nodes[0].islands == {"x": 0b10011}


def test_the_index_of_free_gpus_follows_a_gpu_that_fails() -> None:
    sketch = Sketch(a=2, b=2)
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
