"""A proposal may claim anything: each claim about its victims, its places and its action is checked on the pool as it is."""

import pytest
from tests.builders import Sketch, group, requested_unit
from tests.unit.core_placement.test_revalidate import ask, policy, verdict, why
from tests.unit.core_placement.test_revalidate_topology import APART, RACK, gang, racks

from bailiff_core.model.demand import JobDemand, SubGroup
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Job, Resources
from bailiff_core.model.units import Unit, whole_job
from bailiff_core.placement import ClusterResources, StepBudget
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.queue.order import shares_now
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import Accepted
from bailiff_core.victims.constraints import Constraints
from bailiff_core.victims.relocation import relocate, units_without_relocation


def accepted(sketch: Sketch, preemptor: Job, answer: Proposal) -> Accepted:
    found = verdict(sketch, preemptor, answer)
    assert isinstance(found, Accepted), found
    return found


def low_and_high() -> tuple[Sketch, Job]:
    """`low` has the only node."""
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.running("low", "a", range(2))
    return sketch, sketch.job("high", group(gpus=2), priority=75)


def elastic(minimum: int = 1) -> tuple[Sketch, Job]:
    """`wide` runs with four tasks on node a and needs so many."""
    sketch = Sketch()
    sketch.node("a", gpus=4)
    wide = sketch.at(sketch.job("wide", group(4, gpus=1)), *(("a", [number]) for number in range(4)))
    wide.demand = wide.demand.model_copy(update={"min_tasks": minimum})
    return sketch, wide


# --- victims


def test_a_victim_whose_job_is_forgotten_is_dropped() -> None:
    sketch, high = low_and_high()
    answer = ask(sketch, high)
    del sketch.state.jobs["low"], sketch.state.active["low"]
    sketch.state.nodes[0].allocated = Resources()
    assert accepted(sketch, high, answer).dropped == ("low",)


def test_a_victim_without_any_resources_is_dropped() -> None:
    sketch, high = low_and_high()
    answer = ask(sketch, high)
    sketch.state.jobs["low"].tasks[0].state = "exited"
    sketch.state.nodes[0].allocated = Resources()
    assert accepted(sketch, high, answer).dropped == ("low",)


@pytest.mark.parametrize("tasks", ["0-3", "0", "2", "1-2"])
def test_surplus_is_named_from_the_task_that_is_evicted_first_and_without_the_core(tasks: str) -> None:
    sketch, _ = elastic()
    high = sketch.job("high", group(gpus=2), priority=75)
    answer = ask(sketch, high)
    (choice,) = answer.victims
    assert choice.tasks == "2-3"
    other = answer.model_copy(update={"victims": (choice.model_copy(update={"tasks": tasks}),)})
    assert why(sketch, high, other) == f"tasks {tasks} of 'wide' are not its first evictable tasks"


@pytest.mark.parametrize("started", [(2,), (3,), (2, 3)])
def test_surplus_that_waited_for_its_resources_must_not_have_started_even_in_part(started: tuple[int, ...]) -> None:
    sketch, wide = elastic()
    high = sketch.job("high", group(gpus=2), priority=75)
    answer = ask(sketch, high)
    claim = answer.model_copy(update={"victims": (answer.victims[0].model_copy(update={"reserved": True}),)})
    for index in (2, 3):
        wide.tasks[index].state = "running" if index in started else "reserved"
    assert why(sketch, high, claim) == "victim 'wide' has started since"


def test_what_is_free_is_not_allocated_by_evicting_somebody() -> None:
    sketch, high = low_and_high()
    answer = ask(sketch, high)
    assert why(sketch, high, answer.model_copy(update={"action": "allocate"})) == "task 0 does not fit on a"


def test_a_place_without_victims_needs_no_permission_to_preempt() -> None:
    sketch, high = low_and_high()
    answer = ask(sketch, high)
    sketch.node("b", gpus=2)
    sketch.state.policy = policy(preemption={"actions": ["allocate"]})
    there = (NodeShare(node=1, tasks="0", devices="0-1"),)
    found = accepted(sketch, high, answer.model_copy(update={"victims": (), "placement": there}))
    assert (found.victims, found.placement) == ((), there)


