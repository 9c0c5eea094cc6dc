"""What the searches for a placement try, and at which cost: of interchangeable nodes and devices one, and no branch in vain."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.builders import GIB, Sketch, group
from tests.unit.core_placement.tables import ROOM, need, pool

from bailiff_core.placement import ClusterResources, StepBudget, packing, solve
from bailiff_core.placement import devices as devices_search
from bailiff_core.placement.backtracking import NODES_PER_STEP, backtrack
from bailiff_core.placement.devices import _choices, _equivalence_key, device_class, find_devices
from bailiff_core.placement.node_scoring import choose_devices, shared_gpu_rank
from bailiff_core.placement.packing import ANYWHERE, PlacementScope, TasksOnNode, take_chunk
from bailiff_core.placement.search import _devices_interchangeable, find_packing


def nodes_of(found: Sequence[TasksOnNode] | str) -> list[str]:
    """The node of each task."""
    assert not isinstance(found, str)
    return [chunk.node.name for chunk in found for _ in chunk.masks]


# --- devices


def test_devices_of_other_models_profiles_or_sizes_are_not_equal() -> None:
    sketch = Sketch()
    node = sketch.node("a", gpus=5, models=("h100", "a100", "h100", "h100", "h100"))
    node.devices[2] = replace(node.devices[2], kind="mig", profile="3g.40gb")
    node.devices[3] = replace(node.devices[3], kind="mig", profile="1g.10gb")
    node.devices[4] = replace(node.devices[4], memory_bytes=ROOM // 2)
    known = ClusterResources.of(sketch.state).nodes[0]
    kinds = [device_class(known, number, future=False)[2] for number in range(5)]
    assert kinds == ["h100", "a100", "h100 3g.40gb", "h100 1g.10gb", "h100"]
    assert len({device_class(known, number, future=False) for number in range(5)}) == 5


@pytest.mark.parametrize(("future", "free"), [(False, [0, 0, 0, 400 * ROOM]), (True, [0, 1000 * ROOM, 0, 400 * ROOM])])
def test_a_device_has_the_units_that_are_free_and_one_in_use_has_none(future: bool, free: list[int]) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=4)
    sketch.running("stays", "a", [0])
    sketch.running("goes", "a", [1], phase="evicting")
    for number, milli in ((2, 1000), (3, 600)):
        sketch.at(sketch.job(f"part-{number}", group(gpu_share_milli=milli)), ("a", [number]))
    node = ClusterResources.of(sketch.state).nodes[0]
    assert [device_class(node, number, future=future)[0] for number in range(4)] == free


# --- which nodes


@pytest.mark.parametrize(
    ("asked", "equal"),
    [
        ({"gpus": 1}, True),
        ({"gpus": 1, "nodes": ("a",)}, False),
        ({"gpus": 1, "nodes": ("a", "b")}, True),
        ({"gpus": 1, "node_labels": {"zone": "x"}}, False),
    ],
)
def test_nodes_are_interchangeable_where_all_tasks_may_use_either(asked: Any, equal: bool) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2, labels={"zone": "x"})
    sketch.node("b", gpus=2)
    a, b = ClusterResources.of(sketch.state).nodes.values()
    remaining = [need(gpus=2), need(**asked)]
    assert (_equivalence_key(a, remaining, future=False) == _equivalence_key(b, remaining, future=False)) is equal


@pytest.mark.parametrize(
    ("sizes", "placed_on", "tried"),
    [
        ((2, 2, 4), "", ["a", "c"]),  # a and b are equal
        ((2, 2, 4), "c", ["c"]),  # an equal task goes to no earlier node
        ((2, 2, 4), "b", ["b", "c"]),
        ((2, 2, 4), "ab", ["b", "c"]),  # the last one counts
    ],
)
def test_of_equal_nodes_one_is_tried_and_equal_tasks_go_to_nodes_in_their_order(
    sizes: tuple[int, ...], placed_on: str, tried: list[str]
) -> None:
    cluster, asked = pool(*sizes), need(gpus=1)
    placed = [take_chunk(cluster, asked, cluster.by_name()[name], 0b1, 1, future=False) for name in placed_on]
    found = _choices(cluster, [asked, asked, asked], placed, ANYWHERE, future=False)
    assert [node.name for node, _ in found] == tried


def test_a_task_of_another_kind_may_go_to_an_earlier_node() -> None:
    cluster, asked = pool(4, 2), need(gpus=1)
    placed = [take_chunk(cluster, asked, cluster.nodes[1], 0b1, 1, future=False)]
    found = _choices(cluster, [asked, need(gpus=1, cpu=1)], placed, ANYWHERE, future=False)
    assert [node.name for node, _ in found] == ["a", "b"]


def test_of_several_kinds_only_the_last_task_bounds_an_equal_one() -> None:
    cluster, other, asked = pool(2, 2, 4), need(gpus=1, cpu=1), need(gpus=1)
    places = ((other, 2), (asked, 1))
    placed = [take_chunk(cluster, kind, cluster.nodes[number], 0b1, 1, future=False) for kind, number in places]
    found = _choices(cluster, [other, asked, asked], placed, ANYWHERE, future=False)
    assert [node.name for node, _ in found] == ["b", "c"]


def test_no_device_is_tried_where_a_later_task_fits_nowhere_any_more() -> None:
    cluster = pool(2)
    assert list(devices_search._choices(cluster, [need(gpus=1), need(gpus=3)], [], ANYWHERE, future=False)) == []


# --- what a step costs


@pytest.mark.parametrize(("nodes", "steps"), [(1, 1), (NODES_PER_STEP - 1, 1), (NODES_PER_STEP, 2), (2 * NODES_PER_STEP, 3)])
@pytest.mark.parametrize("within", [True, False])
def test_a_choice_costs_a_step_and_one_for_so_many_nodes(nodes: int, steps: int, within: bool) -> None:
    sketch = Sketch()
    for number in range(nodes + (NODES_PER_STEP if within else 0)):
        sketch.node(f"n{number}", gpus=1)
    cluster, budget = ClusterResources.of(sketch.state), StepBudget(100)
    scope = PlacementScope(within=list(cluster.nodes.values())[:nodes]) if within else ANYWHERE
    assert backtrack(cluster, scope, budget, 1, lambda _: iter([7]), lambda _, choice: choice) == [7]
    assert budget.used == steps


def test_without_a_choice_at_the_first_level_it_is_impossible() -> None:
    assert backtrack(pool(1), ANYWHERE, StepBudget(9), 1, lambda _: None, lambda _, choice: choice) == "impossible"


# --- packings of several kinds of tasks


def test_a_node_that_gets_no_task_is_not_in_the_result() -> None:
    cluster = pool(4, 4, 4)
    wanted = [(need(gpus=2), 2), (need(gpus=1), 4)]
    found = find_packing(cluster, wanted, ANYWHERE, StepBudget(1000), future=False)
    assert isinstance(found, list)
    assert all(chunk.masks for chunk in found)
    assert sum(len(chunk.masks) for chunk in found) == 6


def test_a_packing_after_which_one_of_the_other_kinds_does_not_fit_is_not_continued() -> None:
    """Two tasks of two GPUs: both on one node, then one of four on the other; or one on each, which leaves no place for four."""
    cluster, budget = pool(4, 4), StepBudget(1000)
    wanted = [(need(gpus=2), 2), (need(gpus=4), 1), (need(gpus=1), 1)]
    assert find_packing(cluster, wanted, ANYWHERE, budget, future=False) == "impossible"
    assert budget.used == 5, "two ways for the first kind, one for the second, and the end of both lists"


@pytest.mark.parametrize(
    ("asked", "interchangeable"),
    [
        (({"gpus": 1}, {"gpus": 2}, {"gpu_share_milli": 500}), True),  # only the last one shares
        (({"gpus": 1}, {"gpu_share_milli": 600}, {"gpu_share_milli": 500}), False),
    ],
)
def test_of_three_kinds_only_the_last_may_share_gpus(asked: Any, interchangeable: bool) -> None:
    assert _devices_interchangeable(pool(4), [(need(**each), 1) for each in asked]) is interchangeable


def test_one_node_of_several_models_is_enough_for_devices_to_matter() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2, models=("x",))
    sketch.node("b", gpus=2, models=("x", "y"))
    wanted = [(need(gpus=1, gpu_models=("x", "z")), 1), (need(gpus=1, gpu_models=("x", "y")), 1)]
    assert not _devices_interchangeable(ClusterResources.of(sketch.state), wanted)


def test_equal_tasks_on_chosen_devices_fill_the_first_node_first() -> None:
    cluster = pool(2, 2, 2)
    assert nodes_of(find_devices(cluster, [(need(gpus=1), 3)], ANYWHERE, StepBudget(99), future=False)) == ["a", "a", "b"]


# --- scopes


@pytest.mark.parametrize(("nodes", "scanned"), [(2, True), (3, False)])
def test_so_many_nodes_are_looked_at_one_by_one_and_more_by_the_index(
    monkeypatch: pytest.MonkeyPatch, nodes: int, scanned: bool
) -> None:
    monkeypatch.setattr(packing, "MAX_SCANNED", 2)
    sketch = Sketch()
    for name in "abc"[:nodes]:
        sketch.node(name, labels={"zone": "x"})
    cluster = ClusterResources.of(sketch.state)
    scope = PlacementScope(within=list(cluster.nodes.values()), labels=(("zone", "x"),))
    assert (packing._nodes_to_scan(cluster, need(gpus=1), scope) is not None) is scanned


def test_nodes_without_the_labels_that_a_task_asks_for_are_not_in_its_scope() -> None:
    sketch = Sketch()
    sketch.node("a", labels={"zone": "x"})
    sketch.node("b", labels={"zone": "y"})
    cluster = ClusterResources.of(sketch.state)
    scope = PlacementScope(within=list(cluster.nodes.values()))
    found = packing.offers(cluster, need(gpus=1, node_labels={"zone": "y"}), scope, future=False)
    assert [offer.node.name for offer in found] == ["b"]


def test_spread_cpu_tasks_go_only_where_they_fit() -> None:
    """4.2 and 5 CPUs have numbers of as many bits: the index finds both nodes, and only one takes a task of 5."""
    sketch = Sketch()
    for name, milli in (("a", 4200), ("b", 5000)):
        sketch.node(name, gpus=0).capacity.cpu_milli = milli
    found = solve.pack(
        ClusterResources.of(sketch.state), {need(cpu=5): 1}, PlacementScope(spread=True), StepBudget(9), future=False
    )
    assert isinstance(found, list)
    assert nodes_of(found) == ["b"]


def test_tasks_of_which_one_waits_for_a_releasing_share_are_reserved_together() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.at(sketch.job("stays", group(gpu_share_milli=300)), ("a", [0]))
    sketch.at(sketch.job("goes", group(gpu_share_milli=700)), ("a", [0]), phase="evicting")
    sketch.at(sketch.job("other", group(gpu_share_milli=200)), ("a", [1]))
    cluster = ClusterResources.of(sketch.state)
    chunk = take_chunk(cluster, need(gpu_share_milli=500), cluster.nodes[0], 0b11, 2, future=True)
    assert chunk.masks == (0b01, 0b10), "the fuller GPU first, although half of it is still leaving"
    assert chunk.future


@pytest.mark.parametrize(("gib", "takes"), [(40, True), (50, False)])
def test_a_gpu_whose_shares_are_leaving_takes_no_more_than_its_memory(gib: int, takes: bool) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=1).devices[0].memory_bytes = 40 * GIB
    sketch.at(sketch.job("goes", group(gpu_share_milli=500)), ("a", [0]), phase="evicting")
    node = ClusterResources.of(sketch.state).nodes[0]
    found = shared_gpu_rank(need(gpu_share_bytes=gib * GIB), node, 0b1, spread=False)
    assert (found is not None) is takes


@pytest.mark.parametrize(("future", "device"), [(False, 1), (True, 0)])
def test_what_is_leaving_counts_only_for_tasks_that_wait_for_it(future: bool, device: int) -> None:
    """The fuller GPU has room once another share has left it; the other one has room now."""
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.at(sketch.job("stays", group(gpu_share_milli=300)), ("a", [0]))
    sketch.at(sketch.job("goes", group(gpu_share_milli=700)), ("a", [0]), phase="evicting")
    sketch.at(sketch.job("other", group(gpu_share_milli=200)), ("a", [1]))
    node = ClusterResources.of(sketch.state).nodes[0]
    assert choose_devices(need(gpu_share_milli=500), node, 0b11, 1, future=future) == [1 << device]


def test_a_gpu_that_got_a_share_is_fuller_and_gets_the_next_one_as_well() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    for number, milli in enumerate((500, 400)):
        sketch.at(sketch.job(f"part-{number}", group(gpu_share_milli=milli)), ("a", [number]))
    node = ClusterResources.of(sketch.state).nodes[0]
    assert choose_devices(need(gpu_share_milli=200), node, 0b11, 3, future=False) == [0b01, 0b01, 0b10]


def test_a_gpu_whose_shares_are_all_taken_gets_no_further_task() -> None:
    """One share is left of the fullest GPU, which the first task takes."""
    sketch = Sketch()
    sketch.node("a", gpus=3)
    for number, milli in enumerate((800, 400, 400)):
        sketch.at(sketch.job(f"part-{number}", group(gpu_share_milli=milli)), ("a", [number]))
    node = ClusterResources.of(sketch.state).nodes[0]
    assert choose_devices(need(gpu_share_milli=200), node, 0b111, 3, future=False) == [0b001, 0b010, 0b010]


def test_the_next_task_waits_for_the_gpu_that_the_first_one_has_made_fuller() -> None:
    """Of both GPUs 800 thousandths will be free; of the first one half of them is still leaving."""
    sketch = Sketch()
    sketch.node("a", gpus=2)
    for number in (0, 1):
        sketch.at(sketch.job(f"stays-{number}", group(gpu_share_milli=200)), ("a", [number]))
    sketch.at(sketch.job("goes", group(gpu_share_milli=400)), ("a", [0]), phase="evicting")
    node = ClusterResources.of(sketch.state).nodes[0]
    assert choose_devices(need(gpu_share_milli=400), node, 0b11, 2, future=True) == [0b01, 0b01]


def test_tasks_that_wait_take_the_shares_that_are_leaving() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.at(sketch.job("goes", group(gpu_share_milli=600)), ("a", [0]), phase="evicting")
    (chunk,) = packing._fill_future(ClusterResources.of(sketch.state), need(gpu_share_milli=500), 4, ANYWHERE)
    assert sorted(chunk.masks) == [0b01, 0b01, 0b10, 0b10]
