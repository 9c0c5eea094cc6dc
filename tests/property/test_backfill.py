"""Backfill `preemptible`: the head of the queue starts no later than without the jobs behind it, by more than their grace.

Each example is played twice in virtual time: jobs that run, a head that waits for some of them, and a stream of jobs behind it;
then the same without the stream.
"""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.core_invariants import check_pool
from tests.kits.examples import examples
from tests.kits.sim_worlds import BEGIN, HOUR, MINUTE, SECOND, World, policy, submitted

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.policy import PriorityClass
from bailiff_sim.engine import Simulation
from bailiff_sim.run_stats import Result
from bailiff_sim.workload import Outcome, WorkloadEvent

GRACE = 150 * SECOND
SUBMITTED = 10 * MINUTE  # the head
CLASSES = ("train", "modest", "interactive")
QUICK = examples(15)
PARTS = 8


def played(random: Random, *, stream: bool, backfill: str = "preemptible") -> Result:
    """One pool: the same jobs run before the head for every `random`, and the same ones come after it if there is a `stream`."""
    nodes = random.choice([1, 2, 3])
    world = World(f"{nodes}x8")
    free = [8] * nodes
    for number in range(random.randrange(1, 8)):
        gpus = random.choice([1, 2, 3, 4, 8])
        if max(free) >= gpus:  # by binpack: all of them run when the head is submitted
            free[min(at for at in range(nodes) if free[at] == min(left for left in free if left >= gpus))] -= gpus
            add(world, random, f"older-{number}", at=number * SECOND, gpus=gpus)
    gangs = [(8, 1), (8, nodes), (4, 2 * nodes), (5, 1), (3, 2 * nodes)]
    gpus, tasks = random.choice(gangs)
    groups = (TaskGroup(count=tasks, gpu_milli=1000 * gpus),)
    if random.random() < 0.2:  # tasks of two kinds
        groups = (TaskGroup(count=1, gpu_milli=5000), TaskGroup(count=nodes, gpu_milli=2000))
    cls, delay = random.choice(CLASSES), random.choice([None, HOUR])
    head = {"job": "head", "tasks": groups, "priority_class": cls, "max_failures": 0, "preemption_delay": delay}
    fact = submitted("head").model_copy(update={"demand": JobDemand.model_validate(head)})
    world.events.append(WorkloadEvent(BEGIN + SUBMITTED, fact))
    world.outcomes["head"] = Outcome(HOUR)
    if stream:
        at = SUBMITTED
        for number in range(random.randrange(5, 40)):
            at += random.choice([0, 20 * SECOND, MINUTE, 5 * MINUTE])
            add(world, random, f"later-{number}", at=at, gpus=random.choice([1, 1, 2, 4]), tasks=random.choice([1, 1, 2]))
    modest = PriorityClass(name="modest", value=50, preemptible=True, preemption_policy="Never")
    default = policy(backfill=backfill, protections={"min_runtime": {"preempt": "30m"}, "cooldown": {"job": "1h"}})
    rules = default.model_copy(update={"priority_classes": (*default.priority_classes, modest)})
    return Simulation(world.workload(), rules, until=BEGIN + 4 * HOUR, check=check_pool).run()


def add(world: World, random: Random, name: str, *, at: int, gpus: int, tasks: int = 1) -> None:
    """A job that may be preempted, with or without a run-time limit, and with or without an answer to notices."""
    lasts = random.choice([1, 7, 20, 45, 90]) * MINUTE
    limit = random.choice([None, None, lasts, 2 * lasts])
    save = random.choice([None, 10 * SECOND, GRACE, 10 * MINUTE])
    cls = random.choice(["train", "modest"])
    world.job(name, at, lasts, gpus=gpus, tasks=tasks, cls=cls, save_time=save, demand={"run_time_limit": limit})


def started(result: Result) -> int:
    """When the head started, µs."""
    start = result.jobs["head"].first_start
    assert start is not None
    return start


def holds(seed: int) -> bool:
    """Compares both runs. Returns whether a job of the stream was evicted for the head."""
    alone, crowded = (played(Random(seed), stream=stream) for stream in (False, True))
    assert started(crowded) <= started(alone) + GRACE
    return any(job.evicted for job in crowded.jobs.values() if job.name.startswith("later"))


@given(st.integers(0, 1 << 32))
@QUICK
def test_the_head_starts_no_later_than_without_the_jobs_behind_it(seed):
    holds(seed)


def test_the_examples_hold_evictions_for_the_head_and_later_starts_under_greedy():
    for seed in (4, 5, 9, 11):
        assert holds(seed)
        greedy, alone = played(Random(seed), stream=True, backfill="greedy"), played(Random(seed), stream=False)
        assert started(greedy) > started(alone) + GRACE


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
def test_the_head_starts_no_later_than_without_the_jobs_behind_it_in_thousands_of_pools(part):
    for number in range(250):
        holds(1_000_000 + 250 * part + number)
