"""Caches hold no more than so many entries: one that is full starts anew, or forgets what was not used for longest."""

from typing import Any

import pytest
from tests.builders import Sketch, group

from bailiff_core.model.demand import JobDemand
from bailiff_core.placement import ClusterResources, could_ever_fit, feasibility, node_index
from bailiff_core.placement import cluster_resources as resources
from bailiff_core.placement import free_gpu_index as gpu_index
from bailiff_core.placement import unschedulable_reasons as reasons
from bailiff_core.placement.node_index import index_for
from bailiff_core.placement.packing import ANYWHERE
from bailiff_core.placement.task_requirements import TaskRequirements

SIZES = (1, 2, 3)
LABELS = ("x", "y", "z", "x")


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    made.node("a", gpus=4)
    return made


@pytest.fixture
def cluster(sketch: Sketch) -> ClusterResources:
    return ClusterResources.of(sketch.state)


def need(zone: str = "", **about: Any) -> TaskRequirements:
    return TaskRequirements.of(group(node_labels={"zone": zone} if zone else {}, **about))


def test_what_could_ever_fit(sketch: Sketch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feasibility, "CACHE_SIZE", 2)
    kept = []
    for gpus in SIZES:
        could_ever_fit(sketch.state, JobDemand(job="asks", tasks=(group(gpus=gpus),)))
        kept.append(len(sketch.state.indices.infeasible))
    assert kept == [1, 2, 1]


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


def test_indices_of_nodes_the_last_used_stay(cluster: ClusterResources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_index, "INDEX_CACHE_SIZE", 2)
    kept = []
    for zone in ("x", "y", "x", "z"):
        index_for(cluster, need(zone, gpus=1).selector)
        kept.append([selector.labels[0][1] for selector in cluster.views(node_index.NodeIndex)])
    assert kept == [["x"], ["x", "y"], ["y", "x"], ["x", "z"]]


def test_orders_of_shared_gpus_the_last_used_stay(cluster: ClusterResources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_index, "ORDER_CACHE_SIZE", 2)
    index, kept = index_for(cluster, need().selector), []
    for share in (100, 200, 100, 300):
        index.best_shared_gpu_node(need(gpu_share_milli=share), spread=False)
        kept.append([order.share_milli for order, _ in index._orders])
    assert kept == [[100], [100, 200], [200, 100], [100, 300]]
