"""What a search for domains costs: a step for each try, and one for so many nodes of the domain."""

import pytest
from tests.builders import Sketch, group, requested_unit

from bailiff_core.model.demand import JobDemand, TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY, Topology
from bailiff_core.placement import ClusterResources, GangPlacement, StepBudget, place_unit, topology


@pytest.mark.parametrize(("required", "steps"), [("zone", 5), ("rack", 3)])
def test_a_try_costs_as_many_steps_as_the_domain_has_nodes(monkeypatch: pytest.MonkeyPatch, required: str, steps: int) -> None:
    monkeypatch.setattr(topology, "NODES_PER_STEP", 1)
    sketch = Sketch()
    levels = (Topology(name="dc", levels=("zone", "rack")),)
    sketch.state.policy = DEFAULT_POLICY.model_copy(update={"topologies": levels})
    for number in range(8):
        sketch.node(f"n{number}", gpus=1, labels={"zone": "xy"[number // 4], "rack": "12"[number // 2 % 2]})
    rule = TopologyRule(topology="dc", required=required)
    job = sketch.job("asks", group(2, gpus=1))
    job.demand = JobDemand(job="asks", tasks=job.demand.tasks, topology=rule)
    budget = StepBudget(100)
    assert isinstance(place_unit(ClusterResources.of(sketch.state), requested_unit(job), budget), GangPlacement)
    assert budget.used == steps
