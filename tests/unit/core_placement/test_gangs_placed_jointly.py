"""Several gangs placed at once: each within its topology domain, and in that of its members that run already."""

import pytest
from tests.kits.builders import Sketch, group, requested_unit

from bailiff_core.model.demand import TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY, Topology
from bailiff_core.model.state import Job
from bailiff_core.placement import ClusterResources, StepBudget
from bailiff_core.placement.joint_placement import _JointPlacement, place_jointly

RACK = TopologyRule(topology="dc", required="rack")


@pytest.fixture
def sketch() -> Sketch:
    """Two racks of two nodes of four GPUs each, and a node in no rack."""
    made = Sketch()
    levels = (Topology(name="dc", levels=("zone", "rack")),)
    made.state.policy = DEFAULT_POLICY.model_copy(update={"topologies": levels})
    for name in ("x1", "x2", "y1", "y2"):
        made.node(name, gpus=4, labels={"zone": "z", "rack": name[0]})
    made.node("bare", gpus=4, labels={"zone": "z"})
    return made


def asks(sketch: Sketch, name: str, tasks: int, gpus: int, rule: TopologyRule | None = RACK, minimum: int | None = None) -> Job:
    job = sketch.job(name, group(tasks, gpus=gpus))
    job.demand = job.demand.model_copy(update={"topology": rule, "min_tasks": minimum})
    return job


def runs(sketch: Sketch, name: str, *nodes: str) -> Job:
    """An elastic job of one rack: its members on these nodes run, with two GPUs each; one more is wanted."""
    job = asks(sketch, name, len(nodes) + 1, 2, minimum=1)
    sketch.at(job, *((node, range(2)) for node in nodes), (nodes[0], range(2, 4)))
    sketch.state.nodes[job.tasks.pop().node].allocated.devices &= 0b0011
    return job


def jointly(sketch: Sketch, *jobs: Job, steps: int = 1000) -> list[list[str]] | str:
    """The node of each task of each job."""
    found = place_jointly(ClusterResources.of(sketch.state), [requested_unit(job) for job in jobs], StepBudget(steps))
    if isinstance(found, str):
        return found
    assert all(place.future for place in found), "each is a reservation"
    return [[sketch.state.nodes[task.node].name for task in place.tasks] for place in found]


def test_nothing_is_placed_for_nobody(sketch: Sketch) -> None:
    assert jointly(sketch) == []


def test_one_gang_with_an_unknown_topology_is_enough_for_none_to_be_placed(sketch: Sketch) -> None:
    good, bad = asks(sketch, "good", 1, 1), asks(sketch, "bad", 1, 1, TopologyRule(topology="lan", required="rack"))
    assert jointly(sketch, good) != "impossible"
    assert jointly(sketch, good, bad) == jointly(sketch, bad, good) == "impossible"


def test_a_preferred_level_binds_nobody(sketch: Sketch) -> None:
    wide = asks(sketch, "wide", 5, 4, TopologyRule(topology="dc", preferred="rack"))
    assert sorted(jointly(sketch, wide)[0]) == ["bare", "x1", "x2", "y1", "y2"]


def test_a_node_that_lacks_the_label_is_in_no_domain(sketch: Sketch) -> None:
    for name in ("x1", "x2", "y1", "y2"):
        sketch.running(f"on-{name}", name, [0])
    assert jointly(sketch, asks(sketch, "free", 1, 4, None)) == [["bare"]]
    assert jointly(sketch, asks(sketch, "bound", 1, 4)) == "impossible"


def test_a_gang_joins_its_members_that_run_already(sketch: Sketch) -> None:
    elastic = runs(sketch, "elastic", "y2")
    assert jointly(sketch, elastic)[0][0][0] == "y"
    for name, gpus in (("y1", range(4)), ("y2", (2, 3))):
        sketch.running(f"on-{name}", name, list(gpus))
    assert jointly(sketch, elastic) == "impossible", "rack x is free, but the others are in y"


@pytest.mark.parametrize("nodes", [("x1", "y1"), ("bare",)])
@pytest.mark.parametrize("first", [True, False])
def test_running_members_in_two_domains_or_in_none_have_no_domain_in_common(
    sketch: Sketch, nodes: tuple[str, ...], first: bool
) -> None:
    across, other = runs(sketch, "across", *nodes), asks(sketch, "other", 1, 1)
    assert jointly(sketch, other) != "impossible"
    assert jointly(sketch, *((across, other) if first else (other, across)), steps=0) == "impossible", "without a search"


