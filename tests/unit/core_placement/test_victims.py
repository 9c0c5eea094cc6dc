"""Victim selection: victims, batches of requests, candidates, constraints and what a proposal says."""

import json
from typing import Any

import pytest
from tests.kits.builders import GIB, HOUR, MINUTE, Sketch, group, requested_unit
from tests.kits.log_builder import policy as rules
from tests.kits.pools import project
from tests.kits.searches import AT_MOST_ONE_WEB, answers, policy, preemptor_of_another_project, two_full_nodes, verdict

from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.policy import DEFAULT_POLICY, Action, Policy
from bailiff_core.model.proposal import Proposal, VictimChoice
from bailiff_core.model.state import Job, OpenRequest
from bailiff_core.model.units import Unit, whole_job
from bailiff_core.placement import ClusterResources, StepBudget
from bailiff_core.queue.order import shares_now
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import Accepted, SelectionBatch, select_batch, select_victims, shortlist
from bailiff_core.victims.batch import _whole_victims
from bailiff_core.victims.candidates import SHORTLIST_COST, CandidateGroups, CandidateIndex
from bailiff_core.victims.consolidation import FreeTotals
from bailiff_core.victims.objective import EvictionCost
from bailiff_core.victims.trial import Trial, action_not_permitted

# --- stories of victim selection: victims, reprieved jobs, and reasons


def ask(sketch: Sketch, preemptor: Job, steps: int = 20_000, action: Action = "preempt") -> Proposal:
    sketch.state.indices.snapshot = None
    snapshot = current_snapshot(sketch.state)
    before = [(node.unallocated, node.future) for node in snapshot.cluster.nodes.values()]
    answer = select_victims(SelectionBatch.on(snapshot), requested_unit(preemptor), action, StepBudget(steps), request=7)
    assert [(node.unallocated, node.future) for node in snapshot.cluster.nodes.values()] == before
    assert (answer.request, answer.job) == (7, preemptor.id)
    return answer


def names(answer: Proposal) -> list[str]:
    return [choice.job for choice in answer.victims]


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    made.node("a")
    made.node("b")
    return made


def test_least_work_is_lost_and_a_job_without_checkpoints_is_not_immune(sketch: Sketch) -> None:
    sketch.running("hour", "a", range(8), age=HOUR)
    sketch.running("week", "b", range(8), age=168 * HOUR)
    assert names(ask(sketch, sketch.job("preemptor", group(gpus=8), priority=75))) == ["week"], "equal; week is younger"
    sketch.state.jobs["hour"].last_start += MINUTE
    assert names(ask(sketch, sketch.state.jobs["preemptor"])) == ["hour"]


def test_fewest_jobs_then_fewest_tasks_then_whole_nodes_then_the_youngest(sketch: Sketch) -> None:
    for device in range(4):
        sketch.running(f"small-{device}", "a", [device])
    sketch.running("big", "b", range(4))
    sketch.at(sketch.job("pair", group(2, gpus=2)), ("b", [4, 5]), ("b", [6, 7]))
    sketch.running("young", "a", range(4, 8))
    assert names(ask(sketch, sketch.job("preemptor", group(gpus=4), priority=75))) == ["young"]


def test_a_gang_is_evicted_whole_and_no_victim_is_unnecessary(sketch: Sketch) -> None:
    sketch.at(sketch.job("pair", group(2, gpus=4)), ("a", range(4)), ("b", range(4)))
    sketch.running("left", "a", range(4, 8))
    sketch.running("right", "b", range(4, 8))
    answer = ask(sketch, sketch.job("preemptor", group(2, gpus=4), priority=75))
    assert names(answer) == ["pair"]
    assert answer.victims[0].gpus == 8
    assert len(answer.explanation.runner_up) == 2


def test_a_gang_that_has_not_started_costs_nothing_and_is_evicted_first(sketch: Sketch) -> None:
    sketch.running("promised", "a", range(8), priority=74, phase="reserved")
    sketch.running("runs", "b", range(8), priority=1, age=0)
    answer = ask(sketch, sketch.job("preemptor", group(gpus=8), priority=75))
    assert names(answer) == ["promised"]
    assert answer.victims[0].reserved
    assert answer.victims[0].lost_gpu_ms == 0


