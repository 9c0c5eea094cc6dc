"""What a batch of several requests calls proven: no other victims cost less in the pool as the earlier answers left it.

The test carries out the earlier answers itself: victims are gone, moved victims and preemptors have their places and are left
alone. Then all sets are tried.
"""

from collections import Counter
from copy import deepcopy
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from tests.kits.examples import examples, share
from tests.property.batches import WORLDS, requests
from tests.property.chosen_victims import SEEDS, chosen
from tests.property.victim_worlds import allowed, best_choice, best_moves, best_with_moves, frees_enough, within_limits

from bailiff_core.model.placement_ranges import numbers
from bailiff_core.model.policy import Action
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Job, OpenRequest, PoolState, Task
from bailiff_core.model.units import Unit
from bailiff_core.placement import StepBudget, decode_placement
from bailiff_core.quota.quota_checks import Shares
from bailiff_core.victims import SelectionBatch, batch, select_batch


class Pool:
    """The pool after the answers so far."""

    def __init__(self, state: PoolState, seen: Counter[str]) -> None:
        self.state = deepcopy(state)
        self.settled: list[str] = []
        self.seen = seen

    def check(self, preemptor: Job, action: Action, answer: Proposal, shares: Shares) -> None:
        """An answer for one unit under one action, against every set."""
        state = self.state
        if action == "consolidate":
            may = preemptor.preemptible and within_limits(state, preemptor, {})
            best = best_moves(state, shares, preemptor, (), self.settled) if may else None
        else:
            best = best_choice(state, shares, preemptor, action, self.settled)
        if answer.refused == "impossible":
            assert not best, f"{best} would do for {preemptor.id}"
        if answer.refused is not None:
            return
        choice = chosen(state, answer)
        if not choice:
            assert frees_enough(state, preemptor, {})
            return
        assert not set(choice) & set(self.settled)
        if not answer.explanation.proven:
            return
        if action == "reclaim" and not allowed(state, shares, preemptor, action, choice):
            assert best is None, f"{best} needs no moves"
            best = best_with_moves(state, shares, preemptor, self.settled)
        assert choice == best, f"{preemptor.id}, {action}, after {self.settled}"
        self.seen[action, bool(self.settled)] += 1

    def enact(self, unit: Unit, answer: Proposal) -> None:
        """Carry out the answer."""
        for victim in answer.victims:
            job = self.state.jobs[victim.job]
            moved = decode_placement(job, victim.moved_to, victim.relocated_tasks) if victim.moved_to else []
            gone = numbers(victim.tasks) if victim.tasks else [task.index for task in job.tasks]
            job.tasks = [task for task in job.tasks if task.index not in gone]
            job.tasks += [Task(place.index, place.node, place.devices, "reserved") for place in moved]
            job.tasks.sort(key=lambda task: task.index)
            self.settled += [job.id] if moved else []
            if not job.tasks:
                job.phase = "evicting"
        job = self.state.jobs[unit.job.id]
        places = decode_placement(job, answer.placement, unit.indices)
        job.tasks = [Task(place.index, place.node, place.devices, "reserved") for place in places]
        job.phase = "reserved"
        self.settled.append(job.id)


def check_batch(seed: int, world: int, seen: Counter[Any]) -> None:
    random = Random(seed)
    sketch, first = WORLDS[world](random, random.choice(("preempt", "reclaim", "consolidate")))
    jobs = requests(random, sketch, first)
    pool = Pool(sketch.state, seen)
    select = batch.select_victims

    def watched(of: SelectionBatch, unit: Unit, action: Action, budget: StepBudget, *, request: int) -> Proposal:
        answer = select(of, unit, action, budget, request=request)
        pool.check(pool.state.jobs[unit.job.id], action, answer, of.shares)
        if answer.refused is None:
            pool.enact(unit, answer)
        return answer

    with patch.object(batch, "select_victims", watched):
        select_batch(sketch.state, [OpenRequest(at, job.id) for at, job in enumerate(jobs, 1)], 20_000)


@pytest.mark.parametrize("world", range(len(WORLDS)))
@examples(50)
@given(seed=SEEDS)
def test_what_is_proven_in_a_batch_is_the_best_after_the_earlier_answers(world: int, seed: int) -> None:
    check_batch(seed, world, Counter())


@pytest.mark.long
@pytest.mark.parametrize("world", range(len(WORLDS)))
@settings(max_examples=5_000, deadline=None)
@given(seed=SEEDS)
def test_what_is_proven_in_a_batch_is_the_best_after_the_earlier_answers_at_length(world: int, seed: int) -> None:
    check_batch(seed, world, Counter())


@pytest.mark.parametrize(
    ("seed", "world"),
    [
        (87534923, 0),
        (1000989, 0),  # a core was moved only so that the surplus had a place
    ],
)
def test_batches_in_which_another_set_was_chosen_once(seed: int, world: int) -> None:
    check_batch(seed, world, Counter())


def test_every_action_is_proven_after_earlier_answers() -> None:
    seen: Counter[tuple[Action, bool]] = Counter()
    for seed in range(share(60)):
        check_batch(seed, seed % len(WORLDS), seen)
    assert all(seen[action, True] for action in ("consolidate", "reclaim", "preempt")), seen
