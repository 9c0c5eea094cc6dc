"""A job that may preempt others: request, selection, proposal, decision."""

from tests.log_builder import MINUTE, SECOND, policy

from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.proposal import Proposal, VictimChoice


def crowded(story, gpus=8):
    """One node, full of one preemptible job, and a request for half of it."""
    story.node("n1", gpus=gpus)
    story.runs("low", gpus=gpus)
    story.submit("high", gpus=4, cls="interactive", after=MINUTE)
    return story.expect("PreemptionRequested", job="high")


def test_a_preemption_from_request_to_start(story):
    request = crowded(story)
    assert (request.selection, request.priority, request.class_name) == (1, 75, "interactive")
    assert request.deadline == story.time + 5 * SECOND
    assert request.reason == "needs 1 task of 4 GPUs, no node fits one"
    story.propose(after=SECOND)
    decided = story.expect("PreemptionDecided", unneeded_victims=())
    assert [(choice.job, choice.gpus, choice.lost_gpu_ms) for choice in decided.victims] == [("low", 8, 8 * 121_000)]
    assert decided.graces == (150 * SECOND,)
    assert decided.expires == story.time + 750 * SECOND
    assert decided.explanation.proven
    assert story.phases() == {"low": "evicting", "high": "reserved"}
    story.yields("low", after=SECOND)
    story.expect("JobRequeued", job="low", outcome="preempted", cause="preemption", not_before=0)
    story.expect("JobStarting", job="high", attempt=1)
    assert story.state.preemptions == {}
    story.ends("high")
    story.expect("JobPlaced", job="low", attempt=2)


def test_equal_higher_or_protected_jobs_are_never_evicted(story):
    story.node("n1", gpus=8)
    story.runs("same", gpus=4, cls="interactive")
    story.runs("serving", gpus=4, cls="inference")
    story.submit("preemptor", gpus=4, cls="interactive")
    story.expect_only("JobPending")
    story.ends("same", 0)
    story.expect("JobPlaced", job="preemptor")
    story.submit("higher", gpus=8, cls="build")
    story.expect("PreemptionRequested", job="higher")
    story.propose()
    refused = story.expect("PreemptionRefused", reason="impossible")
    assert [(entry.rule, entry.jobs) for entry in refused.explanation.excluded] == [("not-preemptible", 1)]
    assert "'serving', which is not preemptible" in refused.would_need


def test_a_job_of_equal_priority_is_no_victim_beside_a_lower_one(story):
    story.node("n1", gpus=8)
    story.runs("same", gpus=4, cls="interactive")
    story.runs("low", gpus=4)
    story.submit("preemptor", gpus=8, cls="interactive")
    story.propose()
    refused = story.expect("PreemptionRefused", reason="impossible")
    assert [(entry.rule, entry.examples) for entry in refused.explanation.excluded] == [("lower-priority-only", ("same",))]
    assert "'same', which does not have lower priority" in refused.would_need


def test_a_class_with_preemption_policy_never_preempts_nothing(tell):
    rules = policy()
    quiet = [entry.model_dump() | {"preemption_policy": "Never"} for entry in rules.priority_classes]
    story = tell(policy(priority_classes=quiet))
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("high", gpus=8, cls="inference")
    story.expect_only("JobPending")


def test_victims_of_a_gang_are_evicted_together(story):
    story.node("n1", gpus=8)
    story.node("n2", gpus=8)
    story.runs("gang", gpus=8, tasks=2)
    story.submit("high", gpus=2, cls="interactive")
    story.propose()
    assert [choice.gpus for choice in story.expect("PreemptionDecided").victims] == [16]
    story.begin("gang")
    story.ends("gang", 85, task=0)
    story.expect("JobStarting", job="high")  # all its room is free
    assert story.job("gang").phase == "evicting"
    story.ends("gang", 85, task=1)
    story.expect("JobRequeued", job="gang", outcome="preempted")


def test_a_victim_that_finishes_by_itself_has_succeeded(story):
    crowded(story)
    story.propose()
    story.ends("low", 0)
    story.expect("JobEnded", job="low", outcome="succeeded")
    story.expect("JobStarting", job="high")


def test_an_old_proposal_that_is_still_valid_is_accepted(story):
    story.node("n1", gpus=4)
    story.node("n2", gpus=4)
    story.runs("a", gpus=4)
    story.runs("b", gpus=4, after=MINUTE)
    story.submit("high", gpus=4, cls="interactive")
    early = story.state.seq
    story.ends("a", 0)  # room appears; high is placed, the answer is not needed any more
    story.expect("JobPlaced", job="high")
    story.propose(at=early)
    story.expect("PreemptionRefused", reason="not-needed")
    assert story.job("b").phase == "running"


def test_victims_that_ended_by_themselves_are_recorded_as_dropped(story):
    story.node("n1", gpus=8)
    story.runs("a", gpus=4)
    story.runs("b", gpus=4)
    story.submit("high", gpus=8, cls="interactive")
    early = story.state.seq
    story.ends("a", 0)
    story.propose(at=early)
    decided = story.expect("PreemptionDecided", unneeded_victims=("a",))
    assert [choice.job for choice in decided.victims] == ["b"]


