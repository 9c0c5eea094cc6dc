"""A proposal for a pool that may have changed: each claim is checked, and the reason is given."""

import pytest
from tests.kits.builders import Sketch, group
from tests.kits.searches import APART, RACK, ask, gang, policy, racks, verdict, why

from bailiff_core.model.demand import JobDemand, SubGroup
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.policy import Action
from bailiff_core.model.proposal import Proposal, VictimChoice
from bailiff_core.model.state import Eviction, Job, Resources
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.victims import Accepted
from bailiff_core.victims.relocation import units_without_relocation
from bailiff_core.victims.revalidate import _Victim
from bailiff_core.victims.trial import Trial

# --- a proposal for a pool that may have changed: each possible change, and the reported reason


@pytest.fixture
def sketch() -> Sketch:
    """Two nodes of four GPUs: `one` has the first, `two` the second."""
    made = Sketch(a=4, b=4)
    made.running("one", "a", range(4))
    made.running("two", "b", range(4), priority=75)
    return made


@pytest.fixture
def preemptor(sketch: Sketch) -> Job:
    return sketch.job("preemptor", group(gpus=4), priority=75)


def test_the_proposal_must_be_for_this_job(sketch, preemptor):
    answer = ask(sketch, preemptor)
    other = "the proposal is a refusal or for another job"
    assert why(sketch, preemptor, answer.model_copy(update={"refused": "gave-up"})) == other
    assert why(sketch, preemptor, answer.model_copy(update={"job": "two"})) == other


def test_the_job_must_still_be_pending(sketch, preemptor):
    answer = ask(sketch, preemptor)
    preemptor.phase = "evicting"
    assert why(sketch, preemptor, answer) == "'preemptor' is no longer pending"


def test_a_running_job_must_request_the_same_tasks(sketch):
    sketch.node("c", gpus=1)
    wide = sketch.job("wide", group(gpus=1), priority=75)
    sketch.at(wide, ("c", [0]))
    wide.demand = wide.demand.model_copy(update={"tasks": (group(3, gpus=1),), "min_tasks": 1})
    answer = ask(sketch, wide)
    assert answer.tasks == "1"
    assert why(sketch, wide, answer.model_copy(update={"tasks": "2"})) == "'wide' needs other tasks now"
    assert why(sketch, wide, answer.model_copy(update={"tasks": ""})) == "'wide' is no longer pending"


def test_a_job_that_has_all_its_tasks_is_no_longer_pending(sketch):
    sketch.node("c", gpus=1)
    wide = sketch.job("wide", group(gpus=1), priority=75)
    sketch.at(wide, ("c", [0]))
    wide.demand = wide.demand.model_copy(update={"tasks": (group(2, gpus=1),), "min_tasks": 1})
    answer = ask(sketch, wide)
    wide.demand = wide.demand.model_copy(update={"tasks": (group(gpus=1),)})
    assert why(sketch, wide, answer) == "'wide' is no longer pending"


def test_the_placement_must_be_well_formed(sketch, preemptor):
    answer = ask(sketch, preemptor)
    nonsense = answer.model_copy(update={"placement": (NodeShare(node=0, tasks="0", devices="0-2"),)})
    assert why(sketch, preemptor, nonsense) == "the placement is invalid: tasks 0 need 4 devices on node 0, got 3"


@pytest.mark.parametrize("ended", [False, True])
def test_a_victim_is_named_once_even_where_it_has_ended(sketch, preemptor, ended):
    answer = ask(sketch, preemptor)
    sketch.state.jobs["one"].attempt += ended
    assert why(sketch, preemptor, answer.model_copy(update={"victims": answer.victims * 2})) == "victim 'one' is named twice"


def test_a_victim_with_a_newer_attempt_is_stale(sketch, preemptor):
    answer = ask(sketch, preemptor)
    sketch.state.jobs["one"].attempt += 1
    assert why(sketch, preemptor, answer) == "task 0 does not fit on a"


def test_its_nodes_must_be_eligible(sketch, preemptor):
    answer = ask(sketch, preemptor)
    preemptor.demand = preemptor.demand.model_copy(update={"tasks": (group(gpus=4, gpu_models=("a100",)),)})
    assert why(sketch, preemptor, answer) == "task 0 may not run on a with these devices"


def test_its_devices_must_be_eligible():
    made = Sketch()
    made.node("a", gpus=4, models=("h100", "a100"))
    made.running("low", "a", range(4))
    preemptor = made.job("preemptor", group(gpus=2), priority=75)
    answer = ask(made, preemptor)
    preemptor.demand = preemptor.demand.model_copy(update={"tasks": (group(gpus=2, gpu_models=("a100",)),)})
    assert why(made, preemptor, answer) == "task 0 may not run on a with these devices"


