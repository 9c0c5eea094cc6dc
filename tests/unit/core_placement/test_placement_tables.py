"""Which nodes count for a shared checkpoint directory, how an unknown topology is named, and places on islands beside others."""

from typing import Any

import pytest
from tests.builders import GIB, Sketch, group, requested_unit

from bailiff_core.model.demand import JobDemand, TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY, Topology
from bailiff_core.model.state import Device
from bailiff_core.placement import ClusterResources, StepBudget
from bailiff_core.placement.islands import place_on_islands
from bailiff_core.placement.joint_placement import place_jointly
from bailiff_core.placement.packing import ANYWHERE
from bailiff_core.placement.shared_checkpoints import unshared_checkpoints
from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.placement.topology_parts import topology_problem


@pytest.mark.parametrize(
    ("about", "named"),
    [
        ({}, "fast, mixed share none"),
        ({"gpu_models": ("h100",)}, "fast, mixed share none"),
        ({"gpu_models": ("a100",)}, "mixed shares none"),
        ({"gpu_models": ("a100", "l40s")}, "mixed shares none"),
        ({"gpu_models": ("l40s",)}, None),  # one node, which has a directory that others could share
        ({"gpu_models": ("v100",)}, None),  # no node at all, which another check reports
        ({"node_labels": {"disk": "fast"}}, "fast shares none"),
        ({"node_labels": {"disk": "slow"}}, None),
        ({"nodes": ("mixed", "shared")}, "mixed shares none"),
        ({"nodes": ("shared",)}, None),
        ({"gpu_models": ("a100",), "nodes": ("fast",)}, None),
    ],
)
def test_only_nodes_that_may_run_a_task_need_the_directory(about: dict[str, Any], named: str | None) -> None:
    sketch = Sketch()
    sketch.node("fast", gpus=4, labels={"disk": "fast"})
    sketch.node("mixed", gpus=4, models=("h100", "a100"))
    sketch.node("shared", gpus=4, models=("l40s",)).checkpoint_store = "x"
    found = unshared_checkpoints(sketch.state, JobDemand(job="asks", tasks=(group(2, gpus=4, **about),)))
    assert (found is None) == (named is None)
    assert named is None or f"may run it {named}: set" in (found or "")


@pytest.mark.parametrize(("names", "defined"), [((), "none"), (("hall",), "hall"), (("hall", "net"), "hall, net")])
def test_an_unknown_topology_is_named_beside_those_that_are_defined(names: tuple[str, ...], defined: str) -> None:
    topologies = tuple(Topology(name=name, levels=("rack",)) for name in names)
    demand = JobDemand(job="asks", tasks=(group(),), topology=TopologyRule(topology="lan"))
    for policy in (DEFAULT_POLICY.model_copy(update={"topologies": topologies}), *(() if names else (None,))):
        why = topology_problem(demand, policy)
        assert why == f"the job refers to topology 'lan', which the policy does not define (defined: {defined})"


@pytest.mark.parametrize(
    ("others", "fits"),
    [((), True), ((2,), True), ((9,), False), ((2, 9), False), ((9, 2), False), ((2, 3), True)],
)
def test_tasks_beside_those_on_an_island_have_to_fit_as_well(others: tuple[int, ...], fits: bool) -> None:
    sketch = Sketch()
    node = sketch.node("a", gpus=4, cpu=8)
    node.devices = [Device(number, f"a{number}", "h100", GIB, island="xxyy"[number]) for number in range(4)]
    cluster = ClusterResources.of(sketch.state)
    before = cluster.nodes[0].unallocated
    wanted = {TaskRequirements.of(group(gpus=2)): 1, **{TaskRequirements.of(group(cpu=cpu)): 1 for cpu in others}}
    found = place_on_islands(cluster, wanted, ANYWHERE)
    assert (found is not None) is fits
    assert found is None or len(found) == 1 + len(others)
    assert cluster.nodes[0].unallocated == before


@pytest.mark.parametrize(("labels", "fits"), [({"rack": "r1"}, True), ({}, False), ({"zone": "z"}, False)])
def test_a_node_without_the_label_of_a_level_is_in_none_of_its_domains(labels: dict[str, str], fits: bool) -> None:
    """Two jobs are placed together, of which one needs one rack."""
    sketch = Sketch()
    sketch.state.policy = DEFAULT_POLICY.model_copy(update={"topologies": (Topology(name="hall", levels=("rack",)),)})
    sketch.node("a", gpus=3, labels=labels)
    sketch.node("b", gpus=1, labels={"rack": "r2"})
    bound, other = sketch.job("bound", group(2, gpus=1)), sketch.job("other", group(gpus=1))
    bound.demand = bound.demand.model_copy(update={"topology": TopologyRule(topology="hall", required="rack")})
    units = [requested_unit(bound), requested_unit(other)]
    found = place_jointly(ClusterResources.of(sketch.state), units, StepBudget(100))
    assert (found != "impossible") is fits
