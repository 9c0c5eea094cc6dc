"""Places for jobs that prefer one island: where one fits with all else that the job needs, and otherwise as without the wish."""

from typing import Any

import pytest
from tests.builders import Sketch, group, requested_unit
from tests.unit.core_placement.tables import need

from bailiff_core.model.demand import JobDemand, TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.placement import ClusterResources, GangPlacement, StepBudget, TaskPlacement, place_unit
from bailiff_core.placement.gang import is_spread
from bailiff_core.placement.islands import islands_used, place_on_islands, prefers_islands
from bailiff_core.placement.packing import ANYWHERE, PlacementScope
from bailiff_core.placement.solve import pack

PREFERS = PlacementScope(islands=True)


def pool(**cpus: int) -> ClusterResources:
    """Nodes with one island of two GPUs each, and so many CPUs."""
    sketch = Sketch()
    for name, cpu in cpus.items():
        for device in sketch.node(name, gpus=2, cpu=cpu).devices:
            device.island = "x"
    return ClusterResources.of(sketch.state)


def places(cluster: ClusterResources, *wanted: tuple[dict[str, Any], int], scope: PlacementScope = ANYWHERE) -> Any:
    found = place_on_islands(cluster, {need(**asked): count for asked, count in wanted}, scope)
    return None if found is None else [chunk.node.name for chunk in found for _ in chunk.masks]


def test_an_island_on_a_node_without_the_cpus_is_passed_over() -> None:
    assert places(pool(a=1, b=4), ({"gpus": 2, "cpu": 2}, 1)) == ["b"]


def test_spread_tasks_pass_over_it_as_well() -> None:
    assert places(pool(a=1, b=4, c=4), ({"gpus": 2, "cpu": 2}, 2), scope=PlacementScope(spread=True)) == ["b", "c"]


def test_tasks_without_gpus_are_placed_beside_those_on_islands() -> None:
    assert places(pool(a=4), ({"gpus": 2, "cpu": 2}, 1), ({"cpu": 1}, 2)) == ["a", "a", "a"]


@pytest.mark.parametrize("others", [(({"cpu": 8}, 1),), (({"cpu": 1}, 1), ({"cpu": 8}, 1)), (({"cpu": 8}, 1), ({"cpu": 1}, 1))])
def test_where_the_others_do_not_fit_too_there_is_no_such_place(others: Any) -> None:
    cluster = pool(a=4)
    assert places(cluster, ({"gpus": 2, "cpu": 2}, 1), *others) is None
    assert cluster.nodes[0].now().cpu_milli == 4000, "nothing stays taken"


def test_where_one_island_leaves_no_room_for_the_others_each_task_has_its_own() -> None:
    """Both tasks on the larger island would take the CPUs of its node, of which another task needs four."""
    sketch = Sketch()
    for name, gpus, cpu in (("a", 4, 5), ("b", 2, 1)):
        for device in sketch.node(name, gpus=gpus, cpu=cpu).devices:
            device.island = "x"
    wanted = ({"gpus": 2, "cpu": 1}, 2), ({"cpu": 4}, 1)
    assert places(ClusterResources.of(sketch.state), *wanted) == ["b", "a", "a"]


def test_on_a_node_without_islands_the_wish_changes_nothing() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=4)
    sketch.running("goes", "a", [0, 1, 2], phase="evicting")
    cluster = ClusterResources.of(sketch.state)
    wanted = {need(gpus=2): 2}
    with_wish, without = (pack(cluster, wanted, scope, StepBudget(99), future=True) for scope in (PREFERS, ANYWHERE))
    assert with_wish == without


def test_mig_devices_are_on_no_island() -> None:
    sketch = Sketch()
    for device in sketch.node("a", gpus=2).devices:
        device.island, device.kind, device.profile = "x", "mig", "3g.40gb"
    job = sketch.job("asks", group(mig_profile="3g.40gb", gpu_devices=2))
    job.demand = job.demand.model_copy(update={"placement": "prefer nvlink"})
    assert islands_used(sketch.state, job, [TaskPlacement(0, 0, 0b11)]) == ""


@pytest.mark.parametrize(
    ("own", "of_policy", "prefers"),
    [(None, "any", False), (None, "prefer nvlink", True), ("any", "prefer nvlink", False), ("prefer nvlink", "any", True),
     (None, None, False), ("prefer nvlink", None, True)],
)  # fmt: skip
def test_the_job_says_whether_it_prefers_an_island_and_else_the_policy(own: Any, of_policy: Any, prefers: bool) -> None:
    policy = None if of_policy is None else DEFAULT_POLICY.model_copy(update={"placement": of_policy})
    assert prefers_islands(JobDemand(job="asks", tasks=(group(),), placement=own), policy) is prefers


@pytest.mark.parametrize(
    ("own", "of_policy", "spread"),
    [(None, "binpack", False), (None, "spread", True), ("spread", "binpack", True), ("binpack", "spread", False),
     (None, None, False), ("spread", None, True)],
)  # fmt: skip
def test_the_job_says_whether_it_is_spread_and_else_the_policy(own: Any, of_policy: Any, spread: bool) -> None:
    sketch = Sketch()
    sketch.state.policy = None if of_policy is None else DEFAULT_POLICY.model_copy(update={"packing": of_policy})
    job = sketch.job("asks", group())
    job.demand = job.demand.model_copy(update={"pack": own})
    assert is_spread(ClusterResources.of(sketch.state), requested_unit(job)) is spread


def test_a_topology_rule_that_names_no_level_costs_no_search() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    policy = DEFAULT_POLICY.model_dump(mode="json") | {"topologies": [{"name": "dc", "levels": ["rack"]}]}
    sketch.state.policy = type(DEFAULT_POLICY).model_validate(policy, strict=False)
    job = sketch.job("asks", group(gpus=2))
    job.demand = job.demand.model_copy(update={"topology": TopologyRule(topology="dc")})
    assert isinstance(place_unit(ClusterResources.of(sketch.state), requested_unit(job), StepBudget(0)), GangPlacement)


def test_a_reservation_has_the_nodes_of_one_without_the_wish() -> None:
    """On the node with fewer free GPUs there is no island; on the other one there is."""
    sketch = Sketch()
    sketch.node("a", gpus=2)
    for device in sketch.node("b", gpus=4).devices:
        device.island = "x"
    cluster, wanted = ClusterResources.of(sketch.state), {need(gpus=2): 1}
    for future, node in ((True, "a"), (False, "b")):
        found = pack(cluster, wanted, PREFERS, StepBudget(99), future=future)
        assert isinstance(found, list)
        assert [chunk.node.name for chunk in found] == [node]