def test_a_node_in_use_by_another_gang_is_no_place_outside_of_the_own_domain() -> None:
    sketch = Sketch()
    sketch.state.policy = DEFAULT_POLICY.model_copy(update={"topologies": (Topology(name="dc", levels=("rack",)),)})
    for name, gpus in (("x1", 4), ("y1", 2), ("y2", 2)):
        sketch.node(name, gpus=gpus, labels={"rack": name[0]})
    found = jointly(sketch, asks(sketch, "one", 1, 2), asks(sketch, "two", 2, 2))
    assert found == [["x1"], ["y1", "y2"]]


def test_a_domain_of_a_coarse_level_has_all_of_its_finer_ones(sketch: Sketch) -> None:
    wide = asks(sketch, "wide", 5, 4, TopologyRule(topology="dc", required="zone"))
    assert sorted(jointly(sketch, wide)[0]) == ["bare", "x1", "x2", "y1", "y2"]


def test_gangs_that_fill_the_pool_to_the_last_gpu_are_placed(sketch: Sketch) -> None:
    found = jointly(sketch, asks(sketch, "one", 2, 4), asks(sketch, "two", 4, 2), asks(sketch, "three", 1, 4, None))
    assert [sorted(nodes) for nodes in found] == [["x1", "x2"], ["y1", "y1", "y2", "y2"], ["bare"]]
    assert jointly(sketch, asks(sketch, "four", 2, 4), asks(sketch, "five", 5, 2)) == "impossible"


def test_places_are_in_the_order_of_the_tasks_though_the_hardest_is_placed_first(sketch: Sketch) -> None:
    job = sketch.job("asks", group(cpu=1), group(gpus=4), group(gpus=2))
    (found,) = place_jointly(ClusterResources.of(sketch.state), [requested_unit(job)], StepBudget(1000))
    assert [(task.index, task.devices.bit_count()) for task in found.tasks] == [(0, 0), (1, 4), (2, 2)]  # type: ignore[attr-defined]


def test_tasks_are_placed_only_where_they_may_and_where_there_is_room_beside_the_others() -> None:
    sketch = Sketch()
    for name, model, cpu in (("a", "x", 2), ("b", "y", 2), ("c", "x", 3)):
        sketch.node(name, gpus=4, cpu=cpu, models=(model,))
    of_x = sketch.job("of-x", group(2, gpus=1, cpu=2, gpu_models=("x",)))
    any_model = sketch.job("any", group(gpus=1, cpu=2))
    assert jointly(sketch, of_x, any_model) == [["a", "c"], ["b"]]
    sketch.running("busy", "b", range(4))
    assert jointly(sketch, of_x, any_model) == "impossible"


@pytest.mark.parametrize("steps", [5, 1000])
def test_a_search_leaves_nothing_behind(sketch: Sketch, steps: int) -> None:
    """The first rack that is tried is too small for the second gang."""
    cluster = ClusterResources.of(sketch.state)
    units = [requested_unit(asks(sketch, name, 3, 2)) for name in ("one", "two", "three")]
    search = _JointPlacement(cluster, units, StepBudget(steps))
    assert search.search() == ("gave-up" if steps == 5 else "impossible")
    assert all(node.future.devices == 0b1111 for node in cluster.nodes.values())
    if steps == 1000:
        assert (search.occupied, search.fixed) == ({}, [None, None, None])


def test_a_dead_end_is_not_searched_again() -> None:
    """Three equal tasks leave a place for one of two others, whichever of them is on which node."""
    sketch = Sketch()
    for number in range(3):
        sketch.node(f"n{number}", gpus=2, cpu=2, gib=8 + number)
    sketch.running("busy", "n0", [1])
    sketch.running("busy-too", "n1", [1])
    gang = sketch.job("gang", group(3, gpus=1, cpu=2))
    others = [sketch.job(name, group(gpus=1, gib=gib)) for name, gib in (("one", 1), ("two", 2))]
    budget = StepBudget(1000)
    units = [requested_unit(job) for job in (gang, *others)]
    assert place_jointly(ClusterResources.of(sketch.state), units, budget) == "impossible"
    assert budget.used == 21, "37 if it were"


def test_of_two_nodes_that_are_in_use_alike_one_is_tried() -> None:
    sketch = Sketch(a=3, b=3)
    gang = sketch.job("gang", group(2, gpus=2))
    others = [sketch.job(name, group(gpus=1, gib=gib)) for name, gib in (("one", 1), ("two", 2), ("three", 3))]
    budget = StepBudget(1000)
    units = [requested_unit(job) for job in (gang, *others)]
    assert place_jointly(ClusterResources.of(sketch.state), units[:3], StepBudget(1000)) != "impossible"
    assert place_jointly(ClusterResources.of(sketch.state), units, budget) == "impossible"
    assert budget.used == 8, "9 if both were"
