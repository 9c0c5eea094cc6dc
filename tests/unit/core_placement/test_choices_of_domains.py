"""Which topology domain a gang gets, what a search for one costs, and what counts as free in a domain."""

from typing import Any

import pytest
from tests.kits.builders import GIB, Sketch, group, requested_unit

from bailiff_core.model.demand import JobDemand, SubGroup, TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY, Topology
from bailiff_core.model.resource_vector import ResourceVector
from bailiff_core.model.state import Job
from bailiff_core.placement import ClusterResources, NoFit, StepBudget, place_unit
from bailiff_core.placement.topology_domains import _free

ZONE, RACK = TopologyRule(topology="dc", required="zone"), TopologyRule(topology="dc", required="rack")
PREFERS_RACK = TopologyRule(topology="dc", preferred="rack")


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    levels = (Topology(name="dc", levels=("zone", "rack")),)
    made.state.policy = DEFAULT_POLICY.model_copy(update={"topologies": levels})
    return made


def nodes(sketch: Sketch, **gpus: int) -> None:
    """Nodes of zone x: `one=2` is a node of two GPUs in rack one."""
    for rack, count in gpus.items():
        sketch.node(rack, gpus=count, labels={"zone": "x", "rack": rack})


def asks(sketch: Sketch, *groups: Any, rule: TopologyRule | None = None, parts: tuple[SubGroup, ...] = ()) -> Job:
    job = sketch.job(f"asks-{len(sketch.state.jobs)}", *groups)
    job.demand = JobDemand(job=job.id, tasks=groups, topology=rule, sub_groups=parts)
    return job


def placed(sketch: Sketch, job: Job, budget: StepBudget | None = None) -> tuple[list[str], bool] | str:
    """The node of each task, and whether they wait; or the reason."""
    found = place_unit(ClusterResources.of(sketch.state), requested_unit(job), budget or StepBudget(1000))
    if isinstance(found, NoFit):
        return f"{found.kind}: {found.why}"
    return [sketch.state.nodes[task.node].name for task in found.tasks], found.future


def test_of_domains_that_are_left_as_full_the_first_by_its_labels(sketch: Sketch) -> None:
    for name, rack in (("a", "two"), ("b", "one"), ("c", "three")):
        sketch.node(name, gpus=2, labels={"zone": "x", "rack": rack})
    assert placed(sketch, asks(sketch, group(gpus=2), rule=RACK)) == (["b"], False)


@pytest.mark.parametrize(("rule", "found"), [(RACK, (["one"], True)), (PREFERS_RACK, (["two"], False))])
def test_a_required_domain_is_the_fullest_one_and_a_preferred_one_is_no_reason_to_wait(
    sketch: Sketch, rule: TopologyRule, found: Any
) -> None:
    nodes(sketch, one=2, two=4)
    sketch.running("goes", "one", [0, 1], phase="evicting")
    assert placed(sketch, asks(sketch, group(gpus=2), rule=rule)) == found


def test_nor_is_the_preference_of_a_part(sketch: Sketch) -> None:
    nodes(sketch, one=2, two=4)
    sketch.running("goes", "one", [0, 1], phase="evicting")
    part = SubGroup(name="part", topology=PREFERS_RACK)
    assert placed(sketch, asks(sketch, group(gpus=2, sub_group="part"), rule=ZONE, parts=(part,))) == (["two"], False)


def test_a_part_is_in_no_domain_of_a_level_that_its_node_does_not_name(sketch: Sketch) -> None:
    nodes(sketch, one=2)
    sketch.node("bare", gpus=4, labels={"zone": "x"})
    part = SubGroup(name="part", topology=RACK)
    for count in (2, 3):
        found = placed(sketch, asks(sketch, group(count, gpus=1, sub_group="part"), rule=ZONE, parts=(part,)))
        assert (found == (["one", "one"], False)) == (count == 2)
        assert str(found).startswith("impossible") == (count == 3)


def test_what_is_leaving_is_counted_in_what_a_domain_fits(sketch: Sketch) -> None:
    nodes(sketch, one=2, two=2)
    sketch.running("goes", "one", [0], phase="evicting")
    sketch.running("stays", "two", [0])
    found = placed(sketch, asks(sketch, group(3, gpus=1), rule=RACK))
    assert found == "impossible: needs 3 × (1 GPU) in one rack of topology 'dc': the best of 2, x/one, fits 2 of 1 GPU"


@pytest.mark.parametrize(("tasks_of_root", "steps"), [(False, 1), (True, 2)])
def test_only_parts_that_have_tasks_cost_a_step(sketch: Sketch, tasks_of_root: bool, steps: int) -> None:
    nodes(sketch, one=4)
    part, budget = SubGroup(name="part", topology=RACK), StepBudget(99)
    groups = [group(gpus=1, sub_group="part"), *([group(gpus=1, cpu=1)] if tasks_of_root else [])]
    assert isinstance(placed(sketch, asks(sketch, *groups, rule=ZONE, parts=(part,)), budget), tuple)
    assert budget.used == steps


# --- what is free in a domain


@pytest.mark.parametrize(("cpu", "gib", "free"), [(4, 8, (1000, 4 * GIB)), (3, 4, (0, 0)), (2, 2, (0, 0))])
def test_a_node_that_has_less_than_its_tasks_use_has_nothing_free(cpu: int, gib: int, free: tuple[int, int]) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=0, cpu=cpu, gib=gib)
    sketch.at(sketch.job("asks", group(cpu=3, gib=4)), ("a", []))
    assert _free(ClusterResources.of(sketch.state).nodes[0]) == ResourceVector(0, *free)
