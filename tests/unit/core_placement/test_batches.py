"""Batches of requests: which actions are tried, which refusal is given, and whose victims are not needed."""

from typing import Any

import pytest
from tests.builders import GIB, HOUR, MINUTE, Sketch, group, requested_unit
from tests.unit.core_placement.test_batch_results import answers
from tests.unit.core_protections.kit import rules

from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.proposal import Proposal, VictimChoice
from bailiff_core.model.resources import add
from bailiff_core.model.state import Job
from bailiff_core.placement import StepBudget
from bailiff_core.placement.gang import NoFit
from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch, select_victims, unneeded_victims
from bailiff_core.victims.batch import apply_proposal
from bailiff_core.victims.candidates import CandidateIndex
from bailiff_core.victims.constraints import Constraints
from bailiff_core.victims.knapsack import knapsack_for
from bailiff_core.victims.unneeded_victims import Answer, _whole_victims, proposals_without_victims

ELSEWHERE = (NodeShare(node=1, tasks="0", devices="0"),)


def low_and_high() -> tuple[Sketch, Job]:
    """`low` has the only node."""
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.running("low", "a", range(2))
    return sketch, sketch.job("high", group(gpus=2), priority=75)


# --- actions, and requests that need no answer


@pytest.mark.parametrize(
    ("actions", "action", "why"),
    [
        (["allocate"], "preempt", "the policy does not allow preempt"),
        (["allocate", "reclaim"], "reclaim", "the policy has no projects to reclaim from"),
        (["allocate", "preempt"], "preempt", ""),
        (["allocate", "reclaim", "preempt"], "preempt", ""),
    ],
)
def test_only_the_actions_of_the_policy_are_tried_and_without_any_the_refusal_is_that_of_preempt(
    actions: list[str], action: str, why: str
) -> None:
    sketch, high = low_and_high()
    sketch.state.policy = rules(preemption={"actions": actions})
    (answer,) = answers(sketch, high.id)
    assert (answer.action, answer.would_need, bool(answer.victims)) == (action, why, not why)


@pytest.mark.parametrize(
    ("change", "answered"),
    [({}, True), ({"suspended_reason": "paused"}, False), ({"phase": "paused"}, False), ({"phase": "succeeded"}, False)],
)
def test_a_job_that_is_not_pending_any_more_gets_no_victims(change: dict[str, str], answered: bool) -> None:
    sketch, high = low_and_high()
    for name, value in change.items():
        setattr(high, name, value)
    (answer,) = answers(sketch, high.id)
    assert bool(answer.victims) is answered
    assert answered or (answer.refused, answer.would_need) == ("impossible", "the job is no longer pending")


def test_the_refusal_is_that_of_the_last_action_that_looked_for_victims() -> None:
    """`high` may not preempt, so only consolidate looks for jobs that might move."""
    sketch, high = low_and_high()
    sketch.state.policy = rules(preemption={"max_migrations": None})
    high.may_preempt = False
    (answer,) = answers(sketch, high.id)
    assert (answer.refused, answer.action) == ("impossible", "consolidate")
    assert answer.would_need.startswith("needs 2 GPUs in total, 0 are free or releasing")


# --- victims


def not_started(sketch: Sketch, job: Job, index: int) -> None:
    """The task has a reservation by now, and runs later."""
    task, node = job.tasks[index], sketch.state.nodes[job.tasks[index].node]
    task.state = "reserved"
    node.allocated.devices &= ~task.devices
    node.allocated.slots -= 1
    add(node.reserved, task.devices, 0, 0)


@pytest.mark.parametrize(
    ("gpus", "waiting", "tasks", "reserved"),
    [(1, (2,), "2", True), (3, (2,), "", False), (1, (), "2", False), (2, (2,), "1-2", False)],
)
def test_a_victim_counts_as_reserved_if_none_of_what_it_loses_has_started(
    gpus: int, waiting: tuple[int, ...], tasks: str, reserved: bool
) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=3)
    wide = sketch.at(sketch.job("wide", group(3, gpus=1)), *(("a", [number]) for number in range(3)))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    for index in waiting:
        not_started(sketch, wide, index)
    (answer,) = answers(sketch, sketch.job("high", group(gpus=gpus), priority=75).id)
    assert [(choice.tasks, choice.reserved) for choice in answer.victims] == [(tasks, reserved)]


