"""Comparing proposals with a search of one's own: each way in which a claim can be none of a search's."""

import pytest
from tests.kits.log_builder import folded
from tests.kits.story_script import play

from bailiff_core.engine import LOGIC
from bailiff_core.model.proposal import Cost, Explanation, Proposal
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import ProposalReceived
from bailiff_core.victims.batch import compute_proposals
from bailiff_core.victims.search_again import ProposalCheck, Searched, differing_fields


@pytest.fixture
def state() -> PoolState:
    """A pool in which one job asks for the GPUs of another."""
    story = play("node n1: 2 gpus; runs low: 2 gpus; submit high: interactive, 2 gpus")
    state = folded(story.wires)
    assert state.selection is not None
    return state


def received(state: PoolState, *proposals: Proposal, **other: int) -> ProposalReceived:
    given = proposals or compute_proposals(state)
    assert state.selection is not None
    fields = {"selection": state.selection.number, "computed_at": state.seq, "logic": LOGIC, **other}
    return ProposalReceived(proposals=given, **fields)


def problems(state: PoolState, fact: ProposalReceived, seq: int | None = None) -> list[str]:
    check = ProposalCheck()
    check.search(state)
    found = check.compare(state, state.seq + 1 if seq is None else seq, fact)
    assert found is not None
    assert check.checked == 1
    return [each.problem or ",".join(each.differing) or "missing" for each in found]


def test_what_the_search_gives_is_reproduced(state):
    assert problems(state, received(state)) == []


def test_a_request_is_answered_once(state):
    (proposal,) = compute_proposals(state)
    assert problems(state, received(state, proposal, proposal)) == [f"request #{proposal.request} is answered twice"]


def test_after_a_second_answer_to_a_request_the_others_are_compared_as_well(state):
    (proposal,) = compute_proposals(state)
    other = proposal.model_copy(update={"request": proposal.request + 1})
    assert problems(state, received(state, proposal, proposal, other)) == [
        f"request #{proposal.request} is answered twice",
        "missing",
    ]


def test_each_difference_is_named_by_its_path(state):
    (proposal,) = compute_proposals(state)
    explanation = proposal.explanation.model_copy(update={"steps": proposal.explanation.steps + 1, "proven": False})
    claim = proposal.model_copy(update={"explanation": explanation, "would_need": "more"})
    assert differing_fields(claim, proposal) == ("would_need", "explanation.steps", "explanation.proven")
    assert differing_fields(Proposal(request=1, job="a", explanation=Explanation()), Proposal(request=1, job="b")) == ("job",)


def test_a_different_answer_to_a_request_is_a_difference(state):
    (proposal,) = compute_proposals(state)
    assert problems(state, received(state, proposal.model_copy(update={"would_need": "more"}))) == ["would_need"]


@pytest.mark.parametrize(("proposed", "computed"), [(Cost(tasks=1), None), (None, Cost(tasks=1))])
def test_a_part_that_only_one_of_them_has_differs_as_a_whole(proposed, computed):
    one, other = (
        Proposal(request=1, job="a", explanation=Explanation(cost=cost, lower_bound=Cost(tasks=2)))
        for cost in (proposed, computed)
    )
    assert differing_fields(one, other) == ("explanation.cost",)


def test_an_answer_to_no_request_and_a_request_without_answer(state):
    (proposal,) = compute_proposals(state)
    other = proposal.model_copy(update={"request": proposal.request + 1})
    assert problems(state, received(state, other)) == ["missing", "missing"]


def test_the_record_itself_is_not_before_it_and_the_opening_record_is(state):
    at = state.seq
    assert problems(state, received(state), seq=at) == [f"#{at} is not before it"]
    assert problems(state, received(state), seq=at + 1) == []
    assert state.selection is not None
    state.selection.opened_seq = at
    assert problems(state, received(state)) == []
    state.selection.opened_seq = at + 1
    assert problems(state, received(state)) == [f"no selection was open after #{at} that is open at #{at + 1}"]


def test_nothing_is_searched_within_a_cycle_or_without_a_selection(state):
    state.cycle_open, state.last_fact = True, state.seq - 1
    assert "is within the decisions of a cycle" in Searched.on(state).problem
    state.last_fact = state.seq
    assert Searched.on(state).problem == ""
    state.selection = None
    assert Searched.on(state) == Searched(state.seq)


def test_nothing_is_searched_once_the_proposals_are_in_the_log(state):
    state.proposals = compute_proposals(state)
    assert Searched.on(state) == Searched(state.seq)


def test_within_a_cycle_that_is_the_problem_whatever_selection_the_proposal_names(state):
    state.cycle_open, state.last_fact = True, state.seq - 1
    (found,) = Searched.on(state).differences(state.seq + 1, received(state, selection=7))
    assert "is within the decisions of a cycle" in found.problem


def test_a_proposal_for_no_open_selection_cannot_have_been_computed(state):
    fact, at = received(state), state.seq
    state.selection = None
    assert problems(state, fact) == [f"no selection was open after #{at} that is open at #{at + 1}"]


def test_the_answers_come_in_the_order_in_which_they_were_found():
    story = play("node n1: 2 gpus; runs low: 1 gpu; runs other: 1 gpu")
    story.cycle(*(story.submitted(name, gpus=1, cls="interactive") for name in ("high", "also")))
    state = folded(story.wires)
    first, second = compute_proposals(state)
    assert problems(state, received(state, first, second)) == []
    found = problems(state, received(state, second, first))
    assert found == ["the proposals are not in the order in which they were found"]
