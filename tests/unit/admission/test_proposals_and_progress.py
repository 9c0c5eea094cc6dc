"""Proposals of victim selection and progress of the executor: accepted while they fit the state, else without effect."""

import pytest

from bailiff_admission.request_handlers.progress import facts_of_progress
from bailiff_admission.request_handlers.proposals import facts_of_proposal
from bailiff_bus.messages.progress import AbandonPreemption, StartEviction
from bailiff_bus.messages.proposals import ProposalBatch
from bailiff_core.admission.rejected import MAX_REASON_LENGTH, Rejected
from bailiff_core.engine import LOGIC


@pytest.fixture
def asked(story):
    """`high` needs all 16 GPUs."""
    story.submit("high", gpus=8, tasks=2, cls="interactive")
    story.expect("PreemptionRequested", job="high")
    return story


def proposal(story, **changes):
    fact = story.proposal()
    return ProposalBatch(
        **{"selection": fact.selection, "computed_at": fact.computed_at, "logic": LOGIC, "proposals": fact.proposals, **changes}
    )


def test_the_awaited_proposal(asked):
    (fact,) = facts_of_proposal(asked.state, proposal(asked))
    asked.cycle(fact)
    asked.expect("PreemptionDecided")


def test_another_engine_is_refused(asked):
    found = facts_of_proposal(asked.state, proposal(asked, logic=LOGIC + 1))
    assert isinstance(found, Rejected)
    assert found.code == "logic-mismatch"


def test_a_proposal_computed_on_a_later_state(asked):
    found = facts_of_proposal(asked.state, proposal(asked, computed_at=asked.state.seq + 1))
    assert isinstance(found, Rejected)
    assert found.code == "ahead-of-log"


@pytest.mark.parametrize("number", [0, 2])
def test_proposals_for_another_selection_have_no_effect(asked, number):
    assert facts_of_proposal(asked.state, proposal(asked, selection=number)) == []


def test_a_second_proposal_has_no_effect(asked):
    late = proposal(asked)
    asked.propose()
    assert facts_of_proposal(asked.state, late) == []


def test_two_proposals_in_one_cycle(asked):
    both, second = proposal(asked), []
    asked.cycle(asked.proposal(), lambda: second.append(facts_of_proposal(asked.state, both)) or ())
    asked.expect("PreemptionDecided")
    assert second == [[]]


def decided(story):
    story.propose()
    eviction = story.job("low").eviction
    start = StartEviction(job="low", attempt=1, decided_by=eviction.decided_seq)
    return start, AbandonPreemption(preemption=eviction.preemption, reason="room")


def test_an_eviction_starts_once(asked):
    begun, _ = decided(asked)
    (fact,) = facts_of_progress(asked.state, begun)
    assert (fact.job, fact.attempt, fact.decided_by) == ("low", 1, begun.decided_by)
    asked.cycle(fact)
    assert facts_of_progress(asked.state, begun) == []


@pytest.mark.parametrize("wrong", [{"job": "nobody"}, {"job": "done"}, {"attempt": 2}, {"decided_by": 1}])
def test_progress_of_unknown_evictions(asked, wrong):
    begun, _ = decided(asked)
    assert facts_of_progress(asked.state, begun.model_copy(update=wrong)) == []


def test_a_cancelled_eviction_does_not_start(asked):
    begun, _ = decided(asked)
    asked.cancel("high")
    assert facts_of_progress(asked.state, begun) == []


def test_a_preemption_is_abandoned_once_and_only_before_any_notice(asked):
    begun, given_up = decided(asked)
    (fact,) = facts_of_progress(asked.state, given_up)
    assert fact.preemption == given_up.preemption
    assert facts_of_progress(asked.state, given_up.model_copy(update={"preemption": 3})) == []
    asked.cycle(*facts_of_progress(asked.state, begun))
    assert facts_of_progress(asked.state, given_up) == []


def test_a_preemption_abandoned_twice_in_one_cycle(asked):
    begun, given_up = decided(asked)
    second = []
    again = lambda: second.append(facts_of_progress(asked.state, given_up)) or ()  # noqa: E731
    asked.cycle(*facts_of_progress(asked.state, given_up), again)
    asked.expect("ReservationDropped", job="high", reason="abandoned")
    assert second == [[]]
    assert facts_of_progress(asked.state, begun) == []


def test_a_reason_has_an_end():
    assert Rejected("code", "x" * MAX_REASON_LENGTH).text == "x" * MAX_REASON_LENGTH
    assert len(Rejected("code", "x" * 5000).text) == MAX_REASON_LENGTH
