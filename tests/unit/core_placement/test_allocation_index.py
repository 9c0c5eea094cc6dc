"""The allocation index, built from all jobs at once or job by job."""

from dataclasses import fields

import numpy as np
import pytest
from tests.builders import MINUTE, Sketch, group

from bailiff_core.placement.allocation_index import AllocationIndex


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    for name, gpus in (("a", 8), ("b", 4), ("c", 2), ("d", 0)):
        made.node(name, gpus=gpus)
    made.running("one", "a", [0], age=5 * MINUTE)
    made.running("younger", "a", [6], age=MINUTE)
    made.running("two", "a", [1, 2], age=3 * MINUTE, priority=75)
    made.running("alike", "b", [0], age=5 * MINUTE)
    made.running("firm", "b", [1], preemptible=False)
    made.running("promised", "b", [2], phase="reserved")
    made.running("leaving", "a", [3], phase="evicting")
    made.at(made.job("gang", group(2, gpus=2), priority=10), ("a", [4, 5]), ("c", [0, 1]))
    made.at(made.job("cpus", group(cpu=2), priority=10), ("d", []))
    made.at(made.job("shared", group(1, gpu_share_milli=500)), ("b", [3]))
    return made


def test_building_it_at_once_equals_building_it_job_by_job(sketch: Sketch) -> None:
    at_once, singly = AllocationIndex.of_pool(sketch.state), AllocationIndex()
    singly.all_gpus, singly.max_devices = np.zeros(4, np.int64), 8
    for name in sketch.state.active:
        singly.refresh(sketch.state, [name])
    assert singly.cpu_milli == 2000
    for one in ("of", "tasks", "gpus", "cpu_milli"):
        assert getattr(at_once, one) == getattr(singly, one), one
    assert {node: here for node, here in singly.on.items() if here} == at_once.on
    assert at_once.all_gpus.tolist() == singly.all_gpus.tolist() == [6, 4, 2, 0]
    assert at_once.levels.keys() == singly.levels.keys() == {10, 50, 75}
    for priority, level in at_once.levels.items():
        for part in fields(level):
            assert getattr(level, part.name).tolist() == getattr(singly.levels[priority], part.name).tolist(), part.name


def test_what_jobs_leave_is_no_longer_counted(sketch: Sketch) -> None:
    index = AllocationIndex.of_pool(sketch.state)
    for name in ("gang", "shared", "leaving", "cpus"):
        del sketch.state.active[name]
        index.refresh(sketch.state, [name])
        anew = AllocationIndex.of_pool(sketch.state)
        assert (index.tasks, index.gpus, index.cpu_milli, index.of) == (anew.tasks, anew.gpus, anew.cpu_milli, anew.of), name


def test_a_node_that_only_a_job_without_gpus_leaves_is_counted_as_empty() -> None:
    """Otherwise a search would look at more nodes, and take other steps, in a service that has run for long."""
    sketch = Sketch()
    sketch.node("a", gpus=2)
    surplus = sketch.at(sketch.job("cpus", group(2, cpu=1)), ("a", []), ("a", []))
    surplus.demand = surplus.demand.model_copy(update={"min_tasks": 1})
    index = AllocationIndex.of_pool(sketch.state)
    assert (index.levels[50].youngest.tolist(), index.levels[50].shrinks.tolist()) == ([surplus.seq], [1])
    del sketch.state.active["cpus"]
    index.refresh(sketch.state, ["cpus"])
    assert (index.levels[50].youngest.tolist(), index.levels[50].shrinks.tolist()) == ([0], [0])


def test_what_the_jobs_of_a_priority_hold_on_a_node() -> None:
    """`wide` may lose its tasks one by one, `firm` only all at once; the third has no GPUs there."""
    sketch = Sketch()
    sketch.node("a", gpus=8)
    wide = sketch.at(sketch.job("wide", group(gpus=1), group(gpus=2)), ("a", [0]), ("a", [1, 2]), age=5 * MINUTE)
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    sketch.at(sketch.job("firm", group(3, gpus=1)), ("a", [3]), ("a", [4]), ("a", [5]), age=MINUTE)
    last = sketch.at(sketch.job("cpus", group(cpu=1)), ("a", []))
    level = AllocationIndex.of_pool(sketch.state).levels[50]
    assert (level.gpus[0], level.shrinks[0], level.youngest[0]) == (6, 1, last.seq)
    ages = [sketch.state.now - since for since in level.since[0].tolist()]
    assert ages[:6] == [MINUTE] * 3 + [5 * MINUTE] * 3, "the least to lose first"
    assert level.jobs_for[0].tolist()[:7] == [0, 1, 1, 1, 2, 2, 2]
    assert level.tasks_for[0].tolist()[:7] == [0, 1, 1, 2, 3, 4, 5]
    assert level.least[0].tolist()[:7] == [0, 1, 2, 3, 4, 5, 6]
    for job in (wide, last):
        AllocationIndex.refresh(index := AllocationIndex.of_pool(sketch.state), sketch.state, [job.id])
        for part in fields(level):
            assert getattr(index.levels[50], part.name).tolist() == getattr(level, part.name).tolist(), part.name
