"""In which order nodes are offered to a task, whether they are found by the index or looked at one by one."""

from itertools import product
from typing import Any

import pytest
from tests.builders import Sketch, group
from tests.unit.core_placement.tables import need

from bailiff_core.placement import ClusterResources
from bailiff_core.placement.node_scoring import choose_devices, node_rank, shared_gpu_rank
from bailiff_core.placement.packing import PlacementScope, offers

# GPUs of the node, those in use, those that are leaving, and CPUs
NODES = {
    "a": (4, 0, 0, 8), "b": (4, 2, 0, 9), "c": (4, 3, 0, 7), "d": (2, 0, 0, 8), "e": (2, 0, 2, 6),
    "f": (0, 0, 0, 5), "g": (0, 0, 0, 12), "h": (1, 0, 0, 20), "i": (4, 1, 1, 10),
}  # fmt: skip


@pytest.fixture
def cluster() -> ClusterResources:
    sketch = Sketch()
    for name, (gpus, used, leaving, cpu) in NODES.items():
        sketch.node(name, gpus=gpus, cpu=cpu)
        if used:
            sketch.running(f"on-{name}", name, range(used))
        if leaving:
            sketch.running(f"from-{name}", name, range(used, used + leaving), phase="evicting")
    return ClusterResources.of(sketch.state)


@pytest.mark.parametrize(
    ("asked", "scope", "future", "names"),
    [
        ({"gpus": 1}, {}, False, "chbida"),  # of two with as many: first the one that is in partial use already
        ({"gpus": 2}, {}, False, "bida"),  # first one that is full then
        ({"gpus": 2}, {}, True, "bdeia"),
        ({"gpus": 1}, {"spread": True}, False, "abidch"),
        ({"gpus": 4}, {"spread": True}, True, "a"),
        ({"cpu": 5}, {}, False, "fgechbdia"),  # not on nodes with GPUs, if it can be helped
        ({"cpu": 5}, {"spread": True}, False, "gfaibdhce"),  # the most free GPUs, then the most free CPUs
    ],
)
def test_nodes_by_what_a_task_leaves_of_them(cluster: ClusterResources, asked: Any, scope: Any, future: bool, names: str) -> None:
    found = "".join(offer.node.name for offer in offers(cluster, need(**asked), PlacementScope(**scope), future=future))
    assert found == names


@pytest.mark.parametrize("future", [False, True])
@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("asked", [{"gpus": gpus, "cpu": cpu} for gpus, cpu in product((0, 1, 2, 4), (0, 5, 8))])
def test_the_index_and_looking_at_each_node_say_the_same(
    cluster: ClusterResources, asked: Any, spread: bool, future: bool
) -> None:
    indexed, scanned = (
        [(offer.node.name, offer.count) for offer in offers(cluster, need(**asked), scope, future=future)]
        for scope in (PlacementScope(spread=spread), PlacementScope(within=list(cluster.nodes.values()), spread=spread))
    )
    assert indexed == scanned


@pytest.mark.parametrize(
    ("gpus", "devices", "free", "rank"),
    [
        (0, 0, 0, (False, 0, 0, 0)),
        (0, 1, 1, (True, 1, 0, 0)),  # a single GPU is one that is left unused
        (1, 4, 1, (False, 1, 0, -1)),
        (1, 4, 4, (False, 4, 0, 1)),
        (3, 4, 4, (False, 4, 0, 1)),
        (4, 4, 4, (False, 4, 0, 0)),
    ],
)
def test_the_rank_of_a_node(gpus: int, devices: int, free: int, rank: tuple[int, ...]) -> None:
    assert node_rank(need(gpus=gpus), devices, free, 0, spread=False) == rank
    assert node_rank(need(gpus=gpus), devices, free, 0, spread=True)[1] == -free


# --- shared GPUs


def shared(*parts: tuple[int, int], leaving: int = 0) -> ClusterResources:
    """GPUs of one node: of each so many thousandths stay in use, and so many are leaving; and GPUs that leave as a whole."""
    sketch = Sketch()
    sketch.node("a", gpus=len(parts) + leaving)
    for number, (stays, goes) in enumerate(parts):
        if stays:
            sketch.at(sketch.job(f"stays-{number}", group(gpu_share_milli=stays)), ("a", [number]))
        if goes:
            sketch.at(sketch.job(f"goes-{number}", group(gpu_share_milli=goes)), ("a", [number]), phase="evicting")
    sketch.running("goes", "a", range(len(parts), len(parts) + leaving), phase="evicting")
    return ClusterResources.of(sketch.state)


@pytest.mark.parametrize(
    ("milli", "waits", "free"),
    [
        (300, False, 0),  # it starts now, when no GPU is free
        (600, True, 1),  # it waits, and then one is
    ],
)
def test_a_task_that_waits_finds_what_is_free_then(milli: int, waits: bool, free: int) -> None:
    found = shared_gpu_rank(need(gpu_share_milli=milli), shared((300, 400), leaving=1).nodes[0], 0b11, spread=False)
    assert found is not None
    assert found[:5] == (0, 700_000_000, waits, False, free)


@pytest.mark.parametrize(("milli", "device"), [(300, 0), (301, 1)])
def test_of_equally_full_gpus_the_first_with_exactly_enough_room_now(milli: int, device: int) -> None:
    node = shared((400, 300), (400, 0)).nodes[0]
    asked = need(gpu_share_milli=milli)
    assert choose_devices(asked, node, 0b11, 1, future=True) == [1 << device]
    rank = shared_gpu_rank(asked, node, 0b11, spread=False)
    assert rank is not None
    assert rank[2] is False, "it need not wait"


@pytest.mark.parametrize("devices", [1, 2, 3])
@pytest.mark.parametrize("places", [(1, 1, 2), (1, 2, 2), (1, 2, 3), (1, 1, 1, 3), (1, 2, 2, 3), (2, 2, 3, 3), (1, 1, 2, 4)])
def test_each_task_takes_the_fullest_gpus_after_which_the_others_still_fit(places: tuple[int, ...], devices: int) -> None:
    """Compared with every choice: the first one, in the order of fullness, after which the other tasks still fit."""
    cluster = shared(*((1000 - 200 * count - 10 * at, 0) for at, count in enumerate(places)))
    node, asked = cluster.nodes[0], need(gpu_share_milli=200, gpu_devices=devices)
    every = (1 << len(places)) - 1
    most = asked.max_sharing_tasks(99, dict(enumerate(places)))
    for tasks in range(1, most + 1):
        masks = choose_devices(asked, node, every, tasks, future=False)
        assert all(mask.bit_count() == devices for mask in masks)
        assert all(sum(mask >> number & 1 for mask in masks) <= count for number, count in enumerate(places))
        assert choose_devices(asked, node, every, 1, future=False, task_count=tasks) == masks[:1], (
            "the others may follow one by one"
        )
        sets = [mask for mask in range(every + 1) if mask.bit_count() == devices]
        for mask in sets:
            rest = {number: count - (mask >> number & 1) for number, count in enumerate(places)}
            if asked.max_sharing_tasks(99, {number: count for number, count in rest.items() if count > 0}) >= tasks - 1:
                assert _order(masks[0]) <= _order(mask), tasks


def _order(mask: int) -> list[int]:
    return [number for number in range(mask.bit_length()) if mask >> number & 1]
