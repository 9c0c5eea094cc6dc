"""What is free on the nodes of a pool, and what a task requires of it."""

from dataclasses import replace

import pytest
from tests.kits.builders import GIB, Sketch, group, requested_unit
from tests.kits.searches import ROOM, need, pool

from bailiff_core.model.state import Device, Job
from bailiff_core.model.units import Unit
from bailiff_core.placement import ClusterResources, GangPlacement, StepBudget, place_unit
from bailiff_core.placement.allocation_index import AllocationIndex
from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.scheduling_snapshot import current_snapshot

# --- what is free on a node: what running, leaving and reserved tasks hold, and what changes with the node


def test_members_without_a_place_and_released_ones_hold_nothing() -> None:
    sketch = Sketch(a=4)
    job = sketch.at(sketch.job("gang", group(3, gpus=1)), ("a", [0]), ("a", [1]), ("a", [2]))
    job.tasks[1].state = "released"
    del job.tasks[2]
    (allocated,) = ClusterResources.of(sketch.state).allocation_of(Unit(job, (0, 1, 2), core=True))
    assert allocated[1].devices == 0b001


@pytest.mark.parametrize(("nodes", "gpus", "covered"), [(2, 4, True), (3, 4, False), (2, 5, False)])
def test_an_index_of_allocations_is_made_for_so_many_nodes_of_so_many_gpus(nodes: int, gpus: int, covered: bool) -> None:
    sketch = Sketch(a=4, b=4)
    index = AllocationIndex.of_pool(sketch.state)
    if nodes == 3:
        sketch.node("c", gpus=gpus)
    else:
        sketch.state.nodes[1].devices = [Device(n, f"b-{n}", "h100", ROOM) for n in range(gpus)]
    assert index.covers(sketch.state.nodes.values()) is covered


# --- the free resources of a pool after its nodes have changed, and what is known of a node, of a unit, and of the empty pool


@pytest.fixture
def sketch() -> Sketch:
    return Sketch(a=2, b=2, c=2)


def gone_and_back(sketch: Sketch, cluster: ClusterResources, number: int) -> None:
    for state in ("lost", "ready"):
        sketch.state.nodes[number].state = state  # type: ignore[assignment]
        cluster.refresh(sketch.state, [number])


# --- the order of nodes


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_node_that_comes_back_has_its_place_in_the_order_again(sketch: Sketch, number: int) -> None:
    cluster = ClusterResources.of(sketch.state)
    gone_and_back(sketch, cluster, number)
    assert list(cluster.nodes) == [0, 1, 2]


def test_islands_are_in_the_order_of_their_names() -> None:
    sketch = Sketch()
    node = sketch.node("a", gpus=5)
    for device, island in zip(node.devices, ("", "y", "x", "y", "x"), strict=True):
        device.island = island
    assert list(ClusterResources.of(sketch.state).nodes[0].islands.items()) == [("x", 0b10100), ("y", 0b01010)]


# --- a node that changes


def test_other_gpus_in_the_same_slots_are_other_gpus(sketch: Sketch) -> None:
    cluster, of_b200 = ClusterResources.of(sketch.state), need(gpus=1, gpu_models=("b200",))
    assert cluster.eligible_nodes(of_b200) == []
    sketch.state.nodes[1].devices = [Device(n, f"new-{n}", "b200", ROOM) for n in range(2)]
    cluster.refresh(sketch.state, [1])
    assert [(node.name, mask) for node, mask in cluster.eligible_nodes(of_b200)] == [("b", 0b11)]


# --- shares


@pytest.mark.parametrize(
    ("sizes", "largest"), [((), 1), ((80,), 80_000 * GIB), ((80, 40), 80_000 * GIB), ((40, 80), 80_000 * GIB)]
)
def test_the_largest_gpu_of_the_pool(sizes: tuple[int, ...], largest: int) -> None:
    """A node has no devices, and a larger one on another node is a MIG device."""
    sketch = Sketch(none=0)
    mig = sketch.node("mig", gpus=1)
    mig.devices[0] = replace(mig.devices[0], kind="mig", profile="7g.160gb", memory_bytes=160 * GIB)
    for number, size in enumerate(sizes):
        sketch.node(f"n{number}", gpus=1).devices[0].memory_bytes = size * GIB
    assert ClusterResources.of(sketch.state).largest_device() == largest


