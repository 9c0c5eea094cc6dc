"""Reasons why tasks do not fit, in pools where what is counted differs: no node at all, other models, and what is leaving."""

from typing import Any

import pytest
from tests.builders import Sketch
from tests.unit.core_placement.tables import need, pool

from bailiff_core.placement import ClusterResources
from bailiff_core.placement.packing import ANYWHERE
from bailiff_core.placement.unschedulable_reasons import unschedulable_reason

ONE, TWO = need(gpus=1), need(gpus=2, cpu=1)


def test_without_a_node_there_is_no_largest_one() -> None:
    assert unschedulable_reason(pool(), {ONE: 1}, ANYWHERE, future=True) == "needs 1 task of 1 GPU, no node fits one"


@pytest.mark.parametrize(
    ("models", "asked", "reason"),
    [
        (("a", "h", "h"), ({"gpu_models": ("h",)}, {"gpu_models": ("h",), "cpu": 1}), "needs 3 GPUs in total, 2 are free"),
        (("a", "h", "h"), ({"gpu_models": ("h",)}, {"gpu_models": ("a",)}), None),  # each kind has GPUs of its own
    ],
)
def test_gpus_that_no_task_accepts_are_not_in_the_total(models: Any, asked: Any, reason: str | None) -> None:
    cluster = pool(3, models=models)
    wanted = {need(gpus=1, **each): count for each, count in zip(asked, (2, 1), strict=True)}
    assert unschedulable_reason(cluster, wanted, ANYWHERE, future=False) == reason


@pytest.mark.parametrize(("future", "reason"), [(False, "needs 3 GPUs in total, 2 are free"), (True, None)])
def test_what_is_leaving_is_in_the_total_for_tasks_that_may_wait(future: bool, reason: str | None) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=3)
    sketch.running("goes", "a", [0], phase="evicting")
    cluster = ClusterResources.of(sketch.state)
    assert unschedulable_reason(cluster, {ONE: 1, TWO: 1}, ANYWHERE, future=future) == reason


@pytest.mark.parametrize(("future", "what"), [(False, "free"), (True, "free or releasing")])
def test_the_reason_says_whether_what_is_leaving_counts(future: bool, what: str) -> None:
    assert unschedulable_reason(pool(2), {ONE: 1, TWO: 1}, ANYWHERE, future=future) == f"needs 3 GPUs in total, 2 are {what}"


def test_kinds_without_gpus_have_no_total() -> None:
    assert unschedulable_reason(pool(0), {need(cpu=1): 1, need(cpu=2): 1}, ANYWHERE, future=False) is None


def test_the_reason_follows_a_node_that_joins() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=4)
    cluster, wanted = ClusterResources.of(sketch.state), {need(gpus=5): 1}
    found = unschedulable_reason(cluster, wanted, ANYWHERE, future=False)
    assert found == "needs 1 task of 5 GPUs, no node fits one; 1 node has fewer than 5 usable GPUs"
    sketch.node("b", gpus=4)
    cluster.refresh(sketch.state, [1])
    found = unschedulable_reason(cluster, wanted, ANYWHERE, future=False)
    assert found == "needs 1 task of 5 GPUs, no node fits one; 2 nodes have fewer than 5 usable GPUs"