def test_a_victim_that_has_to_move_does_not_keep_a_cheaper_one_from_staying() -> None:
    sketch = Sketch()
    for name in ("a", "b", "c"):
        sketch.node(name, gpus=2)
    sketch.running("moves", "a", range(2), priority=60)
    sketch.running("stays", "c", range(2))
    high = sketch.job("high", group(gpus=2, nodes=("a",)), priority=75)
    answer = ask(sketch, high)
    (moves,) = answer.victims
    assert (moves.job, moves.relocated) == ("moves", True)
    unneeded = moves.model_copy(update={"job": "stays", "moved_to": ()})
    found = accepted(sketch, high, answer.model_copy(update={"victims": (moves, unneeded)}))
    assert ([victim.job for victim in found.victims], found.dropped) == (["moves"], ("stays",))


# --- limits


def test_of_two_victims_evicted_for_a_limit_one_stays_if_the_limit_lets_it() -> None:
    """Both keep their GPUs if they stay. With a limit of two, one of them has to go; the other one need not."""
    sketch = Sketch()
    sketch.state.policy = policy({"name": "p", "limit": {"gpus": 2}})
    sketch.node("a", gpus=4)
    for number in range(2):
        sketch.running(f"low-{number}", "a", [number]).project = "p"
    high = sketch.job("high", group(gpus=1), priority=75)
    high.project = "p"
    answer = ask(sketch, high)
    (choice,) = answer.victims
    assert choice.job == "low-1"
    both = answer.model_copy(update={"victims": (choice.model_copy(update={"job": "low-0"}), choice)})
    found = accepted(sketch, high, both)
    assert ([victim.job for victim in found.victims], found.dropped) == (["low-1"], ("low-0",))


def test_a_core_that_is_relocated_in_part_counts_as_taken() -> None:
    """Tasks 0 and 2 of `wide` have a new place and task 1, of its core, has none. Its project uses no more than its quota."""
    sketch = Sketch()
    sketch.state.policy = policy({"name": "theirs", "quota": {"gpus": 2}}, {"name": "ours", "quota": {"gpus": 3}})
    sketch.node("a", gpus=3)
    sketch.node("b", gpus=2)
    wide = sketch.at(sketch.job("wide", group(3, gpus=1)), *(("a", [number]) for number in range(3)))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 2})
    wide.project = "theirs"
    owner = sketch.job("owner", group(gpus=3, nodes=("a",)))
    owner.project = "ours"
    answer = ask(sketch, owner, "reclaim")
    (choice,) = answer.victims
    there = (NodeShare(node=1, tasks="0", devices="0"), NodeShare(node=1, tasks="2", devices="1"))
    partly = choice.model_copy(update={"tasks": "", "moved_to": there, "not_relocated": "1"})
    claim = answer.model_copy(update={"victims": (partly,)})
    assert accepted(sketch, owner, claim).victims[0].not_relocated == "1"
    sketch.state.policy = policy({"name": "theirs", "quota": {"gpus": 3}}, {"name": "ours", "quota": {"gpus": 3}})
    sketch.node("c", gpus=1)
    assert why(sketch, owner, claim) == "project theirs would lose more than it uses beyond its fair share and its quota"


def test_the_project_that_would_lose_too_much_is_named() -> None:
    """`one` is beyond the share of its project, `two` is not."""
    sketch = Sketch()
    sketch.state.policy = policy({"name": "a"}, {"name": "b", "quota": {"gpus": 4}}, {"name": "c", "quota": {"gpus": 4}})
    for node, name, project in (("m", "one", "a"), ("n", "two", "b")):
        sketch.node(node, gpus=4)
        sketch.running(name, node, range(4)).project = project
    pair = sketch.job("pair", group(2, gpus=4))
    pair.project = "c"
    snapshot = current_snapshot(sketch.state)
    constraints = Constraints(snapshot, shares_now(snapshot), requested_unit(pair), "reclaim")
    one, two = (whole_job(sketch.state.jobs[name]) for name in ("one", "two"))
    assert constraints.violation([one]) is None
    text = "project b would lose more than it uses beyond its fair share and its quota"
    assert constraints.violation([one, two]) == text
    assert constraints.violation([two]) == text


# --- places


def test_a_node_that_the_preemptor_may_not_use_any_more_is_no_place_though_its_devices_are_right() -> None:
    sketch, high = low_and_high()
    answer = ask(sketch, high)
    high.demand = high.demand.model_copy(update={"tasks": (group(gpus=2, node_labels={"zone": "x"}),)})
    assert why(sketch, high, answer) == "task 0 may not run on a with these devices"


