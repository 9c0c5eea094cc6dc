"""The free resources of a pool after its nodes have changed, and what is known of a node, of a unit, and of the empty pool."""

from dataclasses import replace
from typing import Any

import pytest
from tests.builders import GIB, Sketch, group, requested_unit
from tests.unit.core_placement.tables import ROOM, need, pool

from bailiff_core.model.state import Device, Job, Resources
from bailiff_core.model.units import Unit, whole_job
from bailiff_core.placement import ClusterResources, GangPlacement, TaskPlacement
from bailiff_core.placement import cluster_resources as resources
from bailiff_core.placement.packing import ANYWHERE, offers


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    for name in "abc":
        made.node(name, gpus=2)
    return made


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


def test_nodes_are_in_the_order_of_their_numbers(sketch: Sketch) -> None:
    sketch.state.nodes = dict(reversed(sketch.state.nodes.items()))
    assert list(ClusterResources.of(sketch.state).nodes) == [0, 1, 2]


def test_nodes_that_a_task_names_are_in_the_order_of_their_names(sketch: Sketch) -> None:
    cluster = ClusterResources.of(sketch.state)
    asked = need(gpus=1)._replace(nodes=("c", "unknown", "a"))
    assert [node.name for node, _ in cluster.eligible_nodes(asked)] == ["a", "c"]


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


def test_a_quarantined_gpu_is_not_usable(sketch: Sketch) -> None:
    sketch.state.nodes[0].quarantined = 0b01
    assert ClusterResources.of(sketch.state).nodes[0].usable == 0b10


def test_what_was_tried_is_undone_when_a_node_changes(sketch: Sketch) -> None:
    cluster = ClusterResources.of(sketch.state)
    cluster.take(cluster.nodes[0], Resources(0b11, 0, 0, 1), future=False)
    cluster.refresh(sketch.state, [1])
    assert cluster.nodes[0].now().devices == 0b11


@pytest.mark.parametrize("looked_before", [True, False])
def test_an_index_of_nodes_knows_the_changes_from_before_the_list_of_them_was_cut(
    sketch: Sketch, monkeypatch: pytest.MonkeyPatch, looked_before: bool
) -> None:
    monkeypatch.setattr(resources, "MAX_CHANGES", 0)
    cluster = ClusterResources.of(sketch.state)

    def free() -> list[tuple[str, int]]:
        return [(offer.node.name, offer.count) for offer in offers(cluster, need(gpus=1), ANYWHERE, future=False)]

    assert free() == [("a", 2), ("b", 2), ("c", 2)]
    sketch.state.nodes[0].allocated = Resources(0b01, 0, 0, 1)
    cluster.refresh(sketch.state, [0])
    if looked_before:
        assert free() == [("a", 1), ("b", 2), ("c", 2)]
    cluster.take(cluster.nodes[1], Resources(0b11, 0, 0, 1), future=False)
    assert free() == [("a", 1), ("c", 2)]


# --- shares


@pytest.mark.parametrize(
    ("phase", "shared", "whole_later"), [("running", True, False), ("reserved", True, False), ("evicting", True, True)]
)
def test_a_gpu_is_shared_while_a_part_is_in_use_or_reserved(phase: Any, shared: bool, whole_later: bool) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.at(sketch.job("part", group(gpu_share_milli=400)), ("a", [0]), phase=phase)
    node = ClusterResources.of(sketch.state).nodes[0]
    assert [node.is_shared(number) for number in (0, 1)] == [shared, False]
    assert (node.future.devices, node.future.shares) == ((0b11, {}) if whole_later else (0b10, {0: 600 * ROOM}))


@pytest.mark.parametrize(
    ("sizes", "largest"), [((), 1), ((80,), 80_000 * GIB), ((80, 40), 80_000 * GIB), ((40, 80), 80_000 * GIB)]
)
def test_the_largest_gpu_of_the_pool(sizes: tuple[int, ...], largest: int) -> None:
    """A node has no devices, and a larger one on another node is a MIG device."""
    sketch = Sketch()
    sketch.node("none", gpus=0)
    mig = sketch.node("mig", gpus=1)
    mig.devices[0] = replace(mig.devices[0], kind="mig", profile="7g.160gb", memory_bytes=160 * GIB)
    for number, size in enumerate(sizes):
        sketch.node(f"n{number}", gpus=1).devices[0].memory_bytes = size * GIB
    assert ClusterResources.of(sketch.state).largest_device() == largest