def test_all_victims_together_must_still_be_permitted(sketch):
    sketch.state.jobs["two"].priority = 50
    for name in ("one", "two"):
        job = sketch.state.jobs[name]
        job.demand = job.demand.model_copy(update={"labels": {"app": "web"}})
    pair = sketch.job("pair", group(2, gpus=4), priority=75)
    answer = ask(sketch, pair)
    sketch.state.policy = policy(protections={"budgets": [{"name": "web", "labels": {"app": "web"}, "max_disruptions": 1}]})
    assert why(sketch, pair, answer) == "budget 'web' allows 1 disruption at a time, 1 left"


def test_victims_of_another_project_must_together_be_above_its_quota(sketch):
    sketch.state.jobs["two"].priority = 50
    for name in ("one", "two"):
        sketch.state.jobs[name].project = "theirs"
    pair = sketch.job("pair", group(2, gpus=4), priority=75)
    pair.project = "ours"
    wide = {"scope": "pool", "actions": ["allocate", "preempt"]}
    sketch.state.policy = policy(
        {"name": "theirs", "quota": {"gpus": 3}}, {"name": "ours", "quota": {"gpus": -1}}, preemption=wide
    )
    answer = ask(sketch, pair)
    sketch.state.policy = policy(
        {"name": "theirs", "quota": {"gpus": 5}}, {"name": "ours", "quota": {"gpus": -1}}, preemption=wide
    )
    assert why(sketch, pair, answer) == "project theirs would lose more than it uses beyond its quota"


def test_the_preemptor_must_still_keep_its_limit_beside_jobs_that_keep_running(sketch, preemptor):
    sketch.state.policy = policy({"name": "p", "limit": {"gpus": 8}}, {"name": "q"})
    for name in ("one", "preemptor"):
        sketch.state.jobs[name].project = "p"
    answer = ask(sketch, preemptor)
    sketch.state.policy = policy({"name": "p", "limit": {"gpus": 3}}, {"name": "q"})
    assert "limit of 3 GPUs" in why(sketch, preemptor, answer)


def test_a_victim_evicted_for_a_limit_is_not_kept_above_it(sketch):
    """`small` fits beside `preemptor`, and its project's limit does not let both run."""
    sketch.node("c", gpus=4)
    small = sketch.running("small", "c", [0])
    preemptor = sketch.job("preemptor", group(gpus=2), priority=75)
    sketch.state.policy = policy({"name": "p", "limit": {"gpus": 2}})
    for job in (small, preemptor):
        job.project = "p"
    answer = ask(sketch, preemptor)
    assert [(choice.job, choice.moved_to) for choice in answer.victims] == [("small", ())]
    there = answer.victims[0].model_copy(update={"moved_to": (NodeShare(node=2, tasks="0", devices="3"),)})
    found = verdict(sketch, preemptor, answer.model_copy(update={"victims": (there,)}))
    assert isinstance(found, Accepted)
    assert [(choice.job, choice.moved_to) for choice in found.victims] == [("small", ())]


def reclaiming(sketch: Sketch) -> tuple[Job, Proposal]:
    sketch.state.policy = policy({"name": "a", "quota": {"gpus": 4}}, {"name": "b", "quota": {"gpus": 4}})
    for name in ("one", "two"):
        sketch.state.jobs[name].project = "a"
    owner = sketch.job("owner", group(gpus=4), priority=50)
    owner.project = "b"
    return owner, ask(sketch, owner, "reclaim")


def test_reclaim_takes_only_what_is_still_beyond_the_share(sketch):
    owner, answer = reclaiming(sketch)
    sketch.state.jobs["two"].project = "c"
    sketch.state.policy = policy(*({"name": name, "quota": {"gpus": gpus}} for name, gpus in (("a", -1), ("b", 4), ("c", 4))))
    assert why(sketch, owner, answer) == "project a uses no more than its fair share and its quota"


def scattered() -> tuple[Sketch, Job]:
    """Two nodes half full: one job has to move for `big`."""
    made = Sketch()
    for name in ("a", "b"):
        made.node(name, gpus=4)
        made.running(f"on-{name}", name, [0, 1])
    made.state.policy = policy(preemption={"max_migrations": None, "payback": None})
    return made, made.job("big", group(gpus=4))


