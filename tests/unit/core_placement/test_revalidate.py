"""A proposal for a pool that may have changed: each possible change, and the reported reason."""

import json

import pytest
from tests.builders import Sketch, group, requested_unit

from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.policy import DEFAULT_POLICY, Action, Policy
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Eviction, Job
from bailiff_core.placement import StepBudget
from bailiff_core.queue.order import shares_now
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import Accepted, SelectionBatch, Stale, revalidate_proposal, select_victims


def policy(*projects: dict[str, object], **rest: object) -> Policy:
    document = {**DEFAULT_POLICY.model_dump(mode="json"), "projects": projects, **rest}
    return Policy.model_validate_json(json.dumps(document))


def ask(sketch: Sketch, preemptor: Job, action: Action = "preempt") -> Proposal:
    sketch.state.indices.snapshot = None
    answer = select_victims(
        SelectionBatch.on(current_snapshot(sketch.state)), requested_unit(preemptor), action, StepBudget(20_000)
    )
    assert answer.victims, answer.would_need
    assert isinstance(verdict(sketch, preemptor, answer), Accepted), "as nothing has changed, it holds"
    return answer


def verdict(sketch: Sketch, preemptor: Job, answer: Proposal) -> Accepted | Stale:
    sketch.state.indices.snapshot = None
    snapshot = current_snapshot(sketch.state)
    return revalidate_proposal(snapshot, shares_now(snapshot), preemptor, answer)


def why(sketch: Sketch, preemptor: Job, answer: Proposal) -> str:
    found = verdict(sketch, preemptor, answer)
    assert isinstance(found, Stale), found
    return found.reason


@pytest.fixture
def sketch() -> Sketch:
    """Two nodes of four GPUs: `one` has the first, `two` the second."""
    made = Sketch()
    made.node("a", gpus=4)
    made.node("b", gpus=4)
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


def test_resources_that_were_free_must_still_be_free(sketch, preemptor):
    free = Proposal(request=1, job="preemptor", action="allocate", placement=(NodeShare(node=0, tasks="0", devices="0-3"),))
    assert why(sketch, preemptor, free) == "task 0 does not fit on a"
    sketch.node("c", gpus=4)
    there = free.model_copy(update={"placement": (NodeShare(node=2, tasks="0", devices="0-3"),)})
    assert isinstance(verdict(sketch, preemptor, there), Accepted)
    sketch.state.policy = policy({"name": "p", "limit": {"gpus": 3}})
    preemptor.project = "p"
    assert why(sketch, preemptor, there) == "project p would use 4 of its limit of 3 GPUs"


def test_a_victim_is_named_once(sketch, preemptor):
    answer = ask(sketch, preemptor)
    assert why(sketch, preemptor, answer.model_copy(update={"victims": answer.victims * 2})) == "victim 'one' is named twice"