@pytest.mark.parametrize("found", [NoFit("gave-up", "no place within the step budget"), "project p would use 2 GPUs"])
def test_without_a_place_for_the_preemptor_nobody_is_evicted(monkeypatch: pytest.MonkeyPatch, found: Any) -> None:
    sketch, high = low_and_high()
    monkeypatch.setattr(Constraints, "place", lambda *_: found)
    batch = SelectionBatch.on(current_snapshot(sketch.state))
    answer = select_victims(batch, requested_unit(high), "preempt", StepBudget(1000))
    assert (answer.refused, answer.victims) == ("gave-up", ())
    assert answer.would_need == (found.why if isinstance(found, NoFit) else found)


def test_the_slots_that_are_missing_are_the_same_however_often_one_asks() -> None:
    sketch, _ = low_and_high()
    sketch.node("b", gpus=3)
    snapshot = current_snapshot(sketch.state)
    index, need = CandidateIndex(snapshot), TaskRequirements.of(group(gpus=1))
    found = index.candidates("preempt", sketch.job("preemptor", priority=75))
    cache: Any = {}
    missing = [knapsack_for(cache, snapshot.cluster, need, found, index.fragmentation, tasks)[1] for tasks in (4, 4, 5, 5, 4)]
    assert missing == [1, 1, 2, 2, 1]


# --- victims that are not needed


@pytest.mark.parametrize(
    ("share", "needed"),
    [({"gpu_share_milli": 600}, False), ({"gpu_share_milli": 500}, False), ({"gpu_share_bytes": 60 * GIB}, True)],
)
def test_what_another_answer_leaves_free_is_used_unless_the_demand_depends_on_the_device(
    share: dict[str, int], needed: bool
) -> None:
    """The first answer evicts `small`; the second evicts `large`, of whose GPUs one remains."""
    sketch = Sketch()
    sketch.node("a", gpus=1)
    sketch.node("b", gpus=4)
    sketch.running("small", "a", [0], age=MINUTE)
    sketch.running("large", "b", range(4), age=HOUR)
    first = sketch.job("first", group(**share), priority=100)
    second = sketch.job("second", group(gpus=3), priority=75)
    one, two = answers(sketch, first.id, second.id)
    assert [choice.job for choice in two.victims] == ["large"]
    assert [choice.job for choice in one.victims] == (["small"] if needed else [])
    assert one.action == ("preempt" if needed else "allocate")


def test_a_gang_keeps_the_place_that_no_victim_had() -> None:
    """The first answer evicts `small` for one of two tasks; the second evicts `large`, of whose GPUs one remains."""
    sketch = Sketch()
    for name, gpus in (("a", 1), ("b", 4), ("c", 1)):
        sketch.node(name, gpus=gpus)
    sketch.running("small", "a", [0], age=MINUTE)
    sketch.running("large", "b", range(4), age=HOUR)
    first = sketch.job("first", group(2, gpus=1), priority=100)
    second = sketch.job("second", group(gpus=3), priority=75)
    one, two = answers(sketch, first.id, second.id)
    assert [choice.job for choice in two.victims] == ["large"]
    assert (one.action, one.victims, [share.node for share in one.placement]) == ("allocate", (), [1, 2])


