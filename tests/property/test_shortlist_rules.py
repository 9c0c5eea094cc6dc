"""Where rules distinguish jobs, counting them by class and searching few nodes gives the result of looking at all of them."""

from collections import Counter
from random import Random
from unittest.mock import patch

import pytest
from tests.kits.builders import HOUR, MINUTE, Sketch
from tests.kits.examples import share
from tests.property.contended_pools import contended_pool
from tests.property.full_pools import as_on_large_pools, some_pool

from bailiff_core.model.policy import Policy
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Job, OpenRequest
from bailiff_core.model.units import evictable_units
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import shortlist
from bailiff_core.victims.batch import PREEMPTING_ACTIONS, select_batch
from bailiff_core.victims.candidates import CandidateIndex
from bailiff_core.victims.proposals import excluded_jobs
from bailiff_core.victims.search import GeneralSearch

STEPS = 20_000


def world(seed: int) -> tuple[Sketch, list[Job]]:
    """A full pool, in which many jobs are backfilled, restarted, evicted often or labelled, and most rules are in force."""
    dice = Random(seed)
    if dice.random() < 0.5:
        sketch, preemptors = contended_pool(dice)
    else:
        sketch, requests = some_pool(seed)
        preemptors = [sketch.state.jobs[request.job] for request in requests]
    state, of = sketch.state, dice.choice
    for job in state.active_jobs():
        job.backfilled = dice.random() < 0.3
        if job.backfilled:
            state.backfilled[job.id] = None
        if dice.random() < 0.3:
            job.last_eviction = state.now - of((MINUTE, HOUR, 2 * HOUR))
            job.eviction_times = [job.last_eviction - MINUTE, job.last_eviction][: of((1, 2))]
    for preemptor in preemptors:
        preemptor.may_preempt = dice.random() < 0.8
        if dice.random() < 0.2 and state.active:
            state.displaced_by[preemptor.id] = dict.fromkeys(dice.sample(list(state.active), 1), preemptor.seq + 1)
    stated = state.rules.model_dump(mode="json")
    protections = {
        "min_runtime": {"preempt": of(("0s", "0s", "0s", "2m")), "reclaim": of(("0s", "0s", "10m"))},
        "cooldown": {"job": of(("0s", "0s", "0s", "30m"))},
        "eviction_cap": of((None, None, None, {"evictions": 1, "window": "90m"}, {"evictions": 2, "window": "3h"})),
        "excluded": of(([], [], [], [{"team": "x"}])),
    }
    state.policy = Policy.model_validate({**stated, "protections": {**stated["protections"], **protections}}, strict=False)
    state.indices.snapshot = None
    return sketch, preemptors


@pytest.mark.parametrize("block", range(4))
def test_counts_by_class_are_those_of_all_jobs(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block * 200, block * 200 + share(200)):
        sketch, preemptors = world(seed)
        index = CandidateIndex(current_snapshot(sketch.state))
        dice = Random(seed)
        for job in dice.sample(sketch.state.active_jobs(), min(3, len(sketch.state.active))):
            if job.phase == "running" and dice.random() < 0.5:
                index.mark_evicted(job, dice.choice((0, 1)) if len(evictable_units(job)) > 1 else 0)
        for preemptor in preemptors:
            for action in ("preempt", "reclaim"):
                groups, every = index.groups(action, preemptor), index.candidates(action, preemptor)
                assert groups.candidates == every.count, f"seed {seed}, {action}"
                few = index.candidates_among(action, preemptor, (), groups, {})
                assert list(excluded_jobs(few)) == list(excluded_jobs(every)), f"seed {seed}, {action}"
                assert not any(name in every.chains for name in groups.barred), f"seed {seed}"
                assert all(name in every.chains for name in groups.exempt), f"seed {seed}"
                seen.update(groups.excluded)
                seen["exempt"] += len(groups.exempt)
    expected = ("exempt", "min-runtime", "cooldown", "eviction-cap", "excluded", "quota-shields", "no-counter-reclaim", "budget")
    assert all(seen[rule] for rule in (*expected, "backfilled-only")), seen


def decided(answer: Proposal) -> tuple[object, ...]:
    """What does not depend on the way of the search."""
    why = answer.explanation
    excluded = {entry.rule: entry for entry in why.excluded}
    return answer.refused, answer.action, answer.victims, answer.placement, why.cost, why.proven, why.candidates, excluded


def test_few_nodes_give_the_result_of_all() -> None:
    """Compared where both are proven: the other search may run into its limits."""
    seen: Counter[str] = Counter()
    for seed in range(share(1_000)):
        for action in PREEMPTING_ACTIONS[1:]:
            sketch, preemptors = world(seed)
            state = sketch.state
            actions = {"actions": ["allocate", action]}
            state.policy = state.rules.model_copy(update={"preemption": state.rules.preemption.model_copy(update=actions)})
            requests = [OpenRequest(number, job.id) for number, job in enumerate(preemptors[:1])]
            with as_on_large_pools(), patch.object(GeneralSearch, "__init__", side_effect=AssertionError("all nodes")):
                try:
                    few = select_batch(state, requests, STEPS)
                except AssertionError:
                    seen[f"{action}: all nodes"] += 1
                    continue
            with patch.object(shortlist, "MIN_ACTIVE_JOBS", 1 << 30):
                every = select_batch(state, requests, STEPS)
            for one, other in zip(few, every, strict=True):
                if one.explanation.proven and other.explanation.proven:
                    assert decided(one) == decided(other), f"seed {seed}, {action}"
                    seen[f"{action}: {one.refused or 'victims'}"] += 1
    assert all(seen[f"{action}: {what}"] for action in ("reclaim", "preempt") for what in ("victims", "impossible")), seen
