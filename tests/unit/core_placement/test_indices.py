"""The indices of allocations and of jobs, built at once or step by step, and the sizes of caches."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from tests.kits.builders import MINUTE, Sketch, group

from bailiff_core.placement import ClusterResources, node_index
from bailiff_core.placement import cluster_resources as resources
from bailiff_core.placement import free_gpu_index as gpu_index
from bailiff_core.placement import unschedulable_reasons as reasons
from bailiff_core.placement.allocation_index import AllocationIndex, JobAllocation, NodeAllocation
from bailiff_core.placement.equivalence_classes import GPUS, EquivalenceClasses
from bailiff_core.placement.node_index import index_for
from bailiff_core.placement.packing import ANYWHERE
from bailiff_core.placement.task_requirements import TaskRequirements

# --- the allocation index, built from all jobs at once or job by job


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch(a=8, b=4, c=2, d=0)
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
    sketch = Sketch(a=2)
    surplus = sketch.at(sketch.job("cpus", group(2, cpu=1)), ("a", []), ("a", []))
    surplus.demand = surplus.demand.model_copy(update={"min_tasks": 1})
    index = AllocationIndex.of_pool(sketch.state)
    assert (index.levels[50].youngest.tolist(), index.levels[50].shrinks.tolist()) == ([surplus.seq], [1])
    del sketch.state.active["cpus"]
    index.refresh(sketch.state, ["cpus"])
    assert (index.levels[50].youngest.tolist(), index.levels[50].shrinks.tolist()) == ([0], [0])


def test_what_the_jobs_of_a_priority_hold_on_a_node() -> None:
    """`wide` may lose its tasks one by one, `firm` only all at once; the third has no GPUs there."""
    sketch = Sketch(a=8)
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


# --- what the allocation index notes of one job: its GPUs by node and task, those that cost nothing, and the work to lose


@pytest.fixture
def placed() -> Sketch:
    return Sketch(a=8, b=8)


def noted(placed: Sketch) -> JobAllocation:
    """The only job's entry; the totals of the index are those of the job."""
    index = AllocationIndex.of_pool(placed.state)
    (found,) = index.of.values()
    assert (index.tasks, index.gpus, index.cpu_milli) == (found.tasks, found.gpus, found.cpu_milli)
    return found


def test_parts_of_gpus_cost_nothing_beside_whole_ones(placed: Sketch) -> None:
    job = placed.job("asks", group(gpu_share_milli=500, gpu_devices=2), group(gpus=1))
    placed.at(job, ("a", [0, 1]), ("a", [2]))
    assert noted(placed).nodes == {0: NodeAllocation(2, [1], 3)}


def test_cpus_count_of_tasks_without_gpus_only(placed: Sketch) -> None:
    placed.at(placed.job("asks", group(2, cpu=2), group(gpus=1, cpu=4)), ("a", []), ("b", []), ("b", [0]))
    assert noted(placed).cpu_milli == 4000


# --- active jobs by what protections look at: the classes follow the state, and have their oldest members first


FIRM = ("running", 75, "train", True, GPUS)
PLAIN = ("running", 50, "train", True, GPUS)


@pytest.fixture
def alike() -> Sketch:
    """Of three jobs of one class the one that was submitted first became active last."""
    made = Sketch()
    made.node("a")
    for number, (name, seq, priority) in enumerate((("b", 20, 50), ("c", 30, 50), ("a", 10, 50), ("d", 40, 75))):
        made.running(name, "a", [number], priority=priority, seq=seq).project = "train"
    made.job("waits", seq=50).project = "train"
    return made


def test_the_oldest_member_is_the_first(alike: Sketch) -> None:
    found = EquivalenceClasses(alike.state)
    assert found.groups == {PLAIN: [(10, "a"), (20, "b"), (30, "c")], FIRM: [(40, "d")]}
    assert found.priorities() == [50, 75]
    assert [found.group_of(name) for name in ("a", "d", "waits", "unknown")] == [PLAIN, FIRM, None, None]


# --- caches hold no more than so many entries: one that is full starts anew, or forgets what was not used for longest


LABELS = ("x", "y", "z", "x")


@pytest.fixture
def small() -> Sketch:
    return Sketch(a=4)


@pytest.fixture
def cluster(small: Sketch) -> ClusterResources:
    return ClusterResources.of(small.state)


def need(zone: str = "", **about: Any) -> TaskRequirements:
    return TaskRequirements.of(group(node_labels={"zone": zone} if zone else {}, **about))


def test_eligible_nodes(cluster: ClusterResources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "ELIGIBLE_CACHE_SIZE", 2)
    kept = []
    for zone in LABELS[:3]:
        cluster.eligible_nodes(need(zone, gpus=1))
        kept.append(len(cluster._eligible))
    assert kept == [1, 2, 1]


def test_free_gpus(cluster: ClusterResources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_index, "CACHE_SIZE", 2)
    kept = []
    for zone in LABELS[:3]:
        gpu_index.free_gpu_index_of(cluster, need(zone, gpus=1))
        kept.append(len(cluster.views(gpu_index.FreeGpuIndex)))
    assert kept == [1, 2, 1]


def test_reasons(cluster: ClusterResources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasons, "DIAGNOSTICS_CACHE_SIZE", 2)
    kept = []
    for zone in LABELS[:3]:
        reasons.unschedulable_reason(cluster, {need(zone, gpus=8): 1}, ANYWHERE, future=False)
        kept.append(len(cluster.node_diagnostics))
    assert kept == [1, 2, 1]


def test_orders_of_shared_gpus_the_last_used_stay(cluster: ClusterResources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_index, "ORDER_CACHE_SIZE", 2)
    index, kept = index_for(cluster, need().selector), []
    for share in (100, 200, 100, 300):
        index.best_shared_gpu_node(need(gpu_share_milli=share), spread=False)
        kept.append([order.share_milli for order, _ in index._orders])
    assert kept == [[100], [100, 200], [200, 100], [100, 300]]