@pytest.mark.parametrize(("within", "restored"), [(True, True), (False, True), (True, False)])
def test_where_victims_cannot_stay_the_pool_is_as_the_answers_leave_it(
    monkeypatch: pytest.MonkeyPatch, within: bool, restored: bool
) -> None:
    """within: the projects of all answers keep their limits with the victims. restored: the victims fit where they run."""
    monkeypatch.setattr(unneeded_victims, "_within_bounds", lambda *_: within)
    if not restored:
        monkeypatch.setattr(unneeded_victims, "_restored", lambda *_: False)
    sketch = Sketch()
    sketch.node("a", gpus=1)
    sketch.node("b", gpus=4)
    sketch.running("small", "a", [0], age=MINUTE)
    sketch.running("large", "b", range(4), age=HOUR)
    jobs = [sketch.job("first", group(gpus=1), priority=100), sketch.job("second", group(gpus=3), priority=75)]
    batch, found = SelectionBatch.on(current_snapshot(sketch.state)), {}
    for request, job in enumerate(jobs):
        unit = requested_unit(job)
        proposal = select_victims(batch, unit, "preempt", StepBudget(1000), request=request)
        apply_proposal(batch, unit, proposal)
        found[request] = Answer(unit, proposal, ())
    nodes = batch.snapshot.cluster.nodes.values()
    before = [node.future for node in nodes]
    fewer = list(proposals_without_victims(batch.snapshot, batch.shares, found, 1000))
    stay = within and restored
    assert [request for request, _ in fewer] == ([0] if stay else [])
    assert ([node.future for node in nodes] == before) is not stay


def test_surplus_tasks_are_evicted_in_any_case() -> None:
    """The first answer evicts a task of `wide`; the second evicts `large`, of whose GPUs one remains."""
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.node("b", gpus=4)
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
    sketch = Sketch()
    sketch.node("a", gpus=2)
    made = [
        VictimChoice(job=sketch.running(name, "a", [at]).id, attempt=1, priority=50, gpus=1, lost_gpu_ms=0, **about)
        for at, (name, about) in enumerate((("one", first), ("two", second)))
    ]
    proposal = Proposal(request=1, job="high", victims=tuple(made))
    restored = [job.id for job in _whole_victims(current_snapshot(sketch.state), proposal)]
    assert restored == (["one", "two"] if whole else [])


def test_what_is_free_now_stays_so_beside_a_place_that_waits_for_an_eviction() -> None:
    """`first` takes the GPUs and CPUs of `low` once they are free; on the CPUs that are free now, `second` starts at once."""
    sketch = Sketch()
    sketch.node("a", gpus=2, cpu=4)
    sketch.node("b", gpus=0, cpu=2)
    sketch.at(sketch.job("low", group(gpus=2, cpu=2)), ("a", range(2)))
    sketch.at(sketch.job("leaving", group(cpu=2)), ("b", []), phase="evicting")
    first = sketch.job("first", group(gpus=2, cpu=2), priority=100)
    second = sketch.job("second", group(cpu=2), priority=75)
    one, two = answers(sketch, first.id, second.id)
    assert [choice.job for choice in one.victims] == ["low"]
    assert [share.node for share in two.placement] == [0]


def test_a_node_is_not_broken_by_the_last_job_that_leaves_it_after_an_earlier_answer() -> None:
    """`first` takes the CPUs of `gone` and leaves its GPU: with `last` the GPUs of node a are empty. On b, `firm` stays."""
    sketch = Sketch()
    sketch.node("a", gpus=2, cpu=2)
    sketch.node("b", gpus=3, cpu=0)
    sketch.at(sketch.job("gone", group(gpus=1, cpu=2), priority=10), ("a", [0]))
    sketch.running("last", "a", [1], age=HOUR)
    sketch.running("firm", "b", [2], preemptible=False)
    sketch.running("young", "b", [1], age=HOUR)
    first = sketch.job("first", group(cpu=2), priority=100)
    second = sketch.job("second", group(gpus=2), priority=75)
    one, two = answers(sketch, first.id, second.id)
    assert [choice.job for choice in one.victims] == ["gone"]
    assert [choice.job for choice in two.victims] == ["last"]


def test_what_an_answer_uses_beside_what_its_victims_free_is_not_free_for_the_next() -> None:
    """One GPU is free: the first gang of two evicts one job, the second evicts two."""
    sketch = Sketch()
    for name in ("a", "b", "c", "free"):
        sketch.node(name, gpus=1)
    for name in ("a", "b", "c"):
        sketch.running(f"on-{name}", name, [0])
    gangs = [sketch.job(name, group(2, gpus=1), priority=75) for name in ("first", "second")]
    assert [len(answer.victims) for answer in answers(sketch, *(gang.id for gang in gangs))] == [1, 2]
