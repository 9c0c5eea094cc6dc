"""What is free on a node: what running, leaving and reserved tasks hold, and what changes with the node."""

from dataclasses import replace

import pytest
from tests.builders import GIB, Sketch, group
from tests.unit.core_placement.tables import ROOM, need, pool

from bailiff_core.model.state import Device, Resources
from bailiff_core.model.units import Unit, whole_job
from bailiff_core.placement import ClusterResources
from bailiff_core.placement import cluster_resources as resources
from bailiff_core.placement.allocation_index import AllocationIndex
from bailiff_core.placement.packing import take_chunk


@pytest.mark.parametrize(
    ("phase", "unallocated", "future"),
    [("running", 6, 6), ("evicting", 6, 8), ("reserved", 8, 6)],
)
def test_what_a_task_of_2_gib_leaves_of_8(phase: str, unallocated: int, future: int) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=0, gib=8)
    sketch.at(sketch.job("asks", group(gib=2)), ("a", ()), phase=phase)
    node = ClusterResources.of(sketch.state).nodes[0]
    assert (node.unallocated.memory_bytes, node.future.memory_bytes) == (unallocated * GIB, future * GIB)


def test_tasks_on_one_node_take_the_memory_of_all_of_them() -> None:
    cluster = pool(4)
    take_chunk(cluster, need(gpus=1, gib=3), cluster.nodes[0], 0b1111, 2, future=False)
    assert cluster.nodes[0].now().memory_bytes == (1000 - 6) * GIB


def test_members_without_a_place_and_released_ones_hold_nothing() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=4)
    job = sketch.at(sketch.job("gang", group(3, gpus=1)), ("a", [0]), ("a", [1]), ("a", [2]))
    job.tasks[1].state = "released"
    del job.tasks[2]
    (allocated,) = ClusterResources.of(sketch.state).allocation_of(Unit(job, (0, 1, 2), core=True))
    assert allocated[1].devices == 0b001


def test_a_share_of_a_gpu_that_failed_does_not_keep_the_others_from_fitting_again() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    job = sketch.at(sketch.job("parts", group(gpu_share_milli=500, gpu_devices=2)), ("a", [0, 1]))
    cluster = ClusterResources.of(sketch.state)
    cluster.evict(whole_job(job))
    assert cluster.original_place_is_free(whole_job(job))
    sketch.state.nodes[0].devices[0].healthy = False
    after = ClusterResources.of(sketch.state)
    after.evict(whole_job(job))
    assert after.original_place_is_free(whole_job(job))
    after.take(after.nodes[0], Resources(shares={1: 600 * ROOM}), future=True)
    assert not after.original_place_is_free(whole_job(job)), "the GPU that is left must have the share"


def test_only_whole_gpus_are_on_islands() -> None:
    sketch = Sketch()
    node = sketch.node("a", gpus=4)
    node.devices[2:] = [replace(node.devices[n], kind="mig", profile="3g.40gb") for n in (2, 3)]
    for device in node.devices:
        device.island = "x"
    assert ClusterResources.of(sketch.state).nodes[0].islands == {"x": 0b0011}


def test_a_node_with_other_labels_is_another_node_for_those_who_ask_for_labels() -> None:
    sketch = Sketch()
    node = sketch.node("a", labels={"zone": "x"})
    cluster = ClusterResources.of(sketch.state)
    assert cluster.eligible_nodes(need(gpus=1, node_labels={"zone": "y"})) == []
    node.labels = {"zone": "y"}
    cluster.refresh(sketch.state, [0])
    assert [found.name for found, _ in cluster.eligible_nodes(need(gpus=1, node_labels={"zone": "y"}))] == ["a"]


@pytest.mark.parametrize(("kept", "left"), [(2, 2), (1, 0)])
def test_only_so_many_changes_are_remembered(monkeypatch: pytest.MonkeyPatch, kept: int, left: int) -> None:
    monkeypatch.setattr(resources, "MAX_CHANGES", kept)
    sketch = Sketch()
    for name in "ab":
        sketch.node(name)
    cluster = ClusterResources.of(sketch.state)
    for node in sketch.state.nodes.values():
        node.allocated = Resources(0b1, 0, 0, 1)
    cluster.refresh(sketch.state, [0, 1])
    assert len(cluster.changed) == left


@pytest.mark.parametrize(("nodes", "gpus", "covered"), [(2, 4, True), (3, 4, False), (2, 5, False)])
def test_an_index_of_allocations_is_made_for_so_many_nodes_of_so_many_gpus(nodes: int, gpus: int, covered: bool) -> None:
    sketch = Sketch()
    for name in "ab":
        sketch.node(name, gpus=4)
    index = AllocationIndex.of_pool(sketch.state)
    if nodes == 3:
        sketch.node("c", gpus=gpus)
    else:
        sketch.state.nodes[1].devices = [Device(n, f"b-{n}", "h100", ROOM) for n in range(gpus)]
    assert index.covers(sketch.state.nodes.values()) is covered
