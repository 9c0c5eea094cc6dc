"""The simulator against figures that others have published, and against a scheduler written down independently."""

from fractions import Fraction
from math import factorial
from random import Random

import pytest
from tests.sim_worlds import BEGIN, SECOND, World, policy

from bailiff_sim.assemble import Choices, assemble
from bailiff_sim.baselines import RULES, Baseline
from bailiff_sim.cluster import machines
from bailiff_sim.engine import Simulation
from bailiff_sim.traces.catalogue import trace

ONLY_ALLOCATE = policy(preemption={"verbs": ["allocate"]})


def erlang_c(servers: int, load: Fraction) -> float:
    """The probability that a customer of M/M/c waits (Erlang, 1917), load in Erlangs."""
    last = load**servers / factorial(servers) * servers / (servers - load)
    return float(last / (sum(load**k / factorial(k) for k in range(servers)) + last))


@pytest.mark.parametrize(
    ("gpus", "load", "table", "jobs", "within"),
    [
        (8, Fraction(6), 0.357, 3_000, 0.2),
        pytest.param(8, Fraction(6), 0.357, 60_000, 0.05, marks=pytest.mark.long),
        pytest.param(4, Fraction(3), 0.509, 60_000, 0.05, marks=pytest.mark.long),
    ],
)
def test_the_engine_waits_as_erlangs_table_says(gpus: int, load: Fraction, table: float, jobs: int, within: float) -> None:
    """Poisson arrivals and exponential run times on single GPUs are M/M/c: who waits, and for how long, is in tables."""
    assert round(erlang_c(gpus, load), 3) == table
    random, world, at, mean = Random(7), World(f"1x{gpus}"), 0, 600 * SECOND
    for number in range(jobs):
        at += round(random.expovariate(float(load) / mean))
        world.job(f"job-{number}", at, max(1, round(random.expovariate(1 / mean))))
    result = Simulation(world.workload(), ONLY_ALLOCATE).run()
    waits = [job.waited for job in list(result.jobs.values())[jobs // 10 :]]
    waited = sum(wait > 0 for wait in waits) / len(waits)
    assert waited == pytest.approx(table, rel=within)
    expected = table * mean / float(gpus - load)
    assert sum(waits) / len(waits) == pytest.approx(expected, rel=2 * within)


def first_come_first_served(jobs: list[tuple[int, int, int]], gpus: int) -> list[int]:
    """Start of each job (arrival, run time, GPUs), in order, on one pool of GPUs: by hand, second by second nowhere."""
    starts: list[int] = []
    free_at = [0] * gpus
    earliest = 0
    for arrival, run_time, asked in jobs:
        free_at.sort()
        earliest = max(earliest, arrival, free_at[asked - 1])
        starts.append(earliest)
        free_at[:asked] = [earliest + run_time] * asked
    return starts


@pytest.mark.parametrize("gpus", [8, 16])
def test_tiresias_jobs_start_first_come_first_served_as_by_hand(gpus: int) -> None:
    """On one large machine there is no fragmentation, so FIFO has just one right answer. The engine is never later on average:

    its backfill lets jobs pass the head of the queue, where that does not delay it.
    """
    found = trace("tiresias-60")
    jobs = sorted(found.jobs, key=lambda job: (job.submitted, job.name))
    by_hand = first_come_first_served([(job.submitted, job.run_time, job.gpus) for job in jobs], gpus)
    workload = assemble(found, machines(f"1x{gpus}"), Choices(), 0)
    baseline = Baseline(workload, ONLY_ALLOCATE, RULES["fifo"]).run().jobs
    engine = Simulation(workload, ONLY_ALLOCATE).run().jobs
    assert [baseline[job.name].first_start for job in jobs] == [BEGIN + start for start in by_hand]
    assert sum(engine[job.name].first_start - BEGIN for job in jobs) <= sum(by_hand)


def test_the_oracle_finishes_sooner_than_first_come_first_served() -> None:
    found = trace("tiresias-60")
    workload = assemble(found, machines("2x4"), Choices(restart_cost=0, save_time=0), 0)
    mean = {}
    for name in ("fifo", "shortest-remaining"):
        jobs = Baseline(workload, ONLY_ALLOCATE, RULES[name]).run().jobs.values()
        mean[name] = sum((job.ended or 0) - job.submitted for job in jobs) / len(jobs)
    assert mean["shortest-remaining"] < 0.7 * mean["fifo"]
