"""What Bailiff says of a job that finds no victims is true: a rule is named, and what is said to help does help."""

import re
from dataclasses import replace
from itertools import accumulate
from operator import or_
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.builders import HOUR, MINUTE, requested_unit
from tests.kits.examples import examples
from tests.property.contended_pools import contended_pool
from tests.property.refused_pools import Document, refused_pool
from tests.property.small_limits import small_limits
from tests.property.victim_worlds import random_world, world_of_moves

from bailiff_core.model.indices import Indices
from bailiff_core.model.policy import Action
from bailiff_core.model.state import OpenRequest, PoolState
from bailiff_core.model.units import next_unit
from bailiff_core.placement import StepBudget
from bailiff_core.plan import Planning, Round, read_snapshot
from bailiff_core.records.wire import time_value
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch, select_batch, select_victims

SEEDS = st.integers(0, 2**32 - 1)
ACTIONS: tuple[Action, ...] = ("preempt", "reclaim", "consolidate")


@pytest.mark.parametrize("limited", [False, True], ids=["as is", "small limits"])
@examples(600)
@given(seed=SEEDS)
def test_a_search_gives_up_only_when_its_budget_is_used(limited: bool, seed: int) -> None:
    gives_up_only_when_its_budget_is_used(Random(seed), limited=limited)


def gives_up_only_when_its_budget_is_used(random: Random, *, limited: bool) -> None:
    if random.random() < 0.5:
        sketch, (preemptor, *_) = contended_pool(random)
    else:
        sketch, preemptor = random.choice((random_world, world_of_moves))(random, random.choice(ACTIONS))
    steps = random.choice((2_000, random.randint(1, 300)))
    with small_limits(random, 50 if limited else 0):
        for action in ACTIONS:
            batch = SelectionBatch.on(current_snapshot(sketch.state))
            answer = select_victims(batch, requested_unit(preemptor), action, StepBudget(steps))
            assert answer.refused != "gave-up" or answer.explanation.steps >= steps, answer
        (together,) = select_batch(sketch.state, [OpenRequest(1, preemptor.id)], steps)
        explanation = together.explanation
        if together.refused == "gave-up":  # as its own search did, not one of another action
            assert explanation.steps >= steps
            assert not explanation.proven


def planned(document: Document) -> tuple[Planning, Round]:
    planning = Planning(read_snapshot(document))
    return planning, planning.round()


@examples(100)
@given(seed=SEEDS)
def test_who_finds_no_victims_is_told_by_which_rule(seed: int) -> None:
    whoever_finds_no_victims_is_told_why(refused_pool(Random(seed)))


def whoever_finds_no_victims_is_told_why(document: Document) -> None:
    _, found = planned(document)
    for line in found.pending:
        assert not line.gave_up
        for attempt in line.attempted_actions:
            assert attempt.would_need or (attempt.excluded and not attempt.candidates), (line.job, attempt)
            assert "no permitted set of victims suffices" not in attempt.would_need


@examples(100)
@given(seed=SEEDS)
def test_a_stated_time_is_when_the_job_finds_victims(seed: int) -> None:
    a_stated_time_is_true(refused_pool(Random(seed), protected=True))


def a_stated_time_is_true(document: Document) -> set[str]:
    planning, found = planned(document)
    seen: set[str] = set()
    for line in found.pending:
        for action, time in line.not_before.items():
            if time is None:
                assert action not in line.protected_until
                assert not any(finds_victims(planning.state, line.job, action, moment) for moment in ends(planning.state))
                seen.add("never")
            else:
                moment = time_value(time)
                assert finds_victims(planning.state, line.job, action, moment), (line.job, action, time)
                assert not finds_victims(planning.state, line.job, action, moment - 1), (line.job, action, time)
                seen.add("time")
    return seen


def finds_victims(state: PoolState, job: str, action: Action, now: int) -> bool:
    """Whether victim selection finds some at that time, if nothing else changes."""
    later = replace(state, now=now, indices=Indices())
    unit = next_unit(state.jobs[job])
    assert unit is not None
    return select_victims(SelectionBatch.on(current_snapshot(later)), unit, action, StepBudget(20_000)).refused is None


def ends(state: PoolState) -> list[int]:
    """Moments from now on, at which whatever protects a job may have ended."""
    of_jobs = [moment for job in state.active_jobs() for moment in (job.last_start, *job.eviction_times) if moment is not None]
    periods = [minutes * MINUTE for minutes in (10, 20, 30, 60, 24 * 60)]
    return sorted({state.now + HOUR, *(moment + each for moment in of_jobs for each in periods if moment + each > state.now)})


@examples(100)
@given(seed=SEEDS)
def test_undrain_is_said_where_it_gives_a_place_and_nowhere_else(seed: int) -> None:
    undrain_is_true(refused_pool(Random(seed), waiting=1, drained=50))


def undrain_is_true(document: Document) -> str:
    _, found = planned(document)
    line = next((line for line in found.pending if line.job == "w0"), None)
    if line is None:
        return "placed"
    named = re.findall(r"bailiff undrain (n\d)", line.reason)
    for node in document["nodes"] if not named else [node for node in document["nodes"] if node["name"] in named]:
        node["drained"] = False
    _, undrained = planned(document)
    helps = all(each.job != "w0" for each in undrained.pending)
    assert helps == bool(named), (line.reason, [each.reason for each in undrained.pending])
    return "named" if named else "does not help"


@pytest.mark.parametrize("seed", range(3))
def test_every_answer_occurs(seed: int) -> None:
    random = Random(seed)
    answers = accumulate(({undrain_is_true(refused_pool(random, waiting=1, drained=50))} for _ in range(40)), or_)
    assert any(seen == {"placed", "named", "does not help"} for seen in answers)
    times = accumulate((a_stated_time_is_true(refused_pool(random, protected=True)) for _ in range(60)), or_)
    assert any(seen >= {"time", "never"} for seen in times)


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_all_of_it_holds_in_many_more_pools(part: int) -> None:
    random = Random(part)
    for _ in range(300):
        whoever_finds_no_victims_is_told_why(refused_pool(random))
        a_stated_time_is_true(refused_pool(random, protected=True))
        undrain_is_true(refused_pool(random, waiting=1, drained=50))
        gives_up_only_when_its_budget_is_used(random, limited=random.random() < 0.5)
