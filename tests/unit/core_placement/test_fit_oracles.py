"""The oracles that say whether a unit fits: what they cost, what is certain, and what has one kind of tasks."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.builders import Sketch, group, requested_unit

from bailiff_core.model.demand import JobDemand, SubGroup, TopologyRule
from bailiff_core.model.units import whole_job
from bailiff_core.placement import ClusterResources, StepBudget
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims.constraints import Constraints
from bailiff_core.victims.fit_oracle import PlacementOracle, QuotaOracle, SlotOracle, single_requirement

RACK = TopologyRule(topology="dc", required="rack")


@pytest.mark.parametrize(("nodes", "effort"), [(1, 1), (7, 1), (8, 2), (16, 3)])
def test_placing_a_unit_again_costs_more_steps_on_more_nodes(nodes: int, effort: int) -> None:
    sketch = Sketch()
    for number in range(nodes):
        sketch.node(f"n{number}", gpus=1)
    step: Any = SimpleNamespace(unit=whole_job(sketch.running("low", "n0", [0])))
    unit = requested_unit(sketch.job("asks", group(gpus=1)))
    assert PlacementOracle(ClusterResources.of(sketch.state), unit, StepBudget(100)).effort(step) == effort


def test_where_a_unit_has_no_place_nothing_is_restored() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=1)
    step: Any = SimpleNamespace(unit=whole_job(sketch.running("low", "a", [0])))
    cluster = ClusterResources.of(sketch.state)
    cluster.evict(step.unit)
    oracle = PlacementOracle(cluster, requested_unit(sketch.job("asks", group(gpus=2))), StepBudget(100))
    assert (oracle.fits(), oracle.reprieve(step), cluster.nodes[0].future.devices) == (False, False, 1)


def test_a_gang_that_needs_one_of_the_nodes_of_the_unit_is_in_its_way() -> None:
    sketch = Sketch()
    for name in ("a", "b"):
        sketch.node(name, gpus=1)
    gang = sketch.at(sketch.job("gang", group(2, gpus=1)), ("a", [0]), ("b", [0]))
    step: Any = SimpleNamespace(unit=whole_job(gang))
    cluster = ClusterResources.of(sketch.state)
    cluster.evict(step.unit)
    oracle = PlacementOracle(cluster, requested_unit(sketch.job("asks", group(gpus=1, nodes=("a",)))), StepBudget(100))
    assert (oracle.fits(), oracle.reprieve(step)) == (True, False)


def test_once_a_search_for_a_place_gave_up_the_oracle_is_not_exact_any_more() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=1)
    step: Any = SimpleNamespace(unit=whole_job(sketch.running("low", "a", [0])))
    unit = requested_unit(sketch.job("asks", group(gpus=1)))
    left = iter((1, 0, 1))

    def place(budget: StepBudget) -> str:
        budget.charge(budget.remaining - next(left))
        return "project a would use 2 of its limit of 1 GPUs"

    constraints: Any = SimpleNamespace(place=place)
    oracle = PlacementOracle(ClusterResources.of(sketch.state), unit, StepBudget(1000), constraints)
    exact = [oracle.exact]
    for _ in range(2):
        oracle.evict(step)
        exact.append(oracle.exact)
    assert exact == [True, False, False]


@pytest.mark.parametrize(
    ("rules", "single"),
    [
        ({}, True),
        ({"topology": RACK}, False),
        ({"sub_groups": (SubGroup(name="s"),)}, True),
        ({"sub_groups": (SubGroup(name="s", topology=RACK),)}, False),
    ],
)
def test_tasks_with_a_topology_rule_are_not_counted_as_slots(rules: dict[str, Any], single: bool) -> None:
    sketch = Sketch()
    tasks = group(2, gpus=1, **({"sub_group": "s"} if "sub_groups" in rules else {}))
    job = sketch.job("asks", tasks)
    job.demand = JobDemand(job="asks", tasks=(tasks,), **rules)
    assert (single_requirement(requested_unit(job)) is not None) is single


@pytest.mark.parametrize("limited", [False, True])
def test_a_step_that_is_restored_has_its_resources_and_its_place_in_the_usage_again(limited: bool) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=1)
    low = sketch.running("low", "a", [0])
    high = sketch.job("high", group(gpus=1), priority=75)
    snapshot, unit = current_snapshot(sketch.state), requested_unit(high)
    step: Any = SimpleNamespace(unit=whole_job(low))
    slots = SlotOracle(snapshot.cluster, *(single_requirement(unit) or ()))
    constraints = Constraints(snapshot, {}, unit, "preempt")
    oracle = QuotaOracle(slots, constraints) if limited else slots

    def now() -> tuple[int, int, int]:
        return slots.total, snapshot.cluster.nodes[0].future.devices, snapshot.usage.allocated("").gpu_milli

    before = now()
    oracle.evict(step)
    assert now() == (1, 1, 0 if limited else 1000)
    oracle.restore(step)
    assert now() == before == (0, 0, 1000)


@pytest.mark.parametrize(("only", "slots"), [(None, 3), ("a", 2), ("b", 1)])
def test_slots_may_be_counted_on_some_of_the_nodes_only(only: str | None, slots: int) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.node("b", gpus=1)
    cluster = ClusterResources.of(sketch.state)
    need, wanted = single_requirement(requested_unit(sketch.job("asks", group(3, gpus=1)))) or ()
    nodes = None if only is None else {node: mask for node, mask in cluster.eligible_nodes(need) if node.name == only}
    oracle = SlotOracle(cluster, need, wanted, nodes)
    assert (oracle.total, oracle.fits()) == (slots, only is None)


def test_a_step_that_is_restored_on_other_nodes_does_not_move_the_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where more CPUs are in use than the node has by now."""
    sketch = Sketch()
    sketch.node("a", gpus=1)
    node = sketch.node("b", gpus=0, cpu=4)
    step: Any = SimpleNamespace(unit=whole_job(sketch.at(sketch.job("low", group(cpu=4)), ("b", []))))
    node.capacity.cpu_milli = 1000
    cluster = ClusterResources.of(sketch.state)
    cluster.evict(step.unit)
    oracle = PlacementOracle(cluster, requested_unit(sketch.job("asks", group(gpus=1))), StepBudget(100))
    place = oracle.place
    monkeypatch.setattr(oracle, "_find", lambda: None)
    assert (oracle.reprieve(step), oracle.place) == (True, place)


@pytest.mark.parametrize("over", [None, "project a would use 2 of its limit of 1 GPUs"])
@pytest.mark.parametrize("slots", [True, False])
def test_within_limits_a_unit_fits_if_it_has_the_slots_and_keeps_the_limits(slots: bool, over: str | None) -> None:
    sketch = Sketch()
    snapshot = current_snapshot(sketch.state)
    constraints: Any = SimpleNamespace(snapshot=snapshot, over_limit_now=lambda: over)
    oracle: Any = SimpleNamespace(fits=lambda: slots, exact=True)
    assert QuotaOracle(oracle, constraints).fits() is (slots and over is None)
