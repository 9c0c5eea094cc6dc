"""Nobody is moved who fails a gate of moves, under no action.

A move is an eviction. A victim that the action may take may be moved instead, which is better for it; every other one must pass
what consolidate asks. It holds for what victim selection proposes, and for what admission accepts of a selection that does not
know the gates.
"""

from collections.abc import Callable
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given, settings
from tests.kits.builders import Sketch, requested_unit
from tests.kits.examples import examples
from tests.property.chosen_victims import SEEDS, chosen, units_moved
from tests.property.victim_worlds import allowed, moves_allowed, random_world, world_of_equals, world_of_moves

from bailiff_core.model.policy import Action, Policy
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Job
from bailiff_core.placement import StepBudget
from bailiff_core.queue.order import shares_now
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import Accepted, SelectionBatch, revalidate_proposal, select_victims

ACTIONS: tuple[Action, ...] = ("preempt", "reclaim", "consolidate")
WORLDS: tuple[Callable[[Random, str], tuple[Sketch, Job]], ...] = (random_world, world_of_equals, world_of_moves)


def everyone_moved_may_move(sketch: Sketch, preemptor: Job, action: Action, answer: Proposal) -> int:
    """Returns how many jobs move that may not be taken."""
    state = sketch.state
    shares = shares_now(current_snapshot(state))
    choice = chosen(state, answer)
    moved = {name: count for name in choice if (count := len(units_moved(state, answer, name)))}
    if not moved or (action != "consolidate" and allowed(state, shares, preemptor, action, choice)):
        return 0
    assert action != "preempt", f"{choice} may not be preempted"
    assert moves_allowed(state, shares, preemptor, choice, moved), f"{moved} of {choice}"
    return len(moved)


def permissive(policy: Policy) -> Policy:
    """The policy without any bound of moves, but that of quotas, which no policy can lift."""
    rules = {"max_migrations": None, "move_higher_priority": True, "payback": None}
    return policy.model_copy(update={"preemption": policy.preemption.model_copy(update=rules)})


def check(seed: int, action: Action) -> tuple[int, int, int]:
    """Returns how many jobs move that may not be taken, and how many ill-judged answers admission accepts and refuses."""
    proposed = accepted = refused = 0
    for world in WORLDS:
        sketch, preemptor = world(Random(seed), action)
        unit = requested_unit(preemptor)
        answer = select_victims(SelectionBatch.on(current_snapshot(sketch.state)), unit, action, StepBudget(20_000))
        if answer.action == action:
            proposed += everyone_moved_may_move(sketch, preemptor, action, answer)
        strict = sketch.state.policy
        sketch.state.policy = permissive(strict)
        answer = select_victims(SelectionBatch.on(current_snapshot(sketch.state)), unit, action, StepBudget(20_000))
        sketch.state.policy = strict
        if answer.action != action or not any(victim.moved_to for victim in answer.victims):
            continue
        snapshot = current_snapshot(sketch.state)
        found = revalidate_proposal(snapshot, shares_now(snapshot), preemptor, answer)
        if isinstance(found, Accepted):
            everyone_moved_may_move(sketch, preemptor, action, answer.model_copy(update={"victims": found.victims}))
        accepted, refused = accepted + isinstance(found, Accepted), refused + (not isinstance(found, Accepted))
    return proposed, accepted, refused


@pytest.mark.parametrize("action", ACTIONS)
@examples(120)
@given(seed=SEEDS)
def test_nobody_is_moved_who_fails_a_gate_of_moves(action: Action, seed: int) -> None:
    check(seed, action)


def test_some_are_moved_and_some_are_not() -> None:
    for action in ("reclaim", "consolidate"):
        found = (check(seed, action) for seed in range(80))
        totals = accumulate(found, lambda sums, more: (sums[0] + more[0], sums[1] + more[1], sums[2] + more[2]))
        assert any(min(sums) > 1 for sums in totals), action


@pytest.mark.long
@pytest.mark.parametrize("action", ACTIONS)
@settings(max_examples=10_000, deadline=None)
@given(seed=SEEDS)
def test_nobody_is_moved_who_fails_a_gate_of_moves_at_length(action: Action, seed: int) -> None:
    check(seed, action)
