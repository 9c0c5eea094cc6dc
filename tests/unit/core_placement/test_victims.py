"""Stories of victim selection: victims, reprieved jobs, and reasons."""

import pytest
from tests.builders import HOUR, MINUTE, Sketch, group, requested_unit

from bailiff_core.model.policy import Action
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Job, OpenRequest, Preemption
from bailiff_core.model.units import whole_job
from bailiff_core.placement import ClusterResources, StepBudget, decode_placement
from bailiff_core.placement.gang import GangPlacement
from bailiff_core.protections import excluded_by
from bailiff_core.queue.order import shares_now
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import (
    Accepted,
    SelectionBatch,
    Stale,
    evictions_to_cancel,
    revalidate_proposal,
    select_batch,
    select_victims,
)
from bailiff_core.victims.candidates import EvictionStep
from bailiff_core.victims.search import GeneralSearch


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


def test_the_lower_class_is_evicted_before_the_job_that_loses_less(sketch: Sketch) -> None:
    sketch.running("low", "a", range(8), priority=25, age=HOUR)
    sketch.running("high", "b", range(8), priority=50, age=0)
    answer = ask(sketch, sketch.job("preemptor", group(gpus=8), priority=75))
    assert names(answer) == ["low"]
    assert answer.victims[0].lost_gpu_ms == 8 * 3660 * 1000
    assert answer.explanation.proven
    assert answer.explanation.runner_up == ("high",)
    assert answer.explanation.runner_up_lost_gpu_ms == 8 * 60 * 1000


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


def test_a_victim_that_frees_a_whole_node_is_preferred() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=4)
    sketch.node("b", gpus=8)
    sketch.running("whole", "a", range(4))
    sketch.running("other", "b", range(4), preemptible=False)
    sketch.running("part", "b", range(4, 8))
    assert names(ask(sketch, sketch.job("preemptor", group(gpus=2), priority=75))) == ["whole"]


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


def test_releasing_resources_are_used_and_their_owner_is_not_evicted_again(sketch: Sketch) -> None:
    sketch.running("leaving", "a", range(8), phase="evicting")
    sketch.running("runs", "b", range(8))
    preemptor = sketch.job("preemptor", group(2, gpus=8), priority=75)
    answer = ask(sketch, preemptor)
    assert names(answer) == ["runs"]
    assert [(entry.rule, entry.jobs, entry.examples) for entry in answer.explanation.excluded] == [
        ("already-evicting", 1, ("leaving",))
    ]


def test_no_victims_where_the_gang_fits_as_it_is(sketch: Sketch) -> None:
    sketch.running("runs", "b", range(8))
    answer = ask(sketch, sketch.job("preemptor", group(gpus=8), priority=75))
    assert not answer.victims
    assert answer.refused is None
    assert answer.placement[0].node == 0


def test_a_refusal_names_the_nearest_alternative(sketch: Sketch) -> None:
    sketch.running("serve-1", "a", range(8), priority=125, preemptible=False)
    sketch.running("peer", "b", range(8), priority=75)
    answer = ask(sketch, sketch.job("preemptor", group(gpus=8), priority=75))
    assert answer.refused == "impossible"
    assert answer.would_need == (
        "needs a node with 8 free GPUs, no node has them; with all permitted victims evicted it would still need "
        "the resources (8 GPUs) of 'peer', which does not have lower priority"
    )
    assert {entry.rule: entry.examples for entry in answer.explanation.excluded} == {
        "lower-priority-only": ("peer",),
        "not-preemptible": ("serve-1",),
    }
    answer = ask(sketch, sketch.job("huge", group(3, gpus=8), priority=200))
    assert answer.would_need == "even if every job were evicted: needs 3 nodes with 8 free GPUs each, 2 have them"


def test_a_refusal_after_earlier_proposals_of_the_batch_says_so(sketch: Sketch) -> None:
    """Together they would need three nodes: the second gets the reason that applies after the first."""
    sketch.running("low", "a", range(8))
    sketch.running("lower", "b", range(8), priority=25)
    sketch.job("first", group(gpus=8), priority=75)
    sketch.job("second", group(2, gpus=8), priority=75)
    first, second = select_batch(sketch.state, [OpenRequest(1, "first"), OpenRequest(2, "second")], 20_000)
    assert [victim.job for victim in first.victims] == ["lower"]
    assert second.refused == "impossible"
    assert second.would_need == (
        "after the decisions for other jobs in this cycle, even if every other job were evicted: "
        "needs 2 nodes with 8 free GPUs each, 1 has them"
    )


def test_a_class_that_may_not_preempt_gets_no_victims(sketch: Sketch) -> None:
    sketch.running("x", "a", range(8))
    preemptor = sketch.job("preemptor", group(2, gpus=8), priority=75)
    preemptor.may_preempt = False
    assert ask(sketch, preemptor).would_need == "its priority class may not preempt"