def test_a_reserved_victim_must_not_have_started(preemptor, sketch):
    sketch.state.jobs["two"].priority = 200
    held = sketch.state.jobs["one"]
    held.phase = "reserved"
    held.tasks[0].state = "reserved"
    node = sketch.state.nodes[0]
    node.allocated, node.reserved = node.reserved, node.allocated
    answer = ask(sketch, preemptor)
    assert answer.victims[0].reserved
    held.phase = "starting"
    held.tasks[0].state = "starting"
    node.allocated, node.reserved = node.reserved, node.allocated
    assert why(sketch, preemptor, answer) == "victim 'one' has started since"


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
        {"name": "theirs", "quota": {"gpus": 3}}, {"name": "ours", "quota": {"gpus": 8}}, preemption=wide
    )
    answer = ask(sketch, pair)
    sketch.state.policy = policy(
        {"name": "theirs", "quota": {"gpus": 5}}, {"name": "ours", "quota": {"gpus": 8}}, preemption=wide
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
    sketch.state.policy = policy(*({"name": name, "quota": {"gpus": 4}} for name in "abc"))
    assert why(sketch, owner, answer) == "project a would lose more than it uses beyond its fair share and its quota"


def test_reclaim_does_not_invert_the_order_of_the_projects(sketch):
    """Meanwhile another project of the preemptor's department has begun to borrow."""
    sketch.state.policy = policy(
        {"name": "mine", "quota": {"gpus": 4}},
        {"name": "a", "parent": "mine", "quota": {"gpus": 4}},
        {"name": "c", "parent": "mine", "quota": {"gpus": 0}},
        {"name": "theirs", "quota": {"gpus": 4}},
        {"name": "b", "parent": "theirs", "quota": {"gpus": 4}},
    )
    for name in ("one", "two"):
        sketch.state.jobs[name].project = "b"
    owner = sketch.job("owner", group(gpus=4), priority=50)
    owner.project = "a"
    answer = ask(sketch, owner, "reclaim")
    sketch.node("c", gpus=4)
    sketch.running("borrower", "c", range(3)).project = "c"
    assert why(sketch, owner, answer) == (
        "project mine would use 7 of its fair share of 6 GPUs, a larger part of it than project theirs would keep"
    )


def scattered() -> tuple[Sketch, Job]:
    """Two nodes half full: one job has to move for `big`."""
    made = Sketch()
    for name in ("a", "b"):
        made.node(name, gpus=4)
        made.running(f"on-{name}", name, [0, 1])
    made.state.policy = policy(preemption={"max_migrations": None})
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
    made.state.policy = policy(preemption={"max_migrations": 2})
    big = made.job("big", group(gpus=4))
    answer = ask(made, big, "consolidate")
    assert len(answer.victims) == 2
    made.state.policy = policy(preemption={"max_migrations": 1})
    assert why(made, big, answer) == "the policy does not allow that many migrations"


def test_surplus_without_its_new_placement_is_evicted_and_the_rest_is_relocated():
    made = Sketch()
    made.node("a", gpus=4)
    made.node("b", gpus=1)
    made.node("c", gpus=1)
    wide = made.job("wide", group(4, gpus=1))
    made.at(wide, *[("a", [device]) for device in range(4)])
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    preemptor = made.job("preemptor", group(gpus=2), priority=75)
    answer = ask(made, preemptor)
    assert [(choice.tasks, choice.relocated_tasks) for choice in answer.victims] == [("2-3", [2, 3])]
    made.state.nodes[answer.victims[0].moved_to[0].node].state = "silent"
    found = verdict(made, preemptor, answer)
    assert isinstance(found, Accepted)
    assert [(choice.tasks, len(choice.relocated_tasks)) for choice in found.victims] == [("2-3", 1)]


def test_surplus_that_need_not_move_stays_without_a_reservation():
    made = Sketch()
    made.node("a", gpus=4)
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


def test_a_victim_that_has_ended_is_named_once(sketch, preemptor):
    answer = ask(sketch, preemptor)
    sketch.state.jobs["one"].attempt += 1
    assert why(sketch, preemptor, answer.model_copy(update={"victims": answer.victims * 2})) == "victim 'one' is named twice"


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


def test_an_elastic_job_that_is_evicted_whole_counts_as_one_job_among_victims_that_could_stay():
    """Both lose as much work, and one job stops: the one of more tasks stays, though it is the younger."""
    made = Sketch()
    made.node("a", gpus=0, cpu=48)
    made.at(made.job("solid", group(cpu=16)), ("a", []))
    wide = made.at(made.job("wide", group(2, cpu=8)), ("a", []), ("a", []))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    made.at(made.job("other", group(cpu=16), priority=75), ("a", []))
    preemptor = made.job("preemptor", group(cpu=32), priority=75)
    answer = ask(made, preemptor)
    assert [(choice.job, choice.tasks) for choice in answer.victims] == [("solid", ""), ("wide", "")]
    assert len({choice.lost_gpu_ms for choice in answer.victims}) == 1
    preemptor.demand = preemptor.demand.model_copy(update={"tasks": (group(cpu=16),)})
    found = verdict(made, preemptor, answer)
    assert isinstance(found, Accepted), found
    assert ([choice.job for choice in found.victims], found.dropped) == (["solid"], ("wide",))


def test_a_job_to_be_relocated_whole_does_not_lose_a_part_instead():
    made = Sketch()
    made.node("a", gpus=2)
    wide = made.job("wide", group(2, gpus=1))
    made.at(wide, ("a", [0]), ("a", [1]))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    preemptor = made.job("preemptor", group(gpus=1), priority=75)
    answer = ask(made, preemptor)
    made.node("b", gpus=2)
    there = (NodeShare(node=1, tasks="0-1", devices="0-1"),)
    whole = answer.victims[0].model_copy(update={"tasks": "", "moved_to": there})
    placement = (NodeShare(node=0, tasks="0", devices="1"),)
    found = verdict(made, preemptor, answer.model_copy(update={"victims": (whole,), "placement": placement}))
    assert isinstance(found, Accepted)
    assert [(choice.tasks, choice.moved_to) for choice in found.victims] == [("", there)]


def test_a_placement_for_a_member_that_stays_is_ignored():
    made = Sketch()
    made.node("a", gpus=2)
    wide = made.job("wide", group(2, gpus=1))
    made.at(wide, ("a", [0]), ("a", [1]))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    preemptor = made.job("preemptor", group(gpus=1), priority=75)
    answer = ask(made, preemptor)
    assert [choice.tasks for choice in answer.victims] == ["1"]
    made.node("b", gpus=2)
    other = answer.victims[0].model_copy(update={"moved_to": (NodeShare(node=1, tasks="0", devices="0"),)})
    found = verdict(made, preemptor, answer.model_copy(update={"victims": (other,)}))
    assert isinstance(found, Accepted)
    assert [(choice.tasks, choice.moved_to) for choice in found.victims] == [("1", ())]


def test_two_jobs_are_not_relocated_to_one_placement():
    made = Sketch()
    made.node("a", gpus=2)
    made.running("x", "a", [0])
    made.running("y", "a", [1])
    preemptor = made.job("preemptor", group(gpus=2), priority=75)
    answer = ask(made, preemptor)
    made.node("b", gpus=1)
    there = (NodeShare(node=1, tasks="0", devices="0"),)
    both = tuple(choice.model_copy(update={"moved_to": there}) for choice in answer.victims)
    found = verdict(made, preemptor, answer.model_copy(update={"victims": both}))
    assert isinstance(found, Accepted)
    assert sorted(choice.moved_to for choice in found.victims) == [(), there]


def test_of_two_jobs_to_be_relocated_one_stays_where_resources_allow_one():
    made, preemptor, answer = two_of_three()
    made.node("b", gpus=0, cpu=4)
    made.state.policy = policy(preemption={"max_migrations": None})
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
