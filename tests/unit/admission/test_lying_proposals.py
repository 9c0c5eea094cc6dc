"""What a hostile victim selection may send.

It is refused with the reason, or accepted with admission's own figures and found by replay.
"""

import json

import pytest
from tests.kits.log_builder import MINUTE, Story, policy, replayed

from bailiff_admission.request_handlers.proposals import facts_of_proposal
from bailiff_bus.messages.proposals import ProposalBatch
from bailiff_core.admission.rejected import Rejected
from bailiff_core.engine import LOGIC
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.proposal import AttemptedAction, Cost, Excluded, Proposal

RULES = policy(preemption={"selection_timeout": "1h"})


@pytest.fixture
def asked():
    """A full node of 3 GPUs: `a` and `b` may be evicted, `fixed` may not. `serve` needs one GPU and requests preemption."""
    story = Story(RULES)
    story.node("n1", gpus=3)
    story.runs("fixed", gpus=1, cls="inference")
    story.runs("a", gpus=1, cls="train", after=MINUTE)
    story.runs("b", gpus=1, cls="train", after=MINUTE)
    story.submit("serve", gpus=1, cls="inference", after=MINUTE)
    story.expect("PreemptionRequested", job="serve")
    (honest,) = story.proposal().proposals
    assert [choice.job for choice in honest.victims] == ["b"]
    assert honest.explanation.proven
    return story, honest


def batch(story: Story, *proposals: Proposal, **changes: int) -> ProposalBatch:
    assert story.state.selection is not None
    about = {"selection": story.state.selection.number, "computed_at": story.state.seq, "logic": LOGIC, **changes}
    return ProposalBatch(**about, proposals=proposals)


def sent(story: Story, lie: Proposal) -> Rejected | None:
    """The lie is sent; None: admission took it into the log and decided."""
    found = facts_of_proposal(story.state, batch(story, lie))
    if isinstance(found, Rejected):
        return found
    story.cycle(*found)
    return None


def explained(honest: Proposal, **changes: object) -> Proposal:
    return honest.model_copy(update={"explanation": honest.explanation.model_copy(update=changes)})


def found_by_replay(story: Story) -> list[str]:
    replay = replayed(story.wires)
    assert replay.difference is None
    assert (replay.proposals, replay.not_reproduced) == (1, 1)
    return [field for each in replay.proposal_differences for field in each.differing]


# --- what no search sends is rejected


def many(honest: Proposal) -> Proposal:
    share = NodeShare(node=0, tasks="0-99999")
    return honest.model_copy(update={"victims": (honest.victims[0].model_copy(update={"moved_to": (share,) * 4000}),)})


IMPOSSIBLE_LIES = {
    "a victim that is the preemptor": lambda honest: honest.model_copy(
        update={"victims": (honest.victims[0].model_copy(update={"job": "serve"}),)}
    ),
    "a victim twice": lambda honest: honest.model_copy(update={"victims": honest.victims * 2}),
    "a refusal with victims": lambda honest: honest.model_copy(update={"refused": "impossible"}),
    "no place": lambda honest: honest.model_copy(update={"placement": ()}),
    "allocate with victims": lambda honest: honest.model_copy(update={"action": "allocate"}),
    "another job": lambda honest: honest.model_copy(update={"job": "a"}),
    "a request of nobody": lambda honest: honest.model_copy(update={"request": honest.request - 1}),
    "a cost that is not the sum": lambda honest: explained(
        honest, cost=honest.explanation.cost.model_copy(update={"lost_gpu_ms": 1})
    ),
    "a victim cheaper than its sum": lambda honest: honest.model_copy(
        update={"victims": (honest.victims[0].model_copy(update={"lost_gpu_ms": 1}),)}
    ),
    "CPUs that no victim has": lambda honest: explained(honest, cost=honest.explanation.cost.model_copy(update={"cpu_milli": 1})),
    "proven without a cost": lambda honest: explained(honest, cost=None),
    "proven with a lower bound": lambda honest: explained(honest, lower_bound=Cost()),
    "an invented rule": lambda honest: explained(honest, excluded=(Excluded(rule="because", jobs=1),)),
    "a rule twice": lambda honest: explained(honest, excluded=(Excluded(rule="excluded", jobs=1),) * 2),
    "more examples than jobs": lambda honest: explained(
        honest, excluded=(Excluded(rule="excluded", jobs=1, examples=("a", "b")),)
    ),
    "an action tried twice": lambda honest: explained(
        honest, attempted_actions=(AttemptedAction(action="preempt", refused="impossible"),)
    ),
    "millions of tasks in few bytes": many,
    "ranges that are none": lambda honest: honest.model_copy(update={"placement": (NodeShare(node=0, tasks="5-1"),)}),
}


@pytest.mark.parametrize("lie", IMPOSSIBLE_LIES.values(), ids=IMPOSSIBLE_LIES)
def test_what_no_search_sends_is_rejected(asked, lie):
    story, honest = asked
    found = sent(story, lie(honest))
    assert found is not None
    assert found.code == "invalid-proposal"
    assert story.state.selection is not None  # the selection waits for another answer


def test_an_unfinished_search_proves_no_impossibility(asked):
    story, honest = asked
    lie = explained(Proposal(request=honest.request, job="serve", refused="impossible"), candidates=2, steps=20_000)
    found = sent(story, lie)
    assert found is not None
    assert "the search was not finished" in found.reason