def test_a_batch_builds_on_its_earlier_proposals(sketch: Sketch) -> None:
    sketch.running("one", "a", range(8))
    sketch.running("two", "b", range(8), priority=60)
    for name in ("first", "second", "third"):
        sketch.job(name, group(gpus=8), priority=75)
    requests = [OpenRequest(seq, name) for seq, name in enumerate(("first", "second", "third", "nobody"))]
    proposals = select_batch(sketch.state, requests, 20_000)
    assert [names(answer) for answer in proposals] == [["one"], ["two"], [], []]
    assert [answer.refused for answer in proposals] == [None, None, "impossible", "impossible"]
    assert "no longer pending" in proposals[3].would_need


@pytest.fixture
def answered(sketch: Sketch) -> tuple[Sketch, Job, Proposal]:
    sketch.running("one", "a", range(4))
    sketch.running("two", "a", range(4, 8))
    sketch.running("stays", "b", range(8), priority=75)
    preemptor = sketch.job("preemptor", group(gpus=8), priority=75)
    answer = ask(sketch, preemptor)
    assert names(answer) == ["one", "two"]
    return sketch, preemptor, answer


def test_a_proposal_is_valid_on_an_unchanged_pool(answered) -> None:
    sketch, preemptor, answer = answered
    found = verdict(sketch, preemptor, answer)
    assert found == Accepted(requested_unit(preemptor), answer.victims, (), answer.placement)


def test_a_victim_that_ended_by_itself_is_dropped(answered) -> None:
    sketch, preemptor, answer = answered
    node, job = sketch.state.nodes[0], sketch.state.jobs["one"]
    node.allocated.devices, node.allocated.slots = 0xF0, 1
    job.tasks, job.phase = [], "succeeded"
    found = verdict(sketch, preemptor, answer)
    assert isinstance(found, Accepted)
    assert [choice.job for choice in found.victims] == ["two"]
    assert found.dropped == ("one",)


def test_an_unnecessary_victim_is_dropped(answered) -> None:
    sketch, preemptor, _ = answered
    small = sketch.job("small", group(gpus=4), priority=75)
    answer = ask(sketch, small)
    both = ask(sketch, preemptor).victims
    found = verdict(sketch, small, answer.model_copy(update={"victims": both}))
    assert isinstance(found, Accepted)
    assert [choice.job for choice in found.victims] == names(answer)


# --- batches of requests: which actions are tried, which refusal is given, and whose victims are not needed


ELSEWHERE = (NodeShare(node=1, tasks="0", devices="0"),)


# --- victims that are not needed


def test_a_gang_keeps_the_place_that_no_victim_had() -> None:
    """The first answer evicts `small` for one of two tasks; the second evicts `large`, of whose GPUs one remains."""
    sketch = Sketch(a=1, b=4, c=1)
    sketch.running("small", "a", [0], age=MINUTE)
    sketch.running("large", "b", range(4), age=HOUR)
    first = sketch.job("first", group(2, gpus=1), priority=100)
    second = sketch.job("second", group(gpus=3), priority=75)
    one, two = answers(sketch, first.id, second.id)
    assert [choice.job for choice in two.victims] == ["large"]
    assert (one.action, one.victims, [share.node for share in one.placement]) == ("allocate", (), [1, 2])


def test_surplus_tasks_are_evicted_in_any_case() -> None:
    """The first answer evicts a task of `wide`; the second evicts `large`, of whose GPUs one remains."""
    sketch = Sketch(a=2, b=4)
    wide = sketch.at(sketch.job("wide", group(2, gpus=1)), ("a", [0]), ("a", [1]), age=MINUTE)
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    sketch.running("large", "b", range(4), age=HOUR)
    first = sketch.job("first", group(gpus=1), priority=100)
    second = sketch.job("second", group(gpus=3), priority=75)
    one, two = answers(sketch, first.id, second.id)
    assert [(choice.job, choice.tasks) for choice in one.victims] == [("wide", "1")]
    assert [choice.job for choice in two.victims] == ["large"]