# --- the empty pool


def test_the_empty_pool_has_all_devices_that_may_come_back(sketch: Sketch) -> None:
    sketch.running("job", "a", [0, 1])
    lost, gone, ill = sketch.state.nodes.values()
    lost.state = "lost"
    gone.devices[0].gone, gone.devices[0].healthy = True, False
    ill.devices[0].healthy, ill.quarantined, ill.state = False, 0b10, "unreachable"
    found = ClusterResources.of_empty_pool(sketch.state)
    assert {node.name: (node.usable, node.now().devices) for node in found.nodes.values()} == {
        "b": (0b10, 0b10), "c": (0b11, 0b11),
    }  # fmt: skip


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


@pytest.mark.parametrize(("taken", "free"), [((), True), (("a",), False), (("b",), False), (("a", "b"), False)])
def test_a_unit_fits_again_where_all_of_its_places_are_free(
    sketch: Sketch, gang: Job, taken: tuple[str, ...], free: bool
) -> None:
    cluster = ClusterResources.of(sketch.state)
    cluster.evict(whole_job(gang))
    for name in taken:
        cluster.take(cluster.by_name()[name], Resources(0b01, 0, 0, 1), future=True)
    assert cluster.original_place_is_free(whole_job(gang)) is free


@pytest.mark.parametrize("future", [False, True])
def test_a_placement_takes_a_slot_and_the_resources_of_each_task(future: bool) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=4, cpu=8, gib=8, slots=8)
    job = sketch.job("asks", group(2, gpus=1, cpu=2, gib=3))
    cluster = ClusterResources.of(sketch.state)
    cluster.place(requested_unit(job), GangPlacement((TaskPlacement(0, 0, 0b01), TaskPlacement(1, 0, 0b10)), future))
    left = Resources(0b1100, 4000, 2 * GIB, 6)
    assert (cluster.nodes[0].unallocated == left, cluster.nodes[0].future == left) == (not future, True)


@pytest.mark.parametrize(
    ("phase", "unallocated", "future"),
    [("running", (5, 6, 7), (5, 6, 7)), ("evicting", (5, 6, 7), (8, 8, 8)), ("reserved", (8, 8, 8), (5, 6, 7))],
)
def test_what_a_task_of_three_cpus_and_two_gib_leaves(phase: Any, unallocated: Any, future: Any) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=0, cpu=8, gib=8, slots=8)
    sketch.at(sketch.job("asks", group(cpu=3, gib=2)), ("a", ()), phase=phase)
    node = ClusterResources.of(sketch.state).nodes[0]
    found = [(free.cpu_milli // 1000, free.memory_bytes // GIB, free.slots) for free in (node.unallocated, node.future)]
    assert found == [unallocated, future]


def test_a_node_is_shared_out_as_models_and_profiles() -> None:
    sketch = Sketch()
    node = sketch.node("a", gpus=4, models=("x", "x", "y", "y"))
    node.devices[3] = replace(node.devices[3], kind="mig", profile="1g.10gb")
    node.devices[1].healthy = False
    found = ClusterResources.of(sketch.state).nodes[0]
    assert (found.models, found.profiles) == ({"x": 0b0001, "y": 0b1100}, {"": 0b0101, "1g.10gb": 0b1000})
    assert [found.devices_of(models, profile) for models, profile in (((), ""), (("y",), ""), (("y", "z"), "1g.10gb"))] == [
        0b0101, 0b0100, 0b1000,
    ]  # fmt: skip
    assert found.devices_of((), "2g.20gb") == found.devices_of(("z",), "") == 0
    assert pool(0).nodes[0].devices_of((), "") == 0
