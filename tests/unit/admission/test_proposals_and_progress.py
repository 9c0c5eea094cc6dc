"""What victim selection proposes and the executor is about to do: taken while it fits the state, else without effect."""

import pytest

from bailiff_admission.intake.progress import facts_of_progress
from bailiff_admission.intake.proposals import facts_of_proposal
from bailiff_admission.intake.rejected import LONGEST, Rejected
from bailiff_bus.messages import BegunEviction, GivenUpPlan, Proposal
from bailiff_core.engine import LOGIC


@pytest.fixture
def asked(story):
    """`high` needs all 16 GPUs."""
    story.submit("high", gpus=8, tasks=2, cls="interactive")
    story.expect("PreemptionRequested", job="high")
    return story


def proposal(story, **changes):
    fact = story.proposal()
    return Proposal(
        **{"number": fact.number, "computed_at": fact.computed_at, "logic": LOGIC, "answers": fact.answers, **changes}
    )


def test_the_answer_that_is_awaited(asked):
    (fact,) = facts_of_proposal(asked.pool, proposal(asked))
    asked.turn(fact)
    asked.expect("PreemptionDecided")


def test_another_engine_is_refused(asked):
    found = facts_of_proposal(asked.pool, proposal(asked, logic=LOGIC + 1))
    assert isinstance(found, Rejected)
    assert found.code == "other-logic"


def test_an_answer_computed_on_what_is_not_there_yet(asked):
    found = facts_of_proposal(asked.pool, proposal(asked, computed_at=asked.pool.seq + 1))
    assert isinstance(found, Rejected)
    assert found.code == "from-the-future"


@pytest.mark.parametrize("number", [0, 2])
def test_answers_to_another_selection_mean_nothing(asked, number):
    assert facts_of_proposal(asked.pool, proposal(asked, number=number)) == []


def test_a_second_answer_means_nothing(asked):
    late = proposal(asked)
    asked.propose()
    assert facts_of_proposal(asked.pool, late) == []


def test_two_answers_in_one_turn(asked):
    both = proposal(asked)
    asked.turn(asked.proposal(), lambda: facts_of_proposal(asked.pool, both))
    asked.expect("PreemptionDecided")


def decided(story):
    story.propose()
    eviction = story.job("low").eviction
    return BegunEviction(job="low", attempt=1, decided=eviction.decided_seq), GivenUpPlan(plan=eviction.plan, reason="room")


def test_an_eviction_begins_once(asked):
    begun, _ = decided(asked)
    (fact,) = facts_of_progress(asked.pool, begun)
    assert (fact.job, fact.attempt, fact.decided) == ("low", 1, begun.decided)
    asked.turn(fact)
    assert facts_of_progress(asked.pool, begun) == []


@pytest.mark.parametrize("wrong", [{"job": "nobody"}, {"job": "done"}, {"attempt": 2}, {"decided": 1}])
def test_progress_of_something_else(asked, wrong):
    begun, _ = decided(asked)
    assert facts_of_progress(asked.pool, begun.model_copy(update=wrong)) == []


def test_an_eviction_taken_back_does_not_begin(asked):
    begun, _ = decided(asked)
    asked.cancel("high")
    assert facts_of_progress(asked.pool, begun) == []


def test_a_plan_is_given_up_once_and_only_before_anybody_was_told(asked):
    begun, given_up = decided(asked)
    (fact,) = facts_of_progress(asked.pool, given_up)
    assert fact.plan == given_up.plan
    assert facts_of_progress(asked.pool, given_up.model_copy(update={"plan": 3})) == []
    asked.turn(*facts_of_progress(asked.pool, begun))
    assert facts_of_progress(asked.pool, given_up) == []


def test_both_in_one_turn(asked):
    """The executor that begins and the one that gives up: the first in the log wins."""
    begun, given_up = decided(asked)
    asked.turn(*facts_of_progress(asked.pool, given_up), lambda: facts_of_progress(asked.pool, given_up))
    asked.expect("ReservationDropped", job="high", reason="given-up")
    assert facts_of_progress(asked.pool, begun) == []


def test_a_reason_has_an_end():
    assert Rejected("code", "x" * LONGEST).told == "x" * LONGEST
    assert len(Rejected("code", "x" * 5000).told) == LONGEST
