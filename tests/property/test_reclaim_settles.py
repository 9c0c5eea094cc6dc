"""Jobs of random projects on one big node, with only the order and the quota checks of reclaim: it converges.

Each set of victims that is tried is also judged by the reference of victim_worlds.py, so that a check that admits too much, or
too little, is noticed even where the jobs come to rest all the same.
"""

from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.builders import group
from tests.kits.examples import examples
from tests.kits.pools import Town, Trials, whole
from tests.property.random_projects import random_projects
from tests.property.victim_worlds import may_reclaim as reference_may_reclaim
from tests.property.victim_worlds import within_limits

from bailiff_core.model.resource_vector import ResourceVector
from bailiff_core.model.state import Job, Task
from bailiff_core.model.units import Unit
from bailiff_core.queue.order import Pass
from bailiff_core.quota.quota_checks import Shares, may_reclaim, over_limit
from bailiff_core.quota.reclaim import Reclaim
from bailiff_core.quota.usage import Usage

MOST_ROUNDS = 40


def starts(town: Town, job: Job) -> None:
    job.phase, job.tasks = "running", [Task(0, 0, 0, "running")]
    town.state.indices.changed_jobs[job.id] = None


def goes(town: Town, job: Job) -> None:
    job.phase, job.tasks = "pending", []
    town.state.indices.changed_jobs[job.id] = None


def jobs(town: Town, phase: str) -> list[Job]:
    return [job for job in town.state.jobs.values() if job.phase == phase]


def idle(town: Town, gpus: int) -> int:
    return gpus - sum(job.gpus for job in jobs(town, "running"))


def only_leaves(town: Town) -> bool:
    """Whether no project has both jobs and children: such jobs form a project of their own that the reference does not model."""
    parents = [entry.parent for entry in town.state.rules.projects]
    return not any(job.project in parents for job in town.state.jobs.values())


def victims_for(town: Town, snapshot: Trials, shares: Shares, unit: Unit, lacks: int) -> list[Job] | None:
    """The first jobs from which the unit may reclaim enough GPUs, without unnecessary ones."""
    allowed = over_limit(snapshot, unit) is None and may_reclaim(snapshot, shares, unit, snapshot.usage.smallest) is None
    test = Reclaim(snapshot, shares, unit)
    for count in range(1, lacks + 1):
        for chosen in combinations(jobs(town, "running"), count):
            sizes = [job.gpus for job in chosen]
            units = [whole(job) for job in chosen]
            if sum(sizes) - min(sizes) < lacks <= sum(sizes):
                admitted = allowed and test.admits(units) and test.imbalance(units) is None
                choice = {job.id: 1 for job in chosen}
                if only_leaves(town):
                    by_reference = within_limits(town.state, unit.job, {}) and reference_may_reclaim(
                        town.state, shares, unit.job, choice
                    )
                    assert admitted == by_reference, f"{unit.job.id} and {sorted(choice)}"
                if admitted:
                    return list(chosen)
    return None


def one_round(town: Town, usage: Usage, gpus: int) -> int:
    """Allocate, then reclaim, for all pending jobs; the number of evicted jobs."""
    evicted = 0
    for may_evict in (False, True):
        usage.refresh(town.state, town.state.indices.changed_jobs)
        snapshot = Trials(town.state, usage)
        order = Pass(snapshot, jobs(town, "pending"))
        while (unit := order.next()) is not None:
            lacks = unit.job.gpus - idle(town, gpus)
            if lacks <= 0:
                if over_limit(snapshot, unit) is not None:
                    continue
            elif may_evict and (victims := victims_for(town, snapshot, order.shares, unit, lacks)) is not None:
                for victim in victims:
                    goes(town, victim)
                evicted += len(victims)
            else:
                continue
            starts(town, unit.job)
            usage.refresh(town.state, town.state.indices.changed_jobs)
    return evicted


def check(seed: int) -> None:
    rng = Random(seed)
    gpus = rng.choice([3, 5, 8])
    town = Town(*random_projects(rng), gpus=gpus)
    projects = town.state.rules.projects
    if not projects:
        return
    parents = [entry.parent for entry in projects] if rng.randrange(4) else []
    leaves = [entry.name for entry in projects if entry.name not in parents]
    for number in range(rng.randrange(4, 16)):
        town.waits(f"j{number}", rng.choice(leaves), group(gpus=rng.choice([1, 1, 2, 3])))
    usage = Usage.of(town.state)
    for job in rng.sample(jobs(town, "pending"), len(town.state.jobs)):
        if job.gpus <= idle(town, gpus):
            starts(town, job)
    rounds = 0
    while one_round(town, usage, gpus):
        rounds += 1
        assert rounds < MOST_ROUNDS, "jobs keep evicting each other"
    usage.refresh(town.state, town.state.indices.changed_jobs)
    snapshot, shares = Trials(town.state, usage), Pass(Trials(town.state, usage), []).shares
    assert usage.allocated("") == ResourceVector(1000 * (gpus - idle(town, gpus)))
    for job in jobs(town, "pending"):
        lacks = job.gpus - idle(town, gpus)
        assert lacks <= 0 or victims_for(town, snapshot, shares, whole(job), lacks) is None


@examples(100)
@given(st.integers(0, 2**32))
def test_reclaim_converges(seed: int) -> None:
    check(seed)


@pytest.mark.long
@settings(max_examples=3_000, deadline=None)
@given(st.integers(0, 2**32))
def test_reclaim_converges_thousands(seed: int) -> None:
    check(seed)
