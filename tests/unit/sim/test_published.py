"""The simulator against published figures, and against an independent scheduler."""

from fractions import Fraction
from heapq import heappop, heappush
from math import factorial
from random import Random

import pytest
from tests.kits.sim_worlds import BEGIN, SECOND, World, policy

from bailiff_sim.baselines import RULES, Baseline
from bailiff_sim.cluster import machines
from bailiff_sim.engine import Simulation
from bailiff_sim.traces.catalogue import trace
from bailiff_sim.workload_builder import Choices, assemble

MEAN = 600 * SECOND
ONLY_ALLOCATE = policy(preemption={"actions": ["allocate"]})
MURI = "muri-philly-priority"
# Muri (SIGCOMM '22), Figure 9, SRTF on 8 machines of 8 GPUs: mean JCT, makespan, 99th percentile of JCT, all in seconds. The
# numbers behind the figure stand in its artefact: github.com/Rivendile/Muri, simulator/draw_fig9-10.py.
MURI_SRTF = {
    "trace1": (1_370_603.198, 26_045_465.533, 16_647_148.091),
    "trace3": (193_081.796, 8_174_135.28, 4_538_890.607),
    "trace4": (581_982.900, 14_787_990.592, 7_768_533.005),
}


def erlang_c(servers: int, load: Fraction) -> float:
    """The probability that a customer of M/M/c waits (Erlang, 1917), load in Erlangs."""
    last = load**servers / factorial(servers) * servers / (servers - load)
    return float(last / (sum(load**k / factorial(k) for k in range(servers)) + last))