def test_more_proposals_than_requests_and_answers_twice(asked):
    story, honest = asked
    hostile = [batch(story, *[honest] * 65), batch(story, honest, honest), batch(story, honest, computed_at=honest.request - 1)]
    found = [facts_of_proposal(story.state, each) for each in hostile]
    assert [each.code for each in found if isinstance(each, Rejected)] == ["invalid-proposal"] * 3
    assert "at most 64 requests" in found[0].reason
    assert "is answered twice" in found[1].reason
    assert "was opened at" in found[2].reason


def test_the_largest_message_is_checked_without_expanding_it(asked):
    story, honest = asked
    assert len(json.dumps(many(honest).to_data())) < 256 * 1024
    found = sent(story, many(honest))
    assert found is not None
    assert "the limit is 1000000" in found.reason


# --- what the state contradicts is refused on record


def instead(honest: Proposal, job: str, device: str, **changes: object) -> Proposal:
    """`job` is evicted instead, and its GPU is taken."""
    victim = honest.victims[0].model_copy(update={"job": job, **changes})
    return honest.model_copy(update={"victims": (victim,), "placement": (NodeShare(node=0, tasks="0", devices=device),)})


def test_a_protected_victim_is_refused_by_the_name_of_its_rule(asked):
    story, honest = asked
    assert sent(story, instead(honest, "fixed", "0")) is None
    refused = story.expect("PreemptionRefused", reason="stale")
    assert "'fixed' is now protected by rule" in refused.would_need
    assert story.job("fixed").phase == "running"
    assert found_by_replay(story)


@pytest.mark.parametrize("devices", ["0", "2,3", "63"])
def test_a_place_that_is_not_free_once_the_victims_have_left_is_refused(asked, devices):
    story, honest = asked
    lie = honest.model_copy(update={"placement": (NodeShare(node=0, tasks="0", devices=devices),)})
    assert sent(story, lie) is None
    story.expect("PreemptionRefused", reason="stale")
    assert story.job("b").phase == "running"
    assert found_by_replay(story) == ["placement"]


def test_an_action_that_the_policy_does_not_permit_is_refused(asked):
    story, honest = asked
    assert sent(story, honest.model_copy(update={"action": "reclaim"})) is None
    story.expect("PreemptionRefused", reason="stale")
    assert found_by_replay(story) == ["action"]


# --- what only another search shows is accepted with admission's own figures, and found


def test_an_expensive_victim_called_proven_is_found(asked):
    story, honest = asked
    assert sent(story, instead(honest, "a", "1")) is None
    decided = story.expect("PreemptionDecided")
    (victim,) = decided.victims
    assert victim.job == "a"
    assert victim.lost_gpu_ms > honest.victims[0].lost_gpu_ms  # recomputed: the proposal had the price of `b`
    assert found_by_replay(story) == ["victims", "placement"]


def test_false_figures_of_a_victim_are_replaced_and_found(asked):
    story, honest = asked
    false = {"priority": 1, "gpus": 7, "class_name": "none", "project": "theirs", "backfilled": True}
    lie = honest.model_copy(update={"victims": (honest.victims[0].model_copy(update=false),)})
    assert sent(story, lie) is None
    (victim,) = story.expect("PreemptionDecided").victims
    true = honest.victims[0]
    assert {name: getattr(victim, name) for name in false} == {name: getattr(true, name) for name in false}
    assert found_by_replay(story) == ["victims"]


@pytest.mark.parametrize(
    "changes",
    [
        {"proven": False},
        {"candidates": 9},
        {"runner_up": ("fixed",)},
        {"runner_up_lost_gpu_ms": 1},
        {"steps": 1_000_000},
        {"excluded": (Excluded(rule="excluded", jobs=40),)},
    ],
)
def test_a_false_explanation_is_found(asked, changes):
    story, honest = asked
    assert sent(story, explained(honest, **changes)) is None
    assert found_by_replay(story) == [f"explanation.{name}" for name in changes]


def test_a_false_refusal_is_found(asked):
    story, honest = asked
    assert sent(story, Proposal(request=honest.request, job="serve", refused="impossible", would_need="more")) is None
    story.expect("PreemptionRefused", reason="impossible")
    assert "refused" in found_by_replay(story)


def test_a_request_without_an_answer_is_found(asked):
    story, _ = asked
    story.cycle(*facts_of_proposal(story.state, batch(story)))
    story.expect("PreemptionRefused", reason="stale")
    replay = replayed(story.wires)
    (difference,) = replay.proposal_differences
    assert (difference.proposed, difference.computed is None) == (None, False)


def test_a_state_within_the_decisions_of_a_cycle_is_no_excuse():
    story = Story(RULES)
    story.node("n1", gpus=2)
    story.runs("a", gpus=2, cls="train")
    story.cycle(story.submitted("one", gpus=1, cls="inference"), story.submitted("two", gpus=1, cls="inference"), after=MINUTE)
    first, second = story.state.selection.requests
    assert first.seq < second.seq  # nobody searches between the two: the cycle continues
    lie = batch(story, *[each for each in story.proposal().proposals if each.request == first.seq], computed_at=first.seq)
    story.cycle(*facts_of_proposal(story.state, lie))
    replay = replayed(story.wires)
    assert [each.problem for each in replay.proposal_differences] == [
        f"#{first.seq} is within the decisions of a cycle, where nothing is searched"
    ]