def test_a_late_proposal_whose_victim_has_a_newer_attempt_is_stale(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("high", gpus=8, cls="interactive")
    stale = story.proposal()
    story.apply_policy(policy(preemption={"actions": ["allocate"]}))
    story.cycle(stale)
    refused = story.expect("PreemptionRefused", reason="stale")
    assert refused.would_need == ("'high' may no longer use preempt: the policy does not allow preempt")
    assert refused.retry_at == story.time + SECOND
    assert story.job("low").phase == "running"


def test_a_partial_proposal_answers_the_rest_as_stale(story):
    story.node("n1", gpus=8)
    story.runs("a", gpus=4)
    story.runs("b", gpus=4)
    story.cycle(story.submitted("x", gpus=4, cls="interactive"), story.submitted("y", gpus=4, cls="interactive"))
    assert [type(decision).__name__ for decision in story.last_decisions].count("PreemptionRequested") == 2
    full = story.proposal()
    story.propose(proposals=full.proposals[:1])
    story.expect("PreemptionDecided")
    story.expect("PreemptionRefused", reason="stale")
    assert story.state.selection is None
    assert story.job("y").next_request_at == story.time + SECOND


def test_invalid_proposals_evict_no_job(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=4)
    story.runs("serving", gpus=4, cls="inference")
    share = NodeShare(node=0, tasks="0", devices="4-7")
    low = VictimChoice(job="low", attempt=1, priority=50, gpus=4, lost_gpu_ms=0)
    serving = low.model_copy(update={"job": "serving"})
    for wrong, why in (
        ({"job": "other"}, "for another job"),
        ({"victims": (serving,)}, "protected by rule 'not-preemptible'"),
        ({"victims": (low, low)}, "named twice"),
        ({"placement": (NodeShare(node=7, tasks="0", devices="0-3"),)}, "is not schedulable"),
        ({"placement": (NodeShare(node=0, tasks="0", devices="0-2"),)}, "is invalid"),
        ({"placement": (NodeShare(node=0, tasks="0", devices="0-99999999"),)}, "is invalid"),
        ({"placement": (NodeShare(node=0, tasks="1", devices="0-3"),)}, "is invalid"),
        ({"placement": ()}, "has no place"),
        ({"placement": (share,)}, "task 0 does not fit"),
        ({"victims": ()}, "task 0 does not fit"),
    ):
        if "high" not in story.state.jobs:
            story.submit("high", gpus=4, cls="interactive")
        request = story.state.selection.requests[0].seq
        good = {"request": request, "job": "high", "victims": (low,), "placement": (NodeShare(node=0, tasks="0", devices="0-3"),)}
        story.propose(proposals=[Proposal.model_validate(good | wrong)])
        refused = story.expect("PreemptionRefused", reason="stale")
        assert why in refused.would_need, wrong
        assert story.job("low").phase == story.job("serving").phase == "running"
        story.wait(2 * MINUTE)
        story.expect("PreemptionRequested", job="high")


def test_proposals_for_closed_requests_are_ignored(story):
    crowded(story)
    answer = story.proposal().proposals[0]
    story.propose(proposals=[answer.model_copy(update={"request": 3})])
    story.expect("PreemptionRefused", reason="stale")


def test_refused_requests_are_repeated_with_exponential_backoff(story):
    story.node("n1", gpus=8)
    story.runs("serving", gpus=6, cls="inference")
    story.runs("low", gpus=2)
    story.submit("high", gpus=8, cls="build")
    pauses = []
    for _ in range(9):
        story.propose()
        pauses.append(story.expect("PreemptionRefused", reason="impossible").retry_at - story.time)
        story.expect_only("PreemptionRefused")
        story.wait(pauses[-1])
        story.expect("PreemptionRequested", job="high")
    assert pauses == [SECOND << min(n, 6) for n in range(9)]


def test_two_preemptors_in_one_selection_share_no_resources(story):
    for number in range(3):
        story.node(f"n{number}", gpus=4)
        story.runs(f"low-{number}", gpus=4, after=MINUTE)
    story.cycle(story.submitted("x", gpus=4, cls="interactive"), story.submitted("y", gpus=4, cls="build"))
    asked = [decision.job for decision in story.last_decisions if type(decision).__name__ == "PreemptionRequested"]
    assert asked == ["y", "x"]
    story.propose()
    victims = [
        [choice.job for choice in decision.victims]
        for decision in story.last_decisions
        if type(decision).__name__ == "PreemptionDecided"
    ]
    assert victims == [["low-2"], ["low-1"]]  # least work lost first


def test_without_the_action_no_job_requests_preemption(tell):
    story = tell(policy(preemption={"actions": ["allocate"]}))
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("high", gpus=8, cls="interactive")
    story.expect_only("JobPending")


def test_releasing_resources_count_as_future_capacity_and_their_owner_is_no_victim(story):
    crowded(story)
    story.propose()
    story.submit("also", gpus=4, cls="interactive")
    story.expect("JobPlaced", job="also", reserved=True)
    story.yields("low")
    assert {decision.job for decision in story.last_decisions if type(decision).__name__ == "JobStarting"} == {"high", "also"}


def test_a_very_long_grace_protects_no_job(story):
    import pytest

    story.node("n1", gpus=8)
    with pytest.raises(ValueError, match="grace"):
        story.submitted("low", gpus=8, grace=2**53 - 1)
    story.runs("low", gpus=8, grace="3650d")
    story.submit("high", gpus=8, cls="interactive")
    story.propose()
    assert story.expect("PreemptionDecided").graces == (315_360_000 * SECOND,)


def test_an_unnecessary_proposal_is_not_requested_again_at_once(tell):
    story = tell()
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("high", gpus=8, cls="interactive")
    answer = story.proposal()
    story.apply_policy(policy(preemption={"actions": ["preempt"]}))  # nobody places what fits by itself
    story.ends("low", 0)
    story.cycle(story.submitted("low-2", gpus=1))
    story.cycle(answer)
    story.expect("PreemptionRefused", reason="not-needed", retry_at=story.time + SECOND)