def test_one_victim_where_one_of_many_suffices() -> None:
    sketch = Sketch()
    for node in range(10):
        sketch.node(f"n{node}")
        for device in range(8):
            sketch.running(f"j{node}-{device}", f"n{node}", [device], age=(node * 8 + device) * MINUTE // 2)
    answer = ask(sketch, sketch.job("preemptor", group(gpus=1), priority=75))
    assert names(answer) == ["j0-0"]
    answer = ask(sketch, sketch.job("wide", group(gpus=8), priority=75))
    assert names(answer) == [f"j0-{device}" for device in range(8)]
    assert answer.explanation.proven


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


@pytest.mark.parametrize(
    ("phase", "priority", "preemptible", "rule"),
    [
        ("running", 50, True, None),
        ("starting", 50, True, None),
        ("reserved", 50, True, None),
        ("evicting", 50, True, "already-evicting"),
        ("reserved", 75, True, "reserved"),
        ("reserved", 50, False, "reserved"),
        ("running", 50, False, "not-preemptible"),
        ("running", 75, True, "lower-priority-only"),
    ],
)
def test_each_protection_by_name(sketch: Sketch, phase, priority: int, preemptible: bool, rule: str | None) -> None:
    other = sketch.running("x", "a", [0], phase=phase, priority=priority, preemptible=preemptible)
    assert excluded_by(sketch.state, "preempt", sketch.job("preemptor", priority=75), whole_job(other)) == rule


@pytest.fixture
def answered(sketch: Sketch) -> tuple[Sketch, Job, Proposal]:
    sketch.running("one", "a", range(4))
    sketch.running("two", "a", range(4, 8))
    sketch.running("stays", "b", range(8), priority=75)
    preemptor = sketch.job("preemptor", group(gpus=8), priority=75)
    answer = ask(sketch, preemptor)
    assert names(answer) == ["one", "two"]
    return sketch, preemptor, answer


def verdict(sketch: Sketch, preemptor: Job, answer: Proposal) -> Accepted | Stale:
    sketch.state.indices.snapshot = None
    snapshot = current_snapshot(sketch.state)
    return revalidate_proposal(snapshot, shares_now(snapshot), preemptor, answer)


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


def test_an_invalidated_proposal_is_stale(answered) -> None:
    sketch, preemptor, answer = answered
    jobs = sketch.state.jobs
    jobs["one"].preemptible = False
    assert verdict(sketch, preemptor, answer) == Stale("victim 'one' is now protected by rule 'not-preemptible'")
    jobs["one"].preemptible = True
    sketch.state.nodes[0].quarantined = 1
    assert "may not run" in verdict(sketch, preemptor, answer).reason
    sketch.state.nodes[0].state = "unreachable"
    assert verdict(sketch, preemptor, answer) == Stale("node 0 is not schedulable now")
    sketch.state.nodes[0].state, sketch.state.nodes[0].quarantined = "ready", 0
    other = answer.model_copy(update={"victims": answer.victims[:1]})
    assert verdict(sketch, preemptor, other) == Stale("task 0 does not fit on a")
    nonsense = answer.model_copy(update={"placement": ()})
    assert "is invalid" in verdict(sketch, preemptor, nonsense).reason
    preemptor.phase = "cancelled"
    assert "no longer pending" in verdict(sketch, preemptor, answer).reason


def test_an_unnecessary_victim_is_dropped(answered) -> None:
    sketch, preemptor, _ = answered
    small = sketch.job("small", group(gpus=4), priority=75)
    answer = ask(sketch, small)
    both = ask(sketch, preemptor).victims
    found = verdict(sketch, small, answer.model_copy(update={"victims": both}))
    assert isinstance(found, Accepted)
    assert [choice.job for choice in found.victims] == names(answer)


def test_victims_of_a_dropped_reservation_keep_running_where_their_resources_are_not_needed(sketch: Sketch) -> None:
    sketch.at(sketch.job("v1", group(gpus=8)), ("a", range(8)), phase="evicting", preemption=5)
    sketch.at(sketch.job("v2", group(gpus=8)), ("b", range(8)), phase="evicting", preemption=5)
    promised = sketch.at(
        sketch.job("promised", group(2, gpus=8), priority=60), ("a", range(8)), ("b", range(8)), phase="reserved"
    )
    promised.preemption, sketch.state.preemptions[5] = 5, Preemption(5, "promised", ["v1", "v2"])
    preemptor = sketch.job("preemptor", group(gpus=8), priority=75)
    answer = ask(sketch, preemptor)
    assert names(answer) == ["promised"]
    cluster = ClusterResources.of(sketch.state)
    cluster.evict(whole_job(promised))
    cluster.place(whole_job(preemptor), GangPlacement(tuple(decode_placement(preemptor, answer.placement)), future=True))
    assert evictions_to_cancel(sketch.state, cluster, [promised]) == ["v2"]


@pytest.mark.parametrize(
    ("proven", "further", "victim", "named"),
    [(False, "", "cheap", "dear"), (False, "other", "cheap", "other"), (True, "", "dear", "cheap")],
)
def test_a_search_that_gives_up_and_finds_its_runner_up_cheaper_names_the_first_set_as_runner_up_or_a_further_one(
    sketch: Sketch, monkeypatch: pytest.MonkeyPatch, proven: bool, further: str, victim: str, named: str
) -> None:
    """One that is proven is not exchanged."""
    sketch.node("other")
    sketch.running("other", "other", range(8), age=HOUR // 2)
    sketch.running("cheap", "a", range(8), age=MINUTE)
    sketch.running("dear", "b", range(8), age=HOUR)
    gang = sketch.job("preemptor", group(1, gpus=8), group(1, cpu=1), priority=75)
    found = iter(["cheap", further])

    def of(job: str, order: list[EvictionStep]) -> list[EvictionStep]:
        return [step for step in order if step.job.id == job]

    monkeypatch.setattr(GeneralSearch, "_first", lambda _search, _oracle, order, *_: of("dear", order))
    monkeypatch.setattr(GeneralSearch, "_runner_up", lambda _search, _oracle, order, *_: of(next(found), order))
    monkeypatch.setattr("bailiff_core.victims.search.branch_and_bound", lambda *_, **__: (None, proven))
    monkeypatch.setattr(GeneralSearch, "_relaxed", lambda _search: None)
    answer = ask(sketch, gang)
    assert (names(answer), answer.explanation.runner_up) == ([victim], (named,))
    assert answer.explanation.proven is proven