@pytest.mark.parametrize(
    ("first", "second", "whole"),
    [
        ({}, {}, True),
        ({"reserved": True}, {}, False),
        ({}, {"reserved": True}, False),
        ({"tasks": "1"}, {}, False),
        ({}, {"moved_to": ELSEWHERE}, False),
    ],
)
def test_victims_are_restored_only_if_all_of_them_run_and_are_evicted_whole(
    first: dict[str, Any], second: dict[str, Any], whole: bool
) -> None:
    sketch = Sketch(a=2)
    made = [
        VictimChoice(job=sketch.running(name, "a", [at]).id, attempt=1, priority=50, gpus=1, lost_gpu_ms=0, **about)
        for at, (name, about) in enumerate((("one", first), ("two", second)))
    ]
    proposal = Proposal(request=1, job="high", victims=tuple(made))
    restored = [job.id for job in _whole_victims(current_snapshot(sketch.state), proposal)]
    assert restored == (["one", "two"] if whole else [])


def test_what_an_answer_uses_beside_what_its_victims_free_is_not_free_for_the_next() -> None:
    """One GPU is free: the first gang of two evicts one job, the second evicts two."""
    sketch = Sketch(a=1, b=1, c=1, free=1)
    for name in ("a", "b", "c"):
        sketch.running(f"on-{name}", name, [0])
    gangs = [sketch.job(name, group(2, gpus=1), priority=75) for name in ("first", "second")]
    assert [len(answer.victims) for answer in answers(sketch, *(gang.id for gang in gangs))] == [1, 2]


# --- each request of a batch sees the pool as the answers before it leave it: new places of victims, and what is broken


def test_where_there_is_nobody_to_search_among_the_refusal_is_that_of_the_last_action() -> None:
    sketch = Sketch(a=2)
    sketch.job("large", group(gpus=4), priority=75)
    (answer,) = answers(sketch, "large")
    assert (answer.refused, answer.action, answer.explanation.candidates) == ("impossible", "preempt", 0)


def test_where_an_action_had_candidates_the_refusal_is_that_of_the_last_such_action() -> None:
    sketch = Sketch(a=2)
    sketch.running("low", "a", [0])
    sketch.job("large", group(gpus=4), priority=75)
    (answer,) = answers(sketch, "large")
    assert (answer.refused, answer.action, answer.explanation.candidates) == ("impossible", "preempt", 1)


def test_after_an_answer_took_the_surplus_of_a_job_the_next_one_takes_what_is_left_of_it() -> None:
    """Both look for one GPU. To free that on a, both tasks would have to go before the first answer; after it, only one."""
    sketch = Sketch(a=1, b=1)
    wide = sketch.at(sketch.job("wide", group(2, gpus=1)), ("a", [0]), ("b", [0]))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    for name in ("first", "second"):
        sketch.job(name, group(gpus=1), priority=75)
    first, second = answers(sketch, "first", "second")
    assert [(choice.job, choice.tasks, choice.gpus) for choice in first.victims] == [("wide", "1", 1)]
    assert [(choice.job, choice.tasks, choice.gpus) for choice in second.victims] == [("wide", "", 1)]


@pytest.mark.parametrize("moves", [True, False])
def test_a_job_of_which_a_part_gets_a_new_place_is_not_evicted_further(moves: bool) -> None:
    sketch = Sketch()
    for name in ("a", "b", *(["c"] if moves else [])):
        sketch.node(name, gpus=1)
    wide = sketch.at(sketch.job("wide", group(2, gpus=1)), ("a", [0]), ("b", [0]))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    for name, node in (("first", "b"), ("second", "a")):
        sketch.job(name, group(gpus=1, nodes=(node,)), priority=75)
    first, second = answers(sketch, "first", "second")
    assert [(choice.tasks, choice.relocated) for choice in first.victims] == [("1", moves)]
    assert second.refused == ("impossible" if moves else None)