def test_every_relocated_job_must_have_a_placement():
    made, big = scattered()
    answer = ask(made, big, "consolidate")
    nowhere = answer.victims[0].model_copy(update={"moved_to": ()})
    assert why(made, big, answer.model_copy(update={"victims": (nowhere,)})).endswith("the proposal has none")


def test_no_more_may_move_than_the_policy_lets_move_now():
    made = Sketch()
    for name in ("a", "b", "c"):
        made.node(name, gpus=4)
        for device in (0, 1):
            made.running(f"on-{name}-{device}", name, [device], preemptible=name == "a")
    made.state.policy = policy(preemption={"max_migrations": 2, "payback": None})
    big = made.job("big", group(gpus=4))
    answer = ask(made, big, "consolidate")
    assert len(answer.victims) == 2
    made.state.policy = policy(preemption={"max_migrations": 1})
    assert why(made, big, answer) == "the policy does not allow that many migrations (policy field preemption.max_migrations)"


def test_surplus_that_need_not_move_stays_without_a_reservation():
    made = Sketch(a=4)
    wide = made.job("wide", group(4, gpus=1))
    made.at(wide, *[("a", [device]) for device in range(4)])
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    preemptor = made.job("preemptor", group(2, gpus=1), priority=75)
    answer = ask(made, preemptor)
    assert [choice.tasks for choice in answer.victims] == ["2-3"]
    made.node("b", gpus=1)
    made.node("c", gpus=1)
    other = (NodeShare(node=0, tasks="0", devices="3"), NodeShare(node=1, tasks="1", devices="0"))
    both = answer.victims[0].model_copy(update={"moved_to": (NodeShare(node=2, tasks="2", devices="0"),)})
    found = verdict(made, preemptor, answer.model_copy(update={"placement": other, "victims": (both,)}))
    assert isinstance(found, Accepted)
    assert [(choice.tasks, choice.moved_to) for choice in found.victims] == [("3", ())]


def test_a_victim_that_is_released_meanwhile_is_not_evicted(sketch, preemptor):
    answer = ask(sketch, preemptor)
    one, node = sketch.state.jobs["one"], sketch.state.nodes[0]
    one.phase, one.eviction = "evicting", Eviction(1, "cancelled", 0)
    node.releasing = node.allocated
    found = verdict(sketch, preemptor, answer)
    assert isinstance(found, Accepted), found
    assert (found.victims, found.dropped) == ((), ("one",))


def two_of_three() -> tuple[Sketch, Job, Proposal]:
    """A node with CPUs for two, and a proposal that evicts both running jobs for a third."""
    made = Sketch()
    made.node("a", gpus=0, cpu=4)
    for name, priority in (("dear", 60), ("cheap", 50)):
        made.at(made.job(name, group(cpu=2), priority=priority), ("a", []))
    preemptor = made.job("preemptor", group(cpu=2), priority=75)
    answer = ask(made, preemptor)
    (cheap,) = answer.victims
    assert cheap.job == "cheap"
    return made, preemptor, answer.model_copy(update={"victims": (cheap, cheap.model_copy(update={"job": "dear"}))})


def test_of_two_victims_that_could_stay_the_costlier_one_stays():
    found = verdict(*two_of_three())
    assert isinstance(found, Accepted)
    assert ([choice.job for choice in found.victims], found.dropped) == (["cheap"], ("dear",))


def test_of_two_jobs_to_be_relocated_one_stays_where_resources_allow_one():
    made, preemptor, answer = two_of_three()
    made.node("b", gpus=0, cpu=4)
    made.state.policy = policy(preemption={"max_migrations": None, "payback": None})
    there = (NodeShare(node=1, tasks="0", devices=""),)
    moving = tuple(choice.model_copy(update={"moved_to": there}) for choice in answer.victims)
    found = verdict(made, preemptor, answer.model_copy(update={"action": "consolidate", "victims": moving}))
    assert isinstance(found, Accepted), found
    assert ([choice.job for choice in found.victims], found.dropped) == (["cheap"], ("dear",))


def test_all_its_tasks_must_fit_at_once():
    made = Sketch()
    made.node("a", gpus=0, cpu=3)
    pair = made.job("pair", group(2, cpu=2))
    both = Proposal(request=1, job="pair", action="allocate", placement=(NodeShare(node=0, tasks="0-1", devices=""),))
    assert why(made, pair, both) == "task 1 does not fit on a"


# --- a proposal may claim anything: each claim about its victims, its places and its action is checked on the pool as it is