def customers(servers: int, load: Fraction, count: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Poisson arrivals and exponential run times (µs), and how long each waits first come, first served: Kiefer and Wolfowitz."""
    random, at = Random(7), 0
    jobs, waits, free = list[tuple[int, int]](), list[int](), [0] * servers
    for _ in range(count):
        at += round(random.expovariate(float(load) / MEAN))
        run_time = max(1, round(random.expovariate(1 / MEAN)))
        start = max(at, heappop(free))
        heappush(free, start + run_time)
        jobs.append((at, run_time))
        waits.append(start - at)
    return jobs, waits


@pytest.mark.parametrize(("servers", "load", "table"), [(8, Fraction(6), 0.357), (4, Fraction(3), 0.509)])
@pytest.mark.slow
def test_single_gpus_wait_as_erlangs_table_says(servers: int, load: Fraction, table: float) -> None:
    """The engine's waits are those of the recursion, to the microsecond; and many of those are what is in the tables of M/M/c."""
    assert round(erlang_c(servers, load), 3) == table
    jobs, expected = customers(servers, load, 800)
    world = World(f"1x{servers}")
    for number, (at, run_time) in enumerate(jobs):
        world.job(f"job-{number}", at, run_time)
    result = Simulation(world.workload(), ONLY_ALLOCATE).run()
    assert [job.waited for job in result.jobs.values()] == expected
    _, waits = customers(servers, load, 600_000)
    assert sum(wait > 0 for wait in waits) / len(waits) == pytest.approx(table, rel=0.02)
    assert sum(waits) / len(waits) == pytest.approx(table * MEAN / float(servers - load), rel=0.04)


def first_come_first_served(jobs: list[tuple[int, int, int]], gpus: int) -> list[int]:
    """Start of each job (arrival, run time, GPUs), in order, on one pool of GPUs, without the simulator."""
    starts: list[int] = []
    free_at = [0] * gpus
    earliest = 0
    for arrival, run_time, asked in jobs:
        free_at.sort()
        earliest = max(earliest, arrival, free_at[asked - 1])
        starts.append(earliest)
        free_at[:asked] = [earliest + run_time] * asked
    return starts


@pytest.mark.slow
@pytest.mark.parametrize("gpus", [8, 16])
def test_tiresias_jobs_start_as_an_independent_first_come_first_served_computes(gpus: int) -> None:
    """On one large machine there is no fragmentation, so FIFO has just one right answer. The engine is never later on average:

    its backfill lets jobs pass the head of the queue, where that does not delay it.
    """
    found = trace("tiresias-60")
    jobs = sorted(found.jobs, key=lambda job: (job.submitted, job.name))
    operator_action = first_come_first_served([(job.submitted, job.run_time, job.gpus) for job in jobs], gpus)
    workload = assemble(found, machines(f"1x{gpus}"), Choices(), 0)
    baseline = Baseline(workload, ONLY_ALLOCATE, RULES["fifo"]).run().jobs
    engine = Simulation(workload, ONLY_ALLOCATE).run().jobs
    assert [baseline[job.name].first_start for job in jobs] == [BEGIN + start for start in operator_action]
    assert sum(engine[job.name].first_start - BEGIN for job in jobs) <= sum(operator_action)


def shortest_first(jobs: list[tuple[float, float, int]], cost: float) -> list[float]:
    """JCT of each job (arrival, run time, GPUs), in seconds, on 8 machines of 8: at each arrival and end all of them are placed
    anew, the least time left first, as Muri's authors simulate it. cost: cost of each such moment for running jobs.
    """
    coming = sorted(jobs, reverse=True)
    here: list[list[float]] = []  # time left, GPUs, arrival, whether it runs
    now, found = 0.0, list[float]()
    while coming or here:
        ends = min((now + job[0] for job in here if job[3]), default=float("inf"))
        after = min(ends, coming[-1][0] if coming else float("inf"))
        for job in [job for job in here if job[3]]:
            if now + job[0] == after:
                found.append(after - job[2])
                here.remove(job)
            else:
                job[0] -= max(0.0, after - now - cost)
        now = after
        while coming and coming[-1][0] <= now:
            arrival, run_time, gpus = coming.pop()
            here.append([run_time, gpus, arrival, 0])
        here.sort(key=lambda job: job[0])
        free = [8] * 8
        for job in here:
            each, count = min(8, int(job[1])), -(-int(job[1]) // 8)
            there = [at for at in range(8) if free[at] >= each][:count]
            job[3] = len(there) == count
            for at in there if job[3] else ():
                free[at] -= each
    return found


def srtf(name: str) -> tuple[float, float, float]:
    """Mean JCT, makespan and 99th percentile of JCT of the baseline, in seconds, where saving and restarting cost nothing."""
    workload = assemble(trace(f"{MURI}/{name}"), machines("8x8"), Choices(save_time=0, restart_cost=0), 0)
    jobs = Baseline(workload, ONLY_ALLOCATE, RULES["shortest-remaining"]).run().jobs.values()
    jct = sorted((job.ended - job.submitted) / SECOND for job in jobs)
    return sum(jct) / len(jct), (max(job.ended for job in jobs) - workload.begin) / SECOND, jct[-(-len(jct) * 99 // 100) - 1]


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long if name != "trace3" else ()) for name in MURI_SRTF])
def test_shortest_remaining_time_first_comes_to_what_muris_figure_9_has(name: str) -> None:
    """A little less than what was published, because theirs charges running jobs a start at every arrival and end of a job."""
    mean, makespan, slowest = srtf(name)
    published = MURI_SRTF[name]
    assert published[0] * 0.9 < mean < published[0]
    assert published[1] * 0.98 < makespan < published[1]
    assert published[2] * 0.94 < slowest < published[2]


@pytest.mark.slow
def test_the_difference_to_muris_figure_9_is_in_part_what_starts_cost_there() -> None:
    jobs = [(job.submitted / SECOND, job.run_time / SECOND, job.gpus) for job in trace(f"{MURI}/trace3").jobs]
    free, charged = (shortest_first(jobs, cost) for cost in (0, 10))
    ours, published = srtf("trace3")[0], MURI_SRTF["trace3"][0]
    assert ours == pytest.approx(sum(free) / len(free), rel=0.001), "the same rule, written down independently"
    assert 1.01 * ours < sum(charged) / len(charged) < published


def test_the_oracle_finishes_sooner_than_first_come_first_served() -> None:
    found = trace("tiresias-60")
    workload = assemble(found, machines("2x4"), Choices(restart_cost=0, save_time=0), 0)
    mean = {}
    for name in ("fifo", "shortest-remaining"):
        jobs = Baseline(workload, ONLY_ALLOCATE, RULES[name]).run().jobs.values()
        mean[name] = sum((job.ended or 0) - job.submitted for job in jobs) / len(jobs)
    assert mean["shortest-remaining"] < 0.7 * mean["fifo"]
