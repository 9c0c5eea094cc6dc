"""Victim selection against trying every set of victims, and what every answer keeps."""

import hashlib
import os
import subprocess
import sys
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import asking
from tests.property.small_pools import best_set, fits, may_go, random_pool
from tests.property.test_placement import never_overfills

from bailiff_core.model.answer import Answer
from bailiff_core.model.pool import OpenRequest
from bailiff_core.placement import Budget, GangPlace, from_shares
from bailiff_core.queue.order import shares_now
from bailiff_core.scene import scene_of
from bailiff_core.victims import Accepted, Batch, check_answer, select, select_batch

SEEDS = st.integers(0, 2**48)


def answer_for(seed: int, steps: int = 20_000, shuffled: int | None = None) -> Answer:
    sketch, asker = random_pool(Random(seed), shuffled)
    return select(Batch.on(scene_of(sketch.pool)), asking(asker), "preempt", Budget(steps))


def check(seed: int, steps: int) -> Answer:
    sketch, asker = random_pool(Random(seed))
    pool = sketch.pool
    scene = scene_of(pool)
    answer = select(Batch.on(scene), asking(asker), "preempt", Budget(steps))
    best = best_set(pool, asker)
    if answer.refused is not None:
        assert answer.would_need
        assert not answer.victims
        if answer.refused == "impossible":
            assert best is None
        return answer
    victims = [pool.jobs[choice.job] for choice in answer.victims]
    names = frozenset(job.id for job in victims)
    assert all(may_go(asker, job) for job in victims)
    place = GangPlace(tuple(from_shares(asker, answer.placement)), later=True)
    assert best is not None
    if victims:
        never_overfills(pool, asker, place, names)
    for job in victims:
        assert not fits(pool, asker, names - {job.id}), f"{job.id} need not go"
    if answer.explanation.proven or not victims:
        assert sorted(names) == sorted(job.id for job in best)
    assert all(name not in answer.explanation.runner_up or len(names) > 1 or name not in names for name in names)
    if answer.explanation.runner_up:
        second = frozenset(answer.explanation.runner_up)
        assert second != names
        assert fits(pool, asker, second)
    checked = check_answer(scene, shares_now(scene), asker, answer)
    assert isinstance(checked, Accepted)
    assert checked.victims == answer.victims
    assert not checked.dropped
    return answer


@settings(max_examples=1500, deadline=None)
@given(seed=SEEDS)
def test_the_set_is_allowed_irreducible_and_the_best(seed: int) -> None:
    answer = check(seed, 20_000)
    assert answer.explanation.proven or not answer.victims or answer.refused == "gave-up"


@settings(max_examples=200, deadline=None)
@given(seed=SEEDS, steps=st.integers(1, 60))
def test_a_small_budget_may_cost_the_proof_but_nothing_else(seed: int, steps: int) -> None:
    check(seed, steps)


@settings(max_examples=200, deadline=None)
@given(seed=SEEDS, shuffled=st.integers(0, 100))
def test_the_order_of_dicts_does_not_matter(seed: int, shuffled: int) -> None:
    assert answer_for(seed) == answer_for(seed, shuffled=shuffled)


@settings(max_examples=200, deadline=None)
@given(seed=SEEDS)
def test_answers_of_a_batch_hold_one_after_the_other(seed: int) -> None:
    random = Random(seed)
    sketch, first = random_pool(random)
    pool = sketch.pool
    second = sketch.job("second", *first.demand.tasks, priority=75)
    answers = select_batch(pool, [OpenRequest(1, first.id), OpenRequest(2, second.id)], 20_000)
    assert [answer.request for answer in answers] == [1, 2]
    gone: list[str] = []
    taken: dict[int, int] = {}
    for asker, answer in zip((first, second), answers, strict=True):
        names = [choice.job for choice in answer.victims]
        assert not [name for name in names if name in gone]
        gone += names
        for task in from_shares(asker, answer.placement) if answer.refused is None else ():
            assert not taken.get(task.node, 0) & task.devices
            taken[task.node] = taken.get(task.node, 0) | task.devices


@settings(max_examples=400, deadline=None)
@given(seed=SEEDS)
def test_the_general_search_finds_what_the_search_by_parts_finds(seed: int) -> None:
    by_parts = answer_for(seed)
    with patch("bailiff_core.victims.search.Search._relaxed", lambda _: None):
        by_tree = answer_for(seed)
    assert by_tree.victims == by_parts.victims
    assert by_tree.explanation.proven == by_parts.explanation.proven


def digest_of_many() -> str:
    seen = hashlib.sha256()
    for seed in range(60):
        seen.update(repr(answer_for(seed)).encode())
    return seen.hexdigest()


def test_the_hash_seed_does_not_matter() -> None:
    program = "from tests.property.test_victims import digest_of_many; print(digest_of_many())"
    found = []
    for hash_seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
        found.append(done.stdout)
    assert found[0] == found[1]


@pytest.mark.long
@settings(max_examples=15_000, deadline=None)
@given(seed=SEEDS)
def test_the_set_is_allowed_irreducible_and_the_best_at_length(seed: int) -> None:
    check(seed, 20_000)