def test_the_second_sub_group_must_keep_its_topology_rule_as_well() -> None:
    made = racks("r1", "r2", "r3")
    groups = tuple(SubGroup(name=name, topology=RACK) for name in ("s", "t"))
    job = gang(made, group(2, gpus=1, sub_group="s"), group(2, gpus=1, sub_group="t"), sub_groups=groups)
    for nodes, problem in (((1, 1), None), ((1, 2), APART)):
        second = (NodeShare(node=nodes[0], tasks="2", devices="0"), NodeShare(node=nodes[1], tasks="3", devices="1"))
        both = (NodeShare(node=0, tasks="0-1", devices="0-1"), *second)
        found = verdict(made, job, Proposal(request=1, job="gang", action="allocate", placement=both))
        assert getattr(found, "reason", None) == problem


def test_a_task_may_join_others_whose_node_cannot_be_reached() -> None:
    made = racks("r1", "r1")
    wide = gang(made, group(gpus=1))
    made.at(wide, ("n0", [0]))
    wide.demand = JobDemand(job="gang", tasks=(group(2, gpus=1),), min_tasks=1, topology=RACK)
    made.state.nodes[0].state = "unreachable"
    there = (NodeShare(node=1, tasks="1", devices="0"),)
    answer = Proposal(request=1, job="gang", action="allocate", tasks="1", placement=there)
    assert accepted(made, wide, answer).placement == there


def test_a_gang_does_not_keep_a_place_on_a_node_that_is_gone() -> None:
    sketch = Sketch()
    for name in ("a", "b", "c"):
        sketch.node(name, gpus=1)
    pair = sketch.at(sketch.job("pair", group(2, gpus=1)), ("a", [0]), ("b", [0]))
    sketch.state.nodes[1].state = "unreachable"
    cluster = ClusterResources.of(sketch.state)
    unit = whole_job(pair)
    cluster.evict(unit)
    place = relocate(cluster, unit, StepBudget(100))
    assert place is not None
    assert [(task.index, task.node) for task in place.tasks] == [(0, 0), (1, 2)]


def test_a_gang_whose_places_are_all_free_keeps_them_as_a_reservation() -> None:
    sketch, wide = elastic()
    cluster = ClusterResources.of(sketch.state)
    unit = whole_job(wide)
    cluster.evict(unit)
    place = relocate(cluster, unit, StepBudget(100))
    assert place is not None
    assert (place.future, [task.devices for task in place.tasks]) == (True, [task.devices for task in wide.tasks])


def test_a_gang_whose_new_place_is_gone_is_refused_for_the_first_task_that_lacks_it() -> None:
    sketch = Sketch()
    sketch.state.policy = policy(preemption={"max_migrations": None})
    for name in ("a", "b"):
        sketch.node(name, gpus=2)
    sketch.at(sketch.job("pair", group(2, gpus=1)), ("a", [0]), ("a", [1]))
    big = sketch.job("big", group(gpus=2, nodes=("a",)))
    answer = ask(sketch, big, "consolidate")
    assert [choice.job for choice in answer.victims] == ["pair"]
    sketch.running("arrived", "b", range(2))
    assert why(sketch, big, answer) == "there is no new place for 'pair': task 0 does not fit on b"


@pytest.mark.parametrize(("moved", "left"), [((), [(0, 1), (2,)]), ((0,), [(0, 1), (2,)]), ((0, 1), [(2,)]), ((0, 1, 2), [])])
def test_a_unit_of_which_one_task_has_no_new_place_is_not_relocated(moved: tuple[int, ...], left: list[tuple[int, ...]]) -> None:
    _, wide = elastic()
    units = [Unit(wide, indices, core=False) for indices in ((0, 1), (2,))]
    place = GangPlacement(tuple(TaskPlacement(index, 0, 1) for index in moved), future=True)
    assert [unit.indices for unit in units_without_relocation(units, {"wide": place})] == left


def test_a_running_job_below_its_minimum_gets_all_missing_tasks_at_once() -> None:
    sketch, wide = elastic(minimum=4)
    del wide.tasks[2:]
    sketch.state.nodes[0].allocated = Resources(0b11, slots=2)
    sketch.running("low", "a", [2, 3], priority=10)
    answer = ask(sketch, wide)
    assert answer.tasks == "2-3"
    assert [choice.job for choice in accepted(sketch, wide, answer).victims] == ["low"]


@pytest.mark.parametrize("condition", ["over_limit_after", "violation", "imbalance"])
def test_the_set_must_keep_every_condition_as_it_is_now(monkeypatch: pytest.MonkeyPatch, condition: str) -> None:
    sketch, high = low_and_high()
    answer = ask(sketch, high)
    monkeypatch.setattr(Constraints, condition, lambda *_: f"broken: {condition}")
    assert why(sketch, high, answer) == f"broken: {condition}"