# --- what a proposal says beside the names of the victims: GPUs, rules that exclude, new places, the next best set


def answer(sketch: Sketch, preemptor: Job, action: Action = "preempt") -> Proposal:
    sketch.state.indices.snapshot = None
    snapshot = current_snapshot(sketch.state)
    return select_victims(SelectionBatch.on(snapshot), requested_unit(preemptor), action, StepBudget(20_000))


@pytest.mark.parametrize("tasks", [2, 3])
def test_protected_jobs_are_named_only_if_they_would_suffice(tasks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlist, "MIN_ACTIVE_JOBS", 0)
    sketch = Sketch()
    for name in ("a", "b"):
        sketch.node(name, gpus=2)
        sketch.running(f"on-{name}", name, range(2), preemptible=False)
    found = answer(sketch, sketch.job("preemptor", group(tasks, gpus=2), priority=75))
    assert found.refused == "impossible"
    assert ("it would still need" in found.would_need) == (tasks == 2), found.would_need


def test_a_shortlist_is_extended_until_no_node_outside_can_be_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    """`a` looks cheaper, with its youngest work on one GPU; but only its old job frees two GPUs. The job on `b` costs less."""
    monkeypatch.setattr(shortlist, "MIN_ACTIVE_JOBS", 0)
    monkeypatch.setattr(shortlist, "INITIAL_SIZE", 0)
    sketch = Sketch(a=3, b=2)
    sketch.running("young", "a", [0], age=MINUTE)
    sketch.running("old", "a", [1, 2], age=50 * MINUTE)
    sketch.running("middle", "b", range(2), age=30 * MINUTE)
    found = answer(sketch, sketch.job("preemptor", group(gpus=2), priority=75))
    assert [victim.job for victim in found.victims] == ["middle"]
    assert found.explanation.proven


# --- a reclaim that would only reverse an imbalance is not made acceptable by a victim whose resources nobody needs


def ask_of_needed_victims(*, others_may_leave: bool) -> Proposal:
    """`large` alone would leave b less than a. With `own`, of the preemptor's department, it would not."""
    sketch = Sketch()
    tree = (project("a", quota=2), project("asks", "a", quota=2), project("lends", "a"), project("b", quota=2))
    preemption = {"quota_shields": False, "max_migrations": 0}
    sketch.state.policy = rules(preemption=preemption).model_copy(update={"projects": tree})
    sketch.node("n0", gpus=2)
    sketch.node("n1", gpus=2)
    sketch.running("large", "n0", range(2), priority=25).project = "b"
    sketch.running("own", "n1", [0], priority=25, preemptible=others_may_leave).project = "lends"
    sketch.running("small", "n1", [1], priority=75, preemptible=others_may_leave).project = "b"
    preemptor = sketch.job("preemptor", group(gpus=2))
    preemptor.project = "asks"
    batch = SelectionBatch.on(current_snapshot(sketch.state))
    return select_victims(batch, requested_unit(preemptor), "reclaim", StepBudget(20_000))


def test_a_job_is_not_evicted_only_to_balance_what_two_departments_lose() -> None:
    """Nobody needs the GPU of `own` beside `large`: it is evicted with the dearer `small`, whose GPU is needed."""
    answer = ask_of_needed_victims(others_may_leave=True)
    assert sorted(choice.job for choice in answer.victims) == ["own", "small"]
    assert answer.explanation.proven


def test_where_nothing_else_may_leave_and_nothing_can_move_it_is_proven_that_no_set_is_balanced() -> None:
    answer = ask_of_needed_victims(others_may_leave=False)
    assert (answer.victims, answer.refused, answer.explanation.proven) == ((), "impossible", True)


# --- a reclaim that may take nothing for good: every victim must have a new place, and each must be needed by itself


