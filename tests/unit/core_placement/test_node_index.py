"""The index of nodes by free resources: what it offers is what looking at every node would offer, also after changes."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.builders import GIB, Sketch, group
from tests.unit.core_placement.tables import need

from bailiff_core.model.state import Resources
from bailiff_core.placement import ClusterResources, packing
from bailiff_core.placement.node_index import index_for
from bailiff_core.placement.packing import ANYWHERE, PlacementScope, _best_shared_gpu_node, capacity, offers
from bailiff_core.placement.task_requirements import TaskRequirements


@pytest.fixture
def sketch() -> Sketch:
    """Nodes of two GPUs. Of a and d the first one is shared, on b a part is leaving, on c one is reserved; e and f are free."""
    made = Sketch()
    for name in "abcdef":
        made.node(name, gpus=2)
    for name, milli, phase in (("a", 300, "running"), ("b", 400, "evicting"), ("c", 200, "reserved"), ("d", 800, "running")):
        made.at(made.job(f"on-{name}", group(gpu_share_milli=milli)), (name, [0]), phase=phase)
    return made


def best(cluster: ClusterResources, asked: TaskRequirements, *, spread: bool, scanned: bool) -> str | None:
    """Where the task would share a GPU: found by the index, or by looking at each node."""
    scope = PlacementScope(within=list(cluster.nodes.values()) if scanned else None, spread=spread)
    found = _best_shared_gpu_node(cluster, asked, scope)
    return None if found is None else found.node.name


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("scanned", [False, True])
@pytest.mark.parametrize(("milli", "node"), [(200, "d"), (300, "a"), (700, "a"), (800, "c"), (900, "b"), (1000, "b")])
def test_the_fullest_shared_gpu_that_takes_the_task(sketch: Sketch, milli: int, node: str, scanned: bool, spread: bool) -> None:
    """What leaves b was the only part of that GPU."""
    assert best(ClusterResources.of(sketch.state), need(gpu_share_milli=milli), spread=spread, scanned=scanned) == node


@pytest.mark.parametrize("scanned", [False, True])
def test_where_no_gpu_is_shared_there_is_no_such_node(scanned: bool) -> None:
    sketch = Sketch()
    sketch.node("a")
    assert best(ClusterResources.of(sketch.state), need(gpu_share_milli=500), spread=False, scanned=scanned) is None


def leaves(sketch: Sketch, cluster: ClusterResources) -> None:
    sketch.state.nodes[0].allocated = Resources()
    cluster.refresh(sketch.state, [0])


def is_lost(sketch: Sketch, cluster: ClusterResources) -> None:
    sketch.state.nodes[0].state = "lost"
    cluster.refresh(sketch.state, [0])


def is_filled(sketch: Sketch, cluster: ClusterResources) -> None:
    node = cluster.nodes[0]
    cluster.take(node, need(gpu_share_milli=600).amount(node.units, 0b01), future=False)


def is_shared_more(sketch: Sketch, cluster: ClusterResources) -> None:
    node = cluster.nodes[2]
    cluster.take(node, need(gpu_share_milli=550).amount(node.units, 0b01), future=False)


def is_shared_now(sketch: Sketch, cluster: ClusterResources) -> None:
    node = cluster.nodes[4]
    cluster.take(node, need(gpu_share_milli=720).amount(node.units, 0b01), future=False)


@pytest.mark.parametrize(
    ("change", "node"), [(leaves, "c"), (is_lost, "c"), (is_filled, "c"), (is_shared_more, "c"), (is_shared_now, "e")]
)
def test_the_best_shared_gpu_after_a_change_and_after_it_is_undone(
    sketch: Sketch, change: Callable[[Sketch, ClusterResources], None], node: str
) -> None:
    cluster, asked = ClusterResources.of(sketch.state), need(gpu_share_milli=250)
    assert best(cluster, asked, spread=False, scanned=False) == "a"
    mark = cluster.mark()
    change(sketch, cluster)
    assert best(cluster, asked, spread=False, scanned=False) == best(cluster, asked, spread=False, scanned=True) == node
    if change not in (leaves, is_lost):
        cluster.rollback(mark)
        assert best(cluster, asked, spread=False, scanned=False) == "a"
    places = capacity(cluster, asked, ANYWHERE, future=True)
    assert places == capacity(cluster, asked, PlacementScope(within=list(cluster.nodes.values())), future=True)


@pytest.mark.parametrize(("future", "count"), [(False, 2 + 2 + 3 + 0 + 4 * 8), (True, 2 + 4 + 3 + 0 + 4 * 8)])
def test_each_node_is_offered_once_with_its_shared_and_its_free_gpus(sketch: Sketch, future: bool, count: int) -> None:
    """Of shares of 250 thousandths a whole GPU takes four, and there are eight whole ones and four that are shared."""
    found = list(offers(ClusterResources.of(sketch.state), need(gpu_share_milli=250), ANYWHERE, future=future))
    assert sorted(offer.node.name for offer in found) == ["a", "b", "c", "d", "e", "f"]
    assert sum(offer.count for offer in found) == count


@pytest.mark.parametrize(("future", "names"), [(False, "cab"), (True, "bca")])
def test_nodes_with_shared_gpus_only_are_offered_last_by_name(sketch: Sketch, future: bool, names: str) -> None:
    """Only c has a free GPU beside the shared one; once what is leaving b has left it, b has one, too."""
    for name in "abdef":
        sketch.running(f"rest-{name}", name, [1] if name in "abd" else [0, 1])
    found = offers(ClusterResources.of(sketch.state), need(gpu_share_milli=300), ANYWHERE, future=future)
    assert "".join(offer.node.name for offer in found) == names


@pytest.mark.parametrize(
    ("room", "asked", "fits"),
    [
        ({"cpu": 5}, {"cpu": 5}, True),
        ({"cpu": 4}, {"cpu": 5}, False),
        ({"gib": 5}, {"gib": 5}, True),
        ({"gib": 4}, {"gib": 5}, False),
        ({"slots": 1}, {}, True),
        ({"slots": 0}, {}, False),
        ({"gpus": 1}, {"gpus": 1}, True),
        ({"gpus": 1}, {"gpus": 2}, False),
    ],
)
@pytest.mark.parametrize("spread", [False, True])
def test_a_node_is_offered_to_a_task_that_takes_all_of_it(room: Any, asked: Any, fits: bool, spread: bool) -> None:
    sketch = Sketch()
    sketch.node("a", **{"gpus": 0, "cpu": 8, "gib": 8, "slots": 8, **room})
    found = offers(ClusterResources.of(sketch.state), need(**asked), PlacementScope(spread=spread), future=False)
    assert [offer.count for offer in found] == [1] * fits


def test_an_index_of_labelled_nodes_does_not_have_the_others(sketch: Sketch) -> None:
    sketch.state.nodes[5].labels["zone"] = "x"
    cluster, asked = ClusterResources.of(sketch.state), need(gpus=1, node_labels={"zone": "x"})
    index = index_for(cluster, asked.selector)
    cluster.take(cluster.nodes[4], Resources(0b01, 0, GIB, 1), future=False)
    assert index_for(cluster, asked.selector) is index
    assert [offer.node.name for offer in index.offers(asked, future=False, spread=False)] == ["f"]


def test_a_large_domain_has_an_index_of_its_own_nodes(sketch: Sketch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MAX_SCANNED", 1)
    for number, node in sketch.state.nodes.items():
        node.labels |= {"zone": "xy"[number % 2], "disk": "fast" if number > 2 else "slow"}
    cluster, asked = ClusterResources.of(sketch.state), need(gpus=1, node_labels={"disk": "fast"})
    scope = PlacementScope(
        within=[node for node in cluster.nodes.values() if node.labels["zone"] == "y"], labels=(("zone", "y"),)
    )
    assert [offer.node.name for offer in offers(cluster, asked, scope, future=False)] == ["d", "f"]
    assert scope.selector(asked).labels == (("disk", "fast"), ("zone", "y"))
    assert ANYWHERE.selector(asked) == asked.selector
