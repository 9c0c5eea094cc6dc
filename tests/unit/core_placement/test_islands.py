"""GPUs on islands: which island tasks get, and the choice of GPUs within the nodes of a placement."""

from typing import Any

import pytest
from tests.kits.builders import Sketch, group
from tests.kits.searches import need

from bailiff_core.model.state import Resources
from bailiff_core.placement import ClusterResources, StepBudget, TaskPlacement
from bailiff_core.placement.islands import choose_within_nodes, islands_used, place_on_islands
from bailiff_core.placement.packing import ANYWHERE, PlacementScope, TasksOnNode
from bailiff_core.placement.packing_search import pack

# --- which islands tasks get: all on one, or each task on one; and the choice of GPUs within the nodes of a placement


SPREAD = PlacementScope(spread=True)


def pool(cpu: int = 100, **islands: str) -> ClusterResources:
    """Nodes with these islands: `a="xxy."` has two GPUs on x, one on y and one on none. In capitals they are in use."""
    sketch = Sketch()
    for name, letters in islands.items():
        node = sketch.node(name, gpus=len(letters), cpu=cpu)
        for device, letter in zip(node.devices, letters.lower(), strict=True):
            device.island = letter.strip(".")
        if used := [number for number, letter in enumerate(letters) if letter.isupper()]:
            sketch.running(f"on-{name}", name, used)
    return ClusterResources.of(sketch.state)


def places(
    cluster: ClusterResources, *wanted: tuple[Any, int], scope: PlacementScope = ANYWHERE
) -> list[tuple[int, str, int]] | None:
    """GPUs of the task, its node, and its GPUs' mask, for each task."""
    asked = {need(**(about if isinstance(about, dict) else {"gpus": about})): count for about, count in wanted}
    found = place_on_islands(cluster, asked, scope)
    return None if found is None else [(chunk.need.gpus, chunk.node.name, mask) for chunk in found for mask in chunk.masks]


@pytest.mark.parametrize(
    ("islands", "wanted", "found"),
    [
        pytest.param({"a": "xx"}, [(1, 1)], None, id="one GPU needs no island"),
        pytest.param({"a": ".xx"}, [(1, 2)], [(1, "a", 0b010), (1, "a", 0b100)], id="two tasks of one GPU share one"),
        pytest.param({"a": "xX", "b": "yY"}, [(1, 2)], None, id="or else they need none"),
        pytest.param({"a": "xx", "b": "yy"}, [(2, 1), (1, 1)], [(2, "a", 0b11), (1, "b", 0b01)], id="each its own, mixed"),
        pytest.param({"a": "xx", "b": "yy"}, [(1, 1), (2, 1)], [(2, "a", 0b11), (1, "b", 0b01)], id="the larger one first"),
        pytest.param({"a": "xx"}, [(2, 2)], None, id="one of them has none"),
        pytest.param({"a": "xxx", "b": "yy"}, [(2, 1)], [(2, "b", 0b11)], id="the fullest node"),
        pytest.param({"a": "xxxyy"}, [(2, 1)], [(2, "a", 0b11000)], id="on it the fullest island"),
        pytest.param({"a": "xxxx", "b": "yyyy"}, [(2, 3)], [(2, "a", 3), (2, "a", 12), (2, "b", 3)], id="as many as it takes"),
        pytest.param({"a": "xx", "b": "yyyy"}, [(2, 2)], [(2, "b", 3), (2, "b", 12)], id="all on one, not each on one"),
    ],
)
def test_islands_of_tasks(islands: dict[str, str], wanted: Any, found: Any) -> None:
    cluster = pool(**islands)
    before = [node.now() for node in cluster.nodes.values()]
    assert places(cluster, *wanted) == found
    assert [node.now() for node in cluster.nodes.values()] == before, "nothing is taken yet"


def test_spread_tasks_go_to_the_nodes_with_the_most_free_gpus_one_by_one() -> None:
    cluster = pool(a="xxxxyyyy", b="zzzzzzz")
    assert places(cluster, (2, 2), scope=SPREAD) == [(2, "a", 0b11), (2, "b", 0b11)]
    assert places(cluster, (2, 3), scope=SPREAD) == [(2, "a", 0b11), (2, "b", 0b11), (2, "a", 0b1100)]
    assert places(cluster, (7, 1), scope=SPREAD) == [(7, "b", 0b1111111)]


def test_only_nodes_in_the_scope_count() -> None:
    cluster = pool(a="xx", b="yy")
    assert places(cluster, (2, 1), scope=PlacementScope(within=[cluster.nodes[1]])) == [(2, "b", 0b11)]


