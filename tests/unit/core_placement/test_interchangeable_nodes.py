"""Which nodes a packing search takes for interchangeable: those that are alike to every kind of tasks, and no others."""

from typing import Any

import pytest
from tests.builders import Sketch, group
from tests.unit.core_placement.tables import need

from bailiff_core.model.demand import TaskGroup
from bailiff_core.placement import ClusterResources
from bailiff_core.placement.devices import _equivalence_key
from bailiff_core.placement.packing import ANYWHERE, offers
from bailiff_core.placement.search import _interchangeable_before

IN_X = {"zone": "x"}
ONE_CPU = {"cpu": 1}


@pytest.mark.parametrize(
    ("nodes", "asked", "before"),
    [
        pytest.param(({}, {}, {}), (ONE_CPU,), [None, 0, 1], id="equal nodes: the nearest one before"),
        pytest.param(({}, {"gpus": 2}), (ONE_CPU,), [None, None], id="another number of free GPUs"),
        pytest.param(({}, {"cpu": 999}), (ONE_CPU,), [None, None], id="another number of CPUs"),
        pytest.param(({}, {"gib": 999}), (ONE_CPU,), [None, None], id="another amount of memory"),
        pytest.param(({}, {"slots": 999}), (ONE_CPU,), [None, None], id="another number of slots"),
        pytest.param(
            ({"gpus": 2, "models": ("h",)}, {"gpus": 3, "models": ("h", "a", "h")}),
            ({"gpus": 1, "gpu_models": ("h",)},),
            [None, 0],
            id="GPUs of a model that no task accepts make no difference",
        ),
        pytest.param(
            ({"gpus": 2, "models": ("h",)}, {"gpus": 2, "models": ("h", "a")}),
            ({"gpus": 1, "gpu_models": ("h",)},),
            [None, None],
            id="another number of GPUs of the model",
        ),
        pytest.param(
            ({"labels": IN_X}, {}),
            (ONE_CPU, {"cpu": 2, "node_labels": IN_X}),
            [None, None],
            id="one kind of tasks may not use it",
        ),
        pytest.param(
            ({"gpus": 1, "labels": IN_X}, {"gpus": 1}),
            (ONE_CPU, {"cpu": 2, "node_labels": IN_X}),
            [None, None],
            id="one kind of tasks may not use it, although it has as many GPUs",
        ),
    ],
)
def test_nodes_are_interchangeable_if_they_are_alike_to_every_kind_of_tasks(nodes: Any, asked: Any, before: Any) -> None:
    sketch = Sketch()
    for name, about in zip("abc", nodes, strict=False):
        sketch.node(name, **{"gpus": 0, **about})
    cluster, requirements = ClusterResources.of(sketch.state), [need(**each) for each in asked]
    found = list(offers(cluster, requirements[0], ANYWHERE, future=False))
    assert _interchangeable_before(cluster, found, requirements, future=False) == before


def test_where_only_some_tasks_share_gpus_it_matters_which_ones_are_free() -> None:
    sketch = Sketch()
    for name, taken in (("a", [0, 1]), ("b", [2, 3])):
        sketch.node(name, gpus=4)
        sketch.running(f"on-{name}", name, taken)
    cluster, requirements = ClusterResources.of(sketch.state), [need(gpus=1), need(gpu_share_milli=500)]
    found = list(offers(cluster, requirements[0], ANYWHERE, future=False))
    assert _interchangeable_before(cluster, found, requirements[:1], future=False) == [None, 0]
    assert _interchangeable_before(cluster, found, requirements, future=False) == [None, None]


@pytest.mark.parametrize("leaving", [group(gpus=1), group(cpu=1), group(gib=1), group()], ids=["gpus", "cpus", "memory", "slots"])
@pytest.mark.parametrize("future", [False, True])
def test_what_is_leaving_counts_only_for_tasks_that_may_wait(leaving: TaskGroup, future: bool) -> None:
    sketch = Sketch()
    for name, phase in (("a", "running"), ("b", "evicting")):
        sketch.node(name, gpus=2)
        sketch.at(sketch.job(f"on-{name}", leaving), (name, [0] if leaving.gpu_milli else []), phase=phase)
    cluster, requirements = ClusterResources.of(sketch.state), need(gpus=1)
    found = list(offers(cluster, requirements, ANYWHERE, future=False))
    assert _interchangeable_before(cluster, found, [requirements], future=future) == ([None, None] if future else [None, 0])
    a, b = (_equivalence_key(node, [requirements], future=future) for node in cluster.nodes.values())
    assert (a == b) is not future, "so it is for a search for devices"
