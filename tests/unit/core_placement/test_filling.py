"""Which resources the filling of nodes takes: what is free before what is leaving, and shares where others are shared already."""

from typing import Any

import pytest
from tests.builders import Sketch, group
from tests.unit.core_placement.tables import need, pool

from bailiff_core.placement import ClusterResources
from bailiff_core.placement.packing import ANYWHERE, PlacementScope, TasksOnNode, _fill_future, fill

SPREAD = PlacementScope(spread=True)


def leaving(*names: str, free: str = "", gpus: int = 1) -> ClusterResources:
    """Nodes from which a job on all GPUs is leaving, and nodes that are free."""
    sketch = Sketch()
    for name in sorted(names + tuple(free)):
        sketch.node(name, gpus=gpus)
        if name in names:
            sketch.running(f"on-{name}", name, range(gpus), phase="evicting")
    return ClusterResources.of(sketch.state)


def placed(chunks: list[TasksOnNode] | None) -> list[tuple[str, int, bool]] | None:
    """The node and the GPUs of each task, and whether it waits."""
    if chunks is None:
        return None
    return [(chunk.node.name, mask, chunk.future) for chunk in chunks for mask in chunk.masks]


@pytest.mark.parametrize("scope", [ANYWHERE, SPREAD])
@pytest.mark.parametrize("asked", [{"gpus": 1}, {"gpu_share_milli": 600}])
def test_what_is_free_is_taken_first_and_what_is_leaving_only_by_tasks_that_may_wait(asked: Any, scope: PlacementScope) -> None:
    wanted = need(**asked)
    assert placed(fill(leaving("a"), wanted, 1, scope, future=False)) is None
    assert placed(fill(leaving("a"), wanted, 1, scope, future=True)) == [("a", 0b1, True)]
    found = placed(fill(leaving("a", free="b"), wanted, 2, scope, future=True))
    assert found == [("b", 0b1, False), ("a", 0b1, True)]
    assert placed(fill(leaving("a", free="b"), wanted, 3, scope, future=True)) is None


def test_a_task_waits_for_a_shared_gpu_even_if_it_need_not() -> None:
    """So the whole gang waits; a GPU that is not shared yet stays whole."""
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.at(sketch.job("stays", group(gpu_share_milli=400)), ("a", [0]))
    sketch.at(sketch.job("goes", group(gpu_share_milli=400)), ("a", [0]), phase="evicting")
    found = fill(ClusterResources.of(sketch.state), need(gpu_share_milli=500), 1, future=False)
    assert placed(found) == [("a", 0b01, True)]


@pytest.mark.parametrize(("wanted", "masks"), [(1, [0b011]), (2, [0b101, 0b110])])
def test_the_fullest_gpus_are_shared_unless_later_tasks_need_them_one_by_one(wanted: int, masks: list[int]) -> None:
    """Each task needs parts of two GPUs. Of the first two GPUs one part is left each, of the third one two."""
    sketch = Sketch()
    sketch.node("a", gpus=3)
    for number, milli in enumerate((800, 700, 500)):
        sketch.at(sketch.job(f"on-{number}", group(gpu_share_milli=milli)), ("a", [number]))
    found = fill(ClusterResources.of(sketch.state), need(gpu_share_milli=200, gpu_devices=2), wanted, future=False)
    assert found is not None
    assert [mask for chunk in found for mask in chunk.masks] == masks


@pytest.mark.parametrize(("wanted", "taken"), [(3, [3]), (4, [4]), (5, [4, 1]), (9, [4, 4, 1])])
def test_no_more_nodes_are_taken_than_are_needed(wanted: int, taken: list[int]) -> None:
    asked = need(gpus=1)
    for chunks in (
        _fill_future(pool(4, 4, 4), asked, wanted, ANYWHERE),
        *(fill(pool(4, 4, 4), asked, wanted, future=f) or [] for f in (0, 1)),
    ):
        assert [len(chunk.masks) for chunk in chunks] == taken


@pytest.mark.parametrize(
    ("sizes", "wanted", "names"), [((8, 2), 3, "aaa"), ((3, 2), 3, "aab"), ((2, 2, 2), 4, "abca"), ((2, 2), 5, None)]
)
@pytest.mark.parametrize("future", [False, True])
def test_each_spread_task_goes_to_the_node_with_the_most_free_gpus(
    sizes: tuple[int, ...], wanted: int, names: str | None, future: bool
) -> None:
    found = fill(pool(*sizes), need(gpus=1), wanted, SPREAD, future=future)
    assert (None if found is None else "".join(chunk.node.name for chunk in found)) == names