def two_halves(minimum: int, *, dear: bool) -> Proposal:
    """The answer for one GPU of a or b (or c, where `dear` runs); all victims are within their project's quota.

    The tasks of `halves` use half of a's GPU and half of b's. Without its second task, b's GPU is free, but that task has no
    place: a has CPU for one task only. Without both of them, the preemptor fits on a, and both fit on b.
    """
    sketch = Sketch()
    projects = [{"name": "asks", "quota": {"gpus": 1}}, {"name": "runs", "quota": {"gpus": 3}}]
    rules = {"max_migrations": None, "move_higher_priority": True, "payback": None}
    document = {**DEFAULT_POLICY.model_dump(mode="json"), "projects": projects, "preemption": rules}
    sketch.state.policy = Policy.model_validate_json(json.dumps(document))
    for name, cpu in (("a", 1), ("b", 2), ("c", 1), ("d", 1)):
        sketch.node(name, gpus=1, cpu=cpu)
    halves = sketch.job("halves", group(2, gpu_share_milli=500, cpu=1, nodes=("a", "b")))
    halves.demand = halves.demand.model_copy(update={"min_tasks": minimum})
    sketch.at(halves, ("a", [0]), ("b", [0]))
    halves.project = "runs"
    if dear:
        sketch.running("dear", "c", [0], priority=75).project = "runs"
    preemptor = sketch.job("preemptor", group(gpus=1, cpu=1, nodes=("a", "b", "c") if dear else ("a", "b")))
    preemptor.project = "asks"
    batch = SelectionBatch.on(current_snapshot(sketch.state))
    return select_victims(batch, requested_unit(preemptor), "reclaim", StepBudget(20_000))


def moves(answer: Proposal) -> dict[str, list[tuple[str, int]]]:
    """By victim, its moved tasks and their new nodes."""
    return {victim.job: [(place.tasks, place.node) for place in victim.moved_to] for victim in answer.victims}


@pytest.mark.parametrize("dear", [False, True])
def test_a_rigid_job_moves_whole_because_no_part_of_it_may_stay(dear: bool) -> None:
    answer = two_halves(2, dear=dear)
    assert moves(answer) == {"halves": [("0", 1), ("1", 1)]}
    assert [place.node for place in answer.placement] == [0]
    assert answer.explanation.proven


def test_a_core_is_not_moved_only_so_that_the_surplus_has_a_place() -> None:
    answer = two_halves(1, dear=False)
    assert not answer.victims
    assert answer.refused == "impossible"
    assert answer.explanation.proven


def test_a_job_that_loses_more_moves_instead() -> None:
    answer = two_halves(1, dear=True)
    assert moves(answer) == {"dear": [("0", 3)]}
    assert answer.explanation.proven


# --- candidates of a batch: counts by class, what earlier answers took, and victims that are slow to leave


def pool(jobs: int) -> tuple[Sketch, list[Any]]:
    """So many jobs of one GPU, all of one class."""
    sketch = Sketch(a=jobs)
    return sketch, [sketch.running(f"j{number}", "a", [number]) for number in range(jobs)]


def index(sketch: Sketch, preemptors: int = 1) -> CandidateIndex:
    sketch.state.indices.snapshot = None
    return CandidateIndex(current_snapshot(sketch.state), preemptors)


def groups(made: CandidateIndex, preemptor: Any) -> CandidateGroups:
    found = made.groups("preempt", preemptor)
    assert found is not None
    return found


# --- counts by class


def test_a_running_job_that_grows_is_no_candidate_for_itself() -> None:
    sketch, jobs = pool(3)
    assert groups(index(sketch), jobs[0]).excluded == {"lower-priority-only": 2}


def test_a_job_that_a_rule_distinguishes_is_not_counted_with_its_class() -> None:
    sketch, jobs = pool(3)
    sketch.state.policy = rules(protections={"cooldown": {"job": "5m"}})
    jobs[0].eviction_times = [jobs[0].last_start]
    preemptor = sketch.job("preemptor", group(gpus=1), priority=75)
    jobs[0].last_start = sketch.state.now
    found = groups(index(sketch), preemptor)
    assert (found.candidates, found.excluded, list(found.barred)) == (2, {"cooldown": 1}, [jobs[0].id])