def accepted(sketch: Sketch, preemptor: Job, answer: Proposal) -> Accepted:
    found = verdict(sketch, preemptor, answer)
    assert isinstance(found, Accepted), found
    return found


def low_and_high() -> tuple[Sketch, Job]:
    """`low` has the only node."""
    sketch = Sketch(a=2)
    sketch.running("low", "a", range(2))
    return sketch, sketch.job("high", group(gpus=2), priority=75)


def elastic(minimum: int = 1) -> tuple[Sketch, Job]:
    """`wide` runs with four tasks on node a and needs so many."""
    sketch = Sketch(a=4)
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
    moving = {"max_migrations": 1}
    sketch = Sketch()
    sketch.state.policy = policy(
        {"name": "theirs", "quota": {"gpus": 2}}, {"name": "ours", "quota": {"gpus": 3}}, preemption=moving
    )
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
    sketch.state.policy = policy({"name": "theirs", "quota": {"gpus": 2}}, {"name": "ours", "quota": {"gpus": 3}})
    assert (
        why(sketch, owner, claim)
        == "nothing may be moved: the policy does not allow migrations (policy field preemption.max_migrations is 0)"
    )
    sketch.state.policy = policy(
        {"name": "theirs", "quota": {"gpus": 3}}, {"name": "ours", "quota": {"gpus": 3}}, preemption=moving
    )
    sketch.node("c", gpus=1)
    assert why(sketch, owner, claim) == "project theirs uses no more than its fair share and its quota"


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


def test_a_gang_whose_new_place_is_gone_is_refused_for_the_first_task_that_lacks_it() -> None:
    sketch = Sketch()
    sketch.state.policy = policy(preemption={"max_migrations": None, "payback": None})
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
    monkeypatch.setattr(Trial, condition, lambda *_: f"broken: {condition}")
    assert why(sketch, high, answer) == f"broken: {condition}"


# --- a proposal that relocates victims: which of them still have their new place, and which need not move by now


def there(node: int, tasks: str, devices: str = "0") -> NodeShare:
    return NodeShare(node=node, tasks=tasks, devices=devices)


def relocated(
    made: Sketch, preemptor: Job, answer: Proposal, moved_to: tuple[NodeShare, ...], not_relocated: str = "", **other: object
) -> Accepted:
    """The verdict on the answer with these new places for its only victim, and other fields as given."""
    (victim,) = answer.victims
    changed = victim.model_copy(update={"moved_to": moved_to, "not_relocated": not_relocated})
    found = verdict(made, preemptor, answer.model_copy(update={"victims": (changed,), **other}))
    assert isinstance(found, Accepted), found
    return found


def only(found: Accepted) -> VictimChoice:
    (choice,) = found.victims
    return choice


def surplus_of_two(action: Action = "preempt", minimum: int = 1, **wants: object) -> tuple[Sketch, Job, Proposal]:
    """`wide` may lose all but its first task on node a; the preemptor takes two GPUs there. Nodes b and c take one task each."""
    made = Sketch()
    made.state.policy = policy(preemption={"max_migrations": None, "payback": None})
    made.node("a", gpus=4)
    wide = made.at(made.job("wide", group(4, gpus=1, cpu=1)), *[("a", [device]) for device in range(4)])
    wide.demand = wide.demand.model_copy(update={"min_tasks": minimum})
    priority = 50 if action == "consolidate" else 75
    preemptor = made.job("preemptor", group(2, gpus=1, nodes=("a", "d")), priority=priority)
    if action == "consolidate":
        made.node("b", gpus=2, cpu=1)
        made.node("c", gpus=1)
    answer = ask(made, preemptor, action)
    if action == "preempt":
        made.node("b", gpus=2, cpu=1)
        made.node("c", gpus=1)
    return made, preemptor, answer


def test_of_two_surplus_tasks_with_one_new_place_the_one_evicted_last_gets_it() -> None:
    made, preemptor, answer = surplus_of_two()
    found = relocated(made, preemptor, answer, (there(1, "2-3", "0-1"),))
    assert (only(found).tasks, only(found).moved_to) == ("2-3", (there(1, "2"),)), "b has a CPU for one of them"
    assert only(found).not_relocated == "", "said of jobs that are evicted whole"


def test_surplus_without_a_new_place_does_not_skip_the_check_of_the_other() -> None:
    made, preemptor, answer = surplus_of_two()
    assert only(relocated(made, preemptor, answer, (there(1, "3"),))).moved_to == (there(1, "3"),)
    made.running("arrived", "b", [0])
    assert only(relocated(made, preemptor, answer, (there(1, "3"),))).moved_to == ()