def test_a_node_that_takes_only_some_of_the_tasks_keeps_its_resources_for_others() -> None:
    """Node a has the CPUs for the first of both tasks, or for the one without GPUs."""
    sketch = Sketch()
    for name, cpu in (("a", 3), ("b", 4)):
        for device in sketch.node(name, gpus=4, cpu=cpu).devices:
            device.island = "x"
    wanted = ({"gpus": 2, "cpu": 2}, 1), ({"gpus": 1, "cpu": 2}, 1), ({"cpu": 3}, 1)
    assert places(ClusterResources.of(sketch.state), *wanted) == [(2, "b", 0b0011), (1, "b", 0b0100), (0, "a", 0)]


def test_a_task_beside_them_does_not_wait() -> None:
    sketch = Sketch()
    for device in sketch.node("a", gpus=2, cpu=4).devices:
        device.island = "x"
    sketch.at(sketch.job("goes", group(cpu=4)), ("a", []), phase="evicting")
    assert places(ClusterResources.of(sketch.state), (2, 1), ({"cpu": 1}, 1)) is None


# --- within the nodes of a placement


def chosen(cluster: ClusterResources, *tasks: tuple[int, ...], future: bool = False) -> list[tuple[int, ...]]:
    """Masks of chunks on node a: each chunk is given as the masks that it has."""
    node = cluster.nodes[0]
    chunks = [TasksOnNode(need(gpus=masks[0].bit_count(), cpu=at), node, masks, False) for at, masks in enumerate(tasks)]
    return [chunk.masks for chunk in choose_within_nodes(cluster, chunks, future=future)]


@pytest.mark.parametrize(
    ("islands", "tasks", "found"),
    [
        pytest.param("xxyy", [(0b1010,)], [(0b0011,)], id="two GPUs of one island"),
        pytest.param("xXyy", [(0b0101,)], [(0b1100,)], id="of one that is free"),
        pytest.param("xyxy", [(0b0011, 0b1100)], [(0b0101, 0b1010)], id="each task on one"),
        pytest.param("xxyyyy", [(0b000101, 0b001010)], [(0b001100, 0b110000)], id="all on one rather than each on one"),
        pytest.param("ppqqrr", [(0b011000,), (0b100100,)], [(0b000011,), (0b001100,)], id="one after the other"),
        pytest.param("xyzw", [(0b0101,)], [(0b0101,)], id="no island"),
        pytest.param("xxx.yy", [(0b001001,)], [(0b110000,)], id="the fullest island"),
    ],
)
def test_gpus_within_a_node(islands: str, tasks: Any, found: Any) -> None:
    assert chosen(pool(a=islands), *tasks) == found


@pytest.mark.parametrize(
    ("islands", "goes", "stays", "future", "own", "found"),
    [
        pytest.param("xxxyyy", [5], [], False, 0b000011, 0b011000, id="of y only two are free now, and of x three"),
        pytest.param("xxxyyy", [5], [], True, 0b000011, 0b000011, id="both will have three"),
        pytest.param("xx.y.y", [2, 3], [0, 1, 4], True, 0b100100, 0b101000, id="one waits in any case"),
    ],
)
def test_what_is_leaving_counts_for_tasks_that_may_wait(
    islands: str, goes: list[int], stays: list[int], future: bool, own: int, found: int
) -> None:
    sketch = Sketch()
    for device, island in zip(sketch.node("a", gpus=6).devices, islands, strict=True):
        device.island = island.strip(".")
    sketch.running("goes", "a", goes, phase="evicting")
    sketch.running("stays", "a", stays)
    assert chosen(ClusterResources.of(sketch.state), (own,), future=future) == [(found,)]


def test_shares_keep_their_gpus_beside_tasks_on_islands() -> None:
    cluster = pool(a="xx.")
    wanted = {need(gpus=2): 1, need(gpu_share_milli=500): 1}
    found = pack(cluster, wanted, PlacementScope(islands=True), StepBudget(99), future=True)
    assert isinstance(found, list)
    assert {(chunk.need.shared, chunk.masks) for chunk in found} == {(False, (0b011,)), (True, (0b100,))}


# --- what the wish came to


