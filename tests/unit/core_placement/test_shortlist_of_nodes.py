"""The nodes that a shortlist begins with, and the problems that it leaves to other searches or decides by counting."""

import pytest
from tests.builders import MINUTE, Sketch, group
from tests.unit.core_placement.test_large_pools import names, problem

from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import candidates, shortlist
from bailiff_core.victims.shortlist import Shortlist, search_shortlist


@pytest.fixture(autouse=True)
def every_pool_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlist, "MIN_ACTIVE_JOBS", 0)
    monkeypatch.setattr(candidates, "SHORTLIST_COST", 0)


def full_nodes(*priorities: int) -> Sketch:
    """Nodes a, b, … of one GPU, with a job each, which are all as old."""
    sketch = Sketch()
    for name, priority in zip("abcd", priorities, strict=False):
        sketch.node(name, gpus=1)
        sketch.running(f"on-{name}", name, [0], age=MINUTE, priority=priority)
    return sketch


@pytest.mark.parametrize(("size", "chosen"), [(1, "d"), (2, "cd"), (3, "bcd"), (4, "abcd"), (5, "abcd")])
def test_of_nodes_with_equal_bounds_those_with_the_youngest_jobs_come_first(size: int, chosen: str) -> None:
    sketch = full_nodes(50, 50, 50, 50)
    snapshot = current_snapshot(sketch.state)
    made = Shortlist(snapshot.allocation_index, snapshot.cluster, TaskRequirements.of(group(gpus=1)), [50])
    bounds = made.price_bounds(1, sketch.state.now, sketch.state.rules.preemption) or []
    assert [node.name for node in made.first(size, bounds)] == list(chosen)


def test_gangs_of_several_kinds_of_tasks_are_not_its_business() -> None:
    sketch = full_nodes(50, 50)
    assert search_shortlist(problem(sketch, sketch.job("mixed", group(gpus=1), group(gpus=1, cpu=1), priority=75))) is None


@pytest.mark.parametrize(("priorities", "victims"), [((90,), []), ((90, 50), ["on-b"]), ((90, 75), [])])
def test_jobs_of_priorities_that_may_not_be_evicted_free_nothing(priorities: tuple[int, ...], victims: list[str]) -> None:
    sketch = full_nodes(*priorities)
    found = search_shortlist(problem(sketch, sketch.job("asks", group(gpus=1), priority=75)))
    assert names(found) == victims
    assert found is not None
    assert found.proven