def test_a_gang_is_not_relocated_in_part() -> None:
    made, preemptor, answer = surplus_of_two(minimum=4)
    assert [choice.tasks for choice in answer.victims] == [""]
    assert only(relocated(made, preemptor, answer, (there(1, "3"), there(2, "2")), not_relocated="0-1")).moved_to == ()


def test_where_the_preemptor_needs_less_by_now_the_surplus_evicted_last_stays() -> None:
    made, preemptor, answer = surplus_of_two("consolidate")
    assert [choice.tasks for choice in answer.victims] == ["2-3"]
    made.node("d", gpus=1)
    placement = (there(0, "0", "3"), there(3, "1"))
    moved = (there(1, "2"), there(2, "3"))
    assert only(relocated(made, preemptor, answer, moved)).moved_to == moved
    found = relocated(made, preemptor, answer, moved, placement=placement)
    assert (only(found).tasks, only(found).moved_to, found.dropped) == ("3", (there(2, "3"),), ())


@pytest.mark.parametrize(
    ("moved", "core", "units"),
    [
        ((0, 1, 2, 3), True, [(0, 1, 2, 3)]),
        ((1, 2, 3), True, [(1, 2, 3)]),
        ((2, 3), True, [(2, 3)]),
        ((3,), True, [(0, 1, 2, 3)]),  # it needs two
        ((), True, [(0, 1, 2, 3)]),
        ((2, 3), False, [(2,), (3,)]),
    ],
)
def test_which_tasks_of_a_victim_move_together(moved: tuple[int, ...], core: bool, units: list[tuple[int, ...]]) -> None:
    made = Sketch(a=4)
    wide = made.at(made.job("wide", group(4, gpus=1)), *[("a", [device]) for device in range(4)])
    wide.demand = wide.demand.model_copy(update={"min_tasks": 2})
    surplus = [Unit(wide, (3,), core=False), Unit(wide, (2,), core=False)]
    evicted = [*surplus, Unit(wide, (0, 1), core=True)] if core else surplus
    victim = _Victim(made.state, wide, evicted, {index: TaskPlacement(index, 1, 1) for index in moved})
    found = victim.relocation_units()
    assert [unit.indices for unit in found] == units
    whole = len(moved) in (0, 1, 4) or not core
    assert all((unit.job is wide) is whole for unit in found), "without some tasks it is a smaller job"


@pytest.mark.parametrize("whole", [True, False])
def test_a_job_that_need_not_move_at_all_is_no_victim(whole: bool) -> None:
    made, preemptor, answer = surplus_of_two("consolidate")
    made.node("d", gpus=2)
    moved = (there(1, "2"), there(2, "3"))
    if whole:
        made.node("e", gpus=4)
        moved = (there(4, "0-3", "0-3"),)
        answer = answer.model_copy(update={"victims": (answer.victims[0].model_copy(update={"tasks": ""}),)})
    found = relocated(made, preemptor, answer, moved, placement=(there(3, "0-1", "0-1"),))
    assert (found.victims, found.dropped) == ((), ("wide",))


# --- a proposal must keep the topology rules on its nodes with their current labels


def on(*nodes: int, tasks: str = "") -> Proposal:
    first = 1 if tasks else 0
    places = tuple(NodeShare(node=node, tasks=str(task), devices="0") for task, node in enumerate(nodes, start=first))
    return Proposal(request=1, job="gang", action="allocate", placement=places, tasks=tasks)


def test_nodes_without_the_label_are_in_no_rack():
    made = racks(None, None)
    assert why(made, gang(made, group(2, gpus=1), topology=RACK), on(0, 1)) == APART


@pytest.mark.parametrize("state", ["ready", "unreachable"])
def test_tasks_that_join_must_be_in_the_domain_of_the_others_reachable_or_not(state):
    made = racks("r1", "r2", "r1")
    wide = gang(made, group(gpus=1))
    made.at(wide, ("n0", [0]))
    wide.demand = JobDemand(job="gang", tasks=(group(2, gpus=1),), min_tasks=1, topology=RACK)
    made.state.nodes[0].state = state
    assert why(made, wide, on(1, tasks="1")) == APART
    assert accepted(made, wide, on(2, tasks="1")).placement == on(2, tasks="1").placement


def test_sub_groups_have_rules_of_their_own():
    made = racks("r1", "r2")
    groups = SubGroup(name="s", topology=RACK)
    assert why(made, gang(made, group(2, gpus=1, sub_group="s"), sub_groups=(groups,)), on(0, 1)) == APART