@pytest.mark.parametrize(
    ("groups", "masks", "used"),
    [
        ((group(gpus=2),), (0b00011,), "a/x"),
        ((group(gpus=2), group(cpu=1)), (0b00011, 0), "a/x"),  # a task without GPUs is on none, and needs none
        ((group(2, gpus=1),), (0b00001, 0b00010), "a/x"),
        ((group(2, gpus=1),), (0b00001, 0b00100), "none"),
        ((group(gpus=2), group(gpus=1)), (0b00011, 0b10000), "per task"),  # one GPU is on no island
        ((group(2, gpus=2),), (0b00011, 0b01100), "per task"),
        ((group(2, gpus=2),), (0b00011, 0b10100), "none"),
        ((group(gpus=2),), (0b10100,), "none"),
        ((group(gpus=1),), (0b00001,), ""),
        ((group(cpu=1),), (0,), ""),
    ],
)
def test_what_the_wish_for_an_island_came_to(groups: Any, masks: tuple[int, ...], used: str) -> None:
    sketch = Sketch()
    for device, island in zip(sketch.node("a", gpus=5).devices, "xxyy.", strict=True):
        device.island = island.strip(".")
    job = sketch.job("asks", *groups)
    job.demand = job.demand.model_copy(update={"placement": "prefer nvlink"})
    assert islands_used(sketch.state, job, [TaskPlacement(index, 0, mask) for index, mask in enumerate(masks)]) == used


def test_resources_that_are_in_use_are_on_no_free_island() -> None:
    cluster = pool(a="xxyy")
    cluster.take(cluster.nodes[0], Resources(0b0001, 0, 0, 1), future=False)
    assert places(cluster, (2, 1)) == [(2, "a", 0b1100)]


# --- places for jobs that prefer one island: where one fits with all else that the job needs, and else as without the wish


PREFERS = PlacementScope(islands=True)


def pool_with_islands(**cpus: int) -> ClusterResources:
    """Nodes with one island of two GPUs each, and so many CPUs."""
    sketch = Sketch()
    for name, cpu in cpus.items():
        for device in sketch.node(name, gpus=2, cpu=cpu).devices:
            device.island = "x"
    return ClusterResources.of(sketch.state)


def places_there(cluster: ClusterResources, *wanted: tuple[dict[str, Any], int], scope: PlacementScope = ANYWHERE) -> Any:
    found = place_on_islands(cluster, {need(**asked): count for asked, count in wanted}, scope)
    return None if found is None else [chunk.node.name for chunk in found for _ in chunk.masks]


def test_an_island_on_a_node_without_the_cpus_is_passed_over() -> None:
    assert places_there(pool_with_islands(a=1, b=4), ({"gpus": 2, "cpu": 2}, 1)) == ["b"]


def test_spread_tasks_pass_over_it_as_well() -> None:
    assert places_there(pool_with_islands(a=1, b=4, c=4), ({"gpus": 2, "cpu": 2}, 2), scope=PlacementScope(spread=True)) == [
        "b",
        "c",
    ]


def test_tasks_without_gpus_are_placed_beside_those_on_islands() -> None:
    assert places_there(pool_with_islands(a=4), ({"gpus": 2, "cpu": 2}, 1), ({"cpu": 1}, 2)) == ["a", "a", "a"]


def test_where_one_island_leaves_no_room_for_the_others_each_task_has_its_own() -> None:
    """Both tasks on the larger island would take the CPUs of its node, of which another task needs four."""
    sketch = Sketch()
    for name, gpus, cpu in (("a", 4, 5), ("b", 2, 1)):
        for device in sketch.node(name, gpus=gpus, cpu=cpu).devices:
            device.island = "x"
    wanted = ({"gpus": 2, "cpu": 1}, 2), ({"cpu": 4}, 1)
    assert places_there(ClusterResources.of(sketch.state), *wanted) == ["b", "a", "a"]


def test_mig_devices_are_on_no_island() -> None:
    sketch = Sketch()
    for device in sketch.node("a", gpus=2).devices:
        device.island, device.kind, device.profile = "x", "mig", "3g.40gb"
    job = sketch.job("asks", group(mig_profile="3g.40gb", gpu_devices=2))
    job.demand = job.demand.model_copy(update={"placement": "prefer nvlink"})
    assert islands_used(sketch.state, job, [TaskPlacement(0, 0, 0b11)]) == ""


def test_a_reservation_has_the_nodes_of_one_without_the_wish() -> None:
    """On the node with fewer free GPUs there is no island; on the other one there is."""
    sketch = Sketch(a=2)
    for device in sketch.node("b", gpus=4).devices:
        device.island = "x"
    cluster, wanted = ClusterResources.of(sketch.state), {need(gpus=2): 1}
    for future, node in ((True, "a"), (False, "b")):
        found = pack(cluster, wanted, PREFERS, StepBudget(99), future=future)
        assert isinstance(found, list)
        assert [chunk.node.name for chunk in found] == [node]