def test_a_backfilled_job_may_be_a_victim_of_the_head_though_its_class_may_not() -> None:
    sketch, jobs = pool(3)
    preemptor = sketch.job("preemptor", group(gpus=1), priority=50)
    preemptor.seq, jobs[2].backfilled = 0, True
    sketch.state.backfilled[jobs[2].id] = None
    found = groups(index(sketch), preemptor)
    assert (found.candidates, found.excluded, list(found.exempt)) == (1, {"lower-priority-only": 2}, [jobs[2].id])


def test_a_distinguished_job_of_which_nothing_is_left_to_evict_is_no_candidate() -> None:
    sketch, jobs = pool(2)
    preemptor = sketch.job("preemptor", group(gpus=1), priority=75)
    sketch.state.policy = rules(protections={"cooldown": {"job": "5m"}})
    jobs[0].eviction_times, jobs[0].tasks[0].state = [0], "exited"
    found = groups(index(sketch), preemptor)
    assert (found.candidates, found.excluded, list(found.barred)) == (1, {}, [jobs[0].id])


# --- shortlist, or all jobs


@pytest.mark.parametrize(("active", "prefers"), [(2 * SHORTLIST_COST, True), (2 * SHORTLIST_COST - 1, False)])
def test_a_shortlist_is_preferred_while_those_so_far_cost_no_more_than_a_scan_of_all_jobs(active: int, prefers: bool) -> None:
    sketch, jobs = pool(active)
    preemptor = sketch.job("preemptor", group(gpus=1), priority=75)
    made = index(sketch)
    made.candidates_among("preempt", preemptor, [job.id for job in jobs[:2]], groups(made, preemptor), {})
    assert made.prefers_shortlist("preempt", preemptor, {}) is prefers


def test_the_cost_of_more_units_of_a_job_is_what_they_add() -> None:
    all_of_them = EvictionCost(gpu_milli=5000, lost_gpu_ms=70, jobs=1, tasks=5, reservations=4, cpu_milli=900)
    first = EvictionCost(gpu_milli=2000, lost_gpu_ms=30, tasks=2, reservations=1, cpu_milli=400)
    assert all_of_them.minus(first) == EvictionCost(3000, 0, 40, 1, 3, 3, 500)


# --- constraints of each action on its preemptor, and on a set of victims as a whole


@pytest.fixture
def full() -> Sketch:
    return two_full_nodes()


@pytest.fixture
def preemptor(full: Sketch) -> Job:
    return preemptor_of_another_project(full)


def why(full: Sketch, preemptor: Job, action: Action) -> str | None:
    snapshot = current_snapshot(full.state)
    return action_not_permitted(snapshot, shares_now(snapshot), requested_unit(preemptor), action)


def terms(full: Sketch, preemptor: Job, action: Action, *earlier: Unit) -> Trial:
    snapshot = current_snapshot(full.state)
    return Trial(snapshot, shares_now(snapshot), requested_unit(preemptor), action, earlier)


def test_no_job_is_relocated_for_a_job_above_its_limit(full, preemptor):
    full.state.policy = policy({"name": "b", "limit": {"gpus": 3}}, preemption={"max_migrations": None})
    assert "limit of 3 GPUs" in (why(full, preemptor, "consolidate") or "")


def test_a_reclaimed_project_does_not_get_resources_back_by_another_action(full, preemptor):
    rules = {"cooldown": {"project": "1h"}}
    full.state.policy = policy({"name": "b", "quota": {"gpus": 0}}, protections=rules, preemption={"max_migrations": None})
    full.state.reclaimed_at["b"] = full.state.now - HOUR // 2
    assert "may not borrow before " in (why(full, preemptor, "consolidate") or "")
    assert terms(full, preemptor, "preempt").limited
    assert not terms(full, preemptor, "reclaim").limited


