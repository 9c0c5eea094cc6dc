"""Before the moment that plan and explain name, a job finds no victims; at that moment it does."""

import json
from itertools import accumulate
from operator import or_
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import example, given
from tests.kits.builders import HOUR, MINUTE, Sketch, requested_unit
from tests.kits.examples import examples
from tests.property.chosen_victims import SEEDS
from tests.property.victim_worlds import random_world, world_of_equals

from bailiff_core.explain import without_selection
from bailiff_core.explain.without_selection import Moment, WithoutSelection
from bailiff_core.model.policy import Action, Policy
from bailiff_core.model.state import Job
from bailiff_core.placement import StepBudget
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch, select_victims

ACTIONS: tuple[Action, ...] = ("preempt", "reclaim", "consolidate")


def protected_world(seed: int, action: Action) -> tuple[Sketch, Job]:
    """A small pool whose jobs are protected for times of their own."""
    random = Random(seed)
    sketch, preemptor = random.choice((random_world, world_of_equals))(random, action)
    state = sketch.state
    document = state.rules.model_dump(mode="json")
    document["protections"] = {
        "min_runtime": {name: random.choice(("90m", "3h")) for name in ACTIONS},
        "eviction_cap": random.choice((None, {"evictions": 1, "window": "5h"})),
        "cooldown": {"job": random.choice((0, "4h"))},
    }
    state.policy = Policy.model_validate_json(json.dumps(document))
    for job in state.jobs.values():
        if job.tasks and random.random() < 0.4:
            job.last_eviction = state.now - random.choice((30, 90, 240)) * MINUTE
            job.eviction_times.append(job.last_eviction)
    state.indices.snapshot = None
    return sketch, preemptor


def finds_victims(sketch: Sketch, preemptor: Job, action: Action, now: int) -> bool:
    state = sketch.state
    state.now, state.indices.snapshot = now, None
    answer = select_victims(SelectionBatch.on(current_snapshot(state)), requested_unit(preemptor), action, StepBudget(20_000))
    return answer.refused is None


def not_before(sketch: Sketch, preemptor: Job, action: Action, now: int) -> Moment:
    """However many moments are to be looked at: with more than `MOST_MOMENTS` the answer would be unknown."""
    sketch.state.now, sketch.state.indices.snapshot = now, None
    with patch.object(without_selection, "MOST_MOMENTS", 100):
        return WithoutSelection(sketch.state).not_before(preemptor, action)


def check(seed: int, action: Action) -> str:
    sketch, preemptor = protected_world(seed, action)
    now = sketch.state.now
    if finds_victims(sketch, preemptor, action, now):
        return "now"
    moment = not_before(sketch, preemptor, action, now)
    if moment == "never":
        assert not any(finds_victims(sketch, preemptor, action, now + later * HOUR // 2) for later in range(1, 12))
        return "never"
    assert moment != "unknown"
    assert finds_victims(sketch, preemptor, action, moment)
    assert not finds_victims(sketch, preemptor, action, moment - 1)
    return "found"


@pytest.mark.parametrize("action", ACTIONS)
@examples(150)
@given(seed=SEEDS)
@example(seed=6237)  # consolidate: five moments, none of which is enough
@example(seed=174_920_489)  # reclaim: only a job that moves beside the victims becomes free
def test_it_finds_no_victims_before_and_finds_some_then(action: Action, seed: int) -> None:
    check(seed, action)


def test_every_answer_occurs() -> None:
    for action in ("preempt", "reclaim"):
        seen = accumulate(({check(seed, action)} for seed in range(150)), or_)
        assert any(answers == {"never", "now", "found"} for answers in seen), action
