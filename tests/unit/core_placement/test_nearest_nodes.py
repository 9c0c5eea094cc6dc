"""The nodes that lack the fewest GPUs for a task, with all jobs of some priorities evicted: what a refusal looks at."""

import pytest
from tests.builders import Sketch, group

from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims.shortlist import Shortlist


def nearest(sketch: Sketch, wanted: int, gpus: int = 4) -> list[str]:
    sketch.state.indices.snapshot = None
    snapshot = current_snapshot(sketch.state)
    index, need = snapshot.allocation_index, TaskRequirements.of(group(gpus=gpus))
    return [node.name for node in Shortlist(index, snapshot.cluster, need, [25] if 25 in index.levels else []).nearest(wanted)]


@pytest.fixture
def sketch() -> Sketch:
    """Five nodes; jobs of priority 25 may be evicted, those of 75 may not."""
    made = Sketch()
    made.node("lacks-3", gpus=4)
    made.running("kept-a", "lacks-3", [0, 1, 2], priority=75)
    made.node("lacks-1", gpus=4)
    made.running("kept-b", "lacks-1", [0], priority=75)
    made.running("evictable", "lacks-1", [1, 2], priority=25)
    made.node("lacks-all-twice", gpus=8)
    made.running("kept-c", "lacks-all-twice", range(8), priority=75)
    made.node("too-small", gpus=2)
    made.node("has-two-places", gpus=8)
    return made


def test_a_node_counts_once_for_each_place_on_it(sketch: Sketch) -> None:
    assert nearest(sketch, 1) == nearest(sketch, 2) == ["has-two-places"]
    assert nearest(sketch, 3) == ["has-two-places", "lacks-1"]
    assert nearest(sketch, 4) == ["has-two-places", "lacks-1", "lacks-3"]
    every_place = ["has-two-places", "lacks-1", "lacks-3", "lacks-all-twice"]
    assert nearest(sketch, 5) == nearest(sketch, 100) == every_place


def test_no_node_is_near_where_all_are_too_small(sketch: Sketch) -> None:
    assert nearest(sketch, 1, gpus=9) == []
    assert nearest(sketch, 1, gpus=8) == ["has-two-places"]
    assert nearest(Sketch(), 1) == []


def test_the_places_of_a_node_are_filled_one_after_the_other() -> None:
    sketch = Sketch()
    sketch.node("half", gpus=8)
    sketch.running("kept-a", "half", range(4), priority=75)
    sketch.node("almost", gpus=4)
    sketch.running("kept-b", "almost", [0], priority=75)
    assert nearest(sketch, 1) == ["half"]
    assert nearest(sketch, 2) == ["almost", "half"], "its second place lacks four GPUs, not none"


def test_bounds_of_many_priorities_are_rounded_until_they_are_too_many() -> None:
    """The GPUs of each priority and the work lost share 62 bits: the work lost is rounded first."""
    for priorities, rounded in ((2, False), (14, True), (30, None)):
        sketch = Sketch()
        sketch.node("a", gpus=priorities)
        for priority in range(priorities):
            sketch.running(f"j{priority}", "a", [priority], priority=priority + 1)
        snapshot = current_snapshot(sketch.state)
        index, need = snapshot.allocation_index, TaskRequirements.of(group(gpus=1))
        shortlist = Shortlist(index, snapshot.cluster, need, sorted(index.levels))
        bounds = shortlist.price_bounds(1, sketch.state.now, sketch.state.rules.preemption)
        assert (None if bounds is None else bounds[0].shift > 0) is rounded, priorities


@pytest.mark.parametrize(
    ("gpus", "short", "gains"), [(1, 3, 3), (1, 9, 8), (3, 9, 2), (4, 2, 2), (4, 3, 2), (4, 1, 1), (9, 5, 0)]
)
def test_a_node_gains_no_more_slots_than_are_wanted_or_than_it_has_gpus_for(gpus: int, short: int, gains: int) -> None:
    sketch = Sketch()
    sketch.node("small", gpus=4)
    sketch.node("large", gpus=8)
    sketch.running("evictable", "large", range(8), priority=25)
    snapshot = current_snapshot(sketch.state)
    need = TaskRequirements.of(group(gpus=gpus))
    assert Shortlist(snapshot.allocation_index, snapshot.cluster, need, [25]).most_gains(short) == gains