def test_victims_of_earlier_preemptors_of_the_batch_count(full, preemptor):
    full.state.policy = policy(protections=AT_MOST_ONE_WEB)
    one, two = (whole_job(full.state.jobs[name]) for name in ("one", "two"))
    assert terms(full, preemptor, "preempt").violation([two]) is None
    assert terms(full, preemptor, "preempt", one).violation([two]) is not None


def test_under_reclaim_a_budget_holds_as_well(full, preemptor):
    full.state.policy = policy({"name": "a"}, {"name": "b", "quota": {"gpus": 8}}, protections=AT_MOST_ONE_WEB)
    both = [whole_job(full.state.jobs[name]) for name in ("one", "two")]
    assert (terms(full, preemptor, "reclaim").violation(both) or "").startswith("budget 'web'")


def test_reclaim_does_not_take_what_is_placed_again(full, preemptor):
    full.state.policy = policy({"name": "a", "quota": {"gpus": 8}}, {"name": "b", "quota": {"gpus": 8}})
    both = [whole_job(full.state.jobs[name]) for name in ("one", "two")]
    assert terms(full, preemptor, "reclaim").violation(both) is not None
    assert terms(full, preemptor, "reclaim").violation(both, []) is None


@pytest.mark.parametrize(("victims", "rejected"), [(["one", "two"], False), (["one"], True), ([], True)])
def test_a_set_that_keeps_the_preemptor_within_its_limit_is_not_rejected(full, preemptor, victims, rejected):
    """Both jobs and the preemptor are of one project, whose limit is that of the preemptor alone."""
    full.state.policy = policy({"name": "a", "limit": {"gpus": 4}})
    preemptor.project = "a"
    made = terms(full, preemptor, "preempt")
    assert made.limited
    assert made.rejects([whole_job(full.state.jobs[name]) for name in victims]) is rejected


# --- what is free or releasing in total: where that does not suffice, relocating jobs does not help


FOUR_OF_THREE = "needs 4 GPUs in total, 3 are free or releasing: relocating jobs does not change that"


def totals(roomy: Sketch) -> FreeTotals:
    return FreeTotals.of(ClusterResources.of(roomy.state))


@pytest.fixture
def roomy() -> Sketch:
    """Two nodes with 3 GPUs, 6 CPUs and 6 GiB free or releasing."""
    made = Sketch()
    made.node("a", gpus=4, cpu=4, gib=4)
    made.node("b", gpus=2, cpu=4, gib=4)
    made.at(made.job("runs", group(gpus=3, cpu=2, gib=2)), ("a", [0, 1, 2]))
    made.at(made.job("leaves", group(gpus=1, cpu=1, gib=1)), ("b", [0]), phase="evicting")
    return made


def test_they_count_what_is_free_or_releasing_on_all_nodes(roomy: Sketch) -> None:
    assert totals(roomy) == FreeTotals(gpus=3, cpu_milli=6000, memory_bytes=6 * GIB, shared=False)


def test_a_gpu_that_is_shared_on_any_node_may_be_freed_by_relocating_a_share(roomy: Sketch) -> None:
    roomy.at(roomy.job("half", group(gpu_share_milli=500)), ("b", [1]))
    free = totals(roomy)
    assert (free.gpus, free.shared) == (2, True)
    assert free.missing(requested_unit(roomy.job("wants", group(gpus=3)))) is None


@pytest.mark.parametrize(
    ("groups", "missing"),
    [
        ([group(3, gpus=1, cpu=2, gib=2)], None),
        ([group(gpus=1), group(gpus=2)], None),
        ([group(2, gpus=2)], FOUR_OF_THREE),
        ([group(gpus=1), group(3, gpus=1)], FOUR_OF_THREE),
        ([group(7, cpu=1)], "not enough CPU is free in total: relocating jobs does not change that"),
        ([group(7, gib=1)], "not enough memory is free in total: relocating jobs does not change that"),
    ],
)
def test_a_request_is_refused_for_what_it_lacks_in_total(roomy: Sketch, groups: list[TaskGroup], missing: str | None) -> None:
    assert totals(roomy).missing(requested_unit(roomy.job("wants", *groups))) == missing