# --- what a unit holds


@pytest.fixture
def gang(sketch: Sketch) -> Job:
    """Tasks of one GPU, one CPU and one GiB on a, a and b."""
    return sketch.at(sketch.job("gang", group(3, gpus=1, cpu=1, gib=1)), ("a", [0]), ("a", [1]), ("b", [0]))


def held(cluster: ClusterResources, unit: Unit) -> dict[str, int]:
    return {node.name: amount.devices for node, amount in cluster.allocation_of(unit)}


def test_a_unit_holds_what_its_tasks_hold_now(sketch: Sketch, gang: Job) -> None:
    cluster, unit = ClusterResources.of(sketch.state), Unit(gang, (7, 0, 1, 2), core=True)
    assert held(cluster, unit) == {"a": 0b11, "b": 0b01}, "one of these tasks is not there"
    gang.tasks[1].state = "exited"
    cluster.refresh(sketch.state, [0])
    assert held(cluster, unit) == {"a": 0b01, "b": 0b01}
    sketch.state.nodes[1].state = "lost"
    cluster.refresh(sketch.state, [1])
    assert held(cluster, unit) == {"a": 0b01}


def test_a_task_that_is_placed_later_is_held_then(sketch: Sketch, gang: Job) -> None:
    cluster, unit, last = ClusterResources.of(sketch.state), Unit(gang, (2,), core=False), gang.tasks.pop()
    assert held(cluster, unit) == {}
    gang.tasks.append(last)
    cluster.refresh(sketch.state, [1])
    assert held(cluster, unit) == {"b": 0b01}


def test_a_node_is_shared_out_as_models_and_profiles() -> None:
    sketch = Sketch()
    node = sketch.node("a", gpus=4, models=("x", "x", "y", "y"))
    node.devices[3] = replace(node.devices[3], kind="mig", profile="1g.10gb")
    node.devices[1].healthy = False
    found = ClusterResources.of(sketch.state).nodes[0]
    assert (found.models, found.profiles) == ({"x": 0b0001, "y": 0b1100}, {"": 0b0101, "1g.10gb": 0b1000})
    assert [found.devices_of(models, profile) for models, profile in (((), ""), (("y",), ""), (("y", "z"), "1g.10gb"))] == [
        0b0101,
        0b0100,
        0b1000,
    ]
    assert found.devices_of((), "2g.20gb") == found.devices_of(("z",), "") == 0
    assert pool(0).nodes[0].devices_of((), "") == 0


# --- which nodes and devices a task may use: named nodes, and models of GPUs


def test_a_share_is_taken_of_a_device_of_the_model_that_is_already_shared():
    sketch = Sketch()
    sketch.node("n1", gpus=4, models=("a100", "h100"))
    for number in (0, 1):
        half = sketch.job(f"half-{number}", group(gpu_share_milli=500))
        sketch.at(half, ("n1", [number]))
    unit = requested_unit(sketch.job("wants-h100", group(gpu_share_milli=500, gpu_models=("h100",))))
    place = place_unit(current_snapshot(sketch.state).cluster, unit, StepBudget(1000))
    assert isinstance(place, GangPlacement)
    assert [task.devices for task in place.tasks] == [1 << 1]


# --- what a task requires, from its group: one form for equal requirements, and the resources that it takes of a node


@pytest.mark.parametrize(("share", "hosts"), [(ROOM, 2), (ROOM + 1, 0), (1, 2)])
def test_a_gpu_hosts_a_share_of_all_its_memory_and_no_more(share: int, hosts: int) -> None:
    assert need(gpu_share_bytes=share).hosts(pool(2).nodes[0].units, 0b11) == hosts


# --- which projects must stay within their fair share when the victims of an answer are to stay


def test_the_labels_of_a_requirement_are_in_the_order_of_their_names() -> None:
    wanted = group(gpus=1).model_copy(update={"node_labels": {"zone": "a", "rack": "b"}})
    assert TaskRequirements.of(wanted).labels == (("rack", "b"), ("zone", "a"))
