"""The simulator runs the core itself: its log replays, its evictions cost what was not saved, its machines fail as real ones."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.kits.core_invariants import check_pool
from tests.kits.sim_worlds import HOUR, MINUTE, SECOND, Reread, World, policy, random_world

from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.policy import Policy
from bailiff_core.records import Record, Wire, encode, record_hash
from bailiff_core.records.facts import JobSubmitted, SnapshotOffer
from bailiff_sim.digest import digest_of
from bailiff_sim.engine import Simulation
from bailiff_sim.run_stats import Result
from bailiff_sim.timeline import Delays
from bailiff_sim.workload import WorkloadEvent

PREEMPT = policy(preemption={"scope": "pool", "selection_backoff": "30s"}, eviction={"grace": "60s"})


def run(world: World, rules: Policy = PREEMPT, **options: object) -> tuple[Result, Reread]:
    """The run, and its log decided again from its bytes."""
    reread = Reread()
    result = Simulation(world.workload(), rules, sink=reread, **options).run()
    assert reread.replay.difference is None, reread.replay.difference
    return result, reread


def test_a_job_runs_as_long_as_it_takes() -> None:
    world = World()
    world.job("a", at=0, runs=HOUR)
    world.job("b", at=MINUTE, runs=HOUR, gpus=8)
    result, _ = run(world, policy(preemption={"actions": ["allocate"]}))
    a, b = result.jobs["a"], result.jobs["b"]
    assert (a.waited, a.ended - a.submitted) == (0, HOUR)
    assert (b.waited, b.ended - b.submitted) == (HOUR - MINUTE, 2 * HOUR - MINUTE)
    assert not a.evictions
    assert not b.evictions


def test_a_job_that_saves_in_time_loses_only_the_restart() -> None:
    world = World()
    world.job("train", at=0, runs=HOUR, gpus=8, save_time=20 * SECOND, restart_cost=MINUTE)
    world.job("serve", at=10 * MINUTE, runs=5 * MINUTE, gpus=4, cls="inference")
    result, reread = run(world)
    train, serve = result.jobs["train"], result.jobs["serve"]
    assert serve.waited == 20 * SECOND
    assert (train.evictions, train.lost, train.overhead) == ({"preemption": 1}, 0, MINUTE)
    assert train.ended - train.submitted == HOUR + 20 * SECOND + 5 * MINUTE + MINUTE
    assert reread.kinds["PreemptionDecided"] == 1


def test_a_job_that_ignores_its_notice_loses_the_work_since_its_last_checkpoint() -> None:
    world = World()
    world.job("train", at=0, runs=HOUR, gpus=8, checkpoint_every=4 * MINUTE)
    world.job("serve", at=10 * MINUTE, runs=5 * MINUTE, gpus=8, cls="inference")
    result, reread = run(world)
    train = result.jobs["train"]
    assert train.lost == 2 * MINUTE
    assert result.jobs["serve"].waited == 0
    assert train.ended - train.submitted == HOUR + 5 * MINUTE + 2 * MINUTE
    assert reread.kinds["TaskProgressed"] == 1, "the core knew of the checkpoint when it chose"


def test_a_job_that_is_too_slow_is_killed_at_the_end_of_its_grace() -> None:
    world = World()
    world.job("train", at=0, runs=HOUR, gpus=8, save_time=5 * MINUTE)
    world.job("serve", at=10 * MINUTE, runs=5 * MINUTE, gpus=8, cls="inference")
    result, _ = run(world)
    assert result.jobs["serve"].waited == MINUTE
    assert result.jobs["train"].lost == 10 * MINUTE


def test_a_failed_machine_is_detected_by_its_silence_and_its_jobs_resume() -> None:
    world = World("2x4")
    world.job("gang", at=0, runs=HOUR, gpus=4, tasks=2, checkpoint_every=10 * MINUTE)
    world.fails("node-0001", at=25 * MINUTE, back_after=2 * HOUR)
    result, reread = run(world)
    gang = result.jobs["gang"]
    assert reread.kinds["NodeLost"] == 1
    assert gang.lost == 5 * MINUTE, "it made no progress from the failure on, detected or not"
    assert gang.ended - gang.submitted == 25 * MINUTE + 2 * HOUR + 40 * MINUTE
    assert gang.evictions == {"lost": 1} or gang.evictions == {"gang-failure": 1}


def test_a_machine_that_reboots_before_it_is_lost_takes_work_at_once() -> None:
    world = World()
    world.job("a", at=0, runs=HOUR)
    world.fails("node-0000", at=10 * MINUTE, back_after=3 * MINUTE)
    result, reread = run(world)
    assert "NodeLost" not in reread.kinds
    assert result.jobs["a"].lost == 10 * MINUTE
    assert result.jobs["a"].ended - result.jobs["a"].submitted == 13 * MINUTE + HOUR, "no back-off: it ran for long"


def test_a_job_that_fits_no_machine_is_refused_with_a_sentence() -> None:
    world = World()
    world.job("giant", at=0, runs=HOUR, gpus=16)
    world.job("a", at=0, runs=HOUR)
    result, reread = run(world)
    assert "16" in result.refused["giant"]
    assert list(result.jobs) == ["a"]
    assert reread.kinds["InputRejected"] == 1


def test_delays_of_starts_and_releases_count() -> None:
    world = World()
    world.job("a", at=0, runs=HOUR, gpus=8)
    world.job("b", at=0, runs=HOUR, gpus=8)
    result, _ = run(world, delays=Delays(start=10 * SECOND, release=5 * SECOND))
    assert result.jobs["a"].waited == 10 * SECOND
    assert result.jobs["b"].waited == HOUR + 10 * SECOND + 5 * SECOND + 10 * SECOND


def test_a_job_that_is_pending_for_ever_does_not_hang_the_run() -> None:
    world = World()
    world.job("serving", at=0, runs=1 << 62, gpus=8, cls="inference")
    world.job("b", at=MINUTE, runs=HOUR, gpus=8, cls="inference")
    result, _ = run(world, until=world.workload().begin + 10 * HOUR)
    assert result.jobs["b"].ended is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 200))])
def test_random_worlds_keep_the_rules_of_the_pool_and_conserve_work(seed: int) -> None:
    random = Random(seed)
    world = random_world(random, 10)
    delays = Delays(*random.choice([(0, 0, 0), (5 * SECOND, SECOND, 300_000)]))
    result, reread = run(world, check=check_pool, delays=delays)
    assert reread.replay.cycles > 10
    for name, job in result.jobs.items():
        truth = world.outcomes[name]
        assert job.ended is not None or job.waits_since is not None, f"{name} neither ended nor waits"
        if job.outcome == "succeeded":
            assert job.work == truth.run_time, f"{name} has ended and not done its work"
            assert job.ended - job.submitted >= truth.run_time + job.lost // 4 + job.overhead // 4
    assert sum(step.allocated for step in result.stats.steps) == sum(
        job.gpu_milli for job in result.jobs.values() if job.ended is None and job.waits_since is None
    )


@pytest.mark.slow
def test_the_same_run_has_the_same_bytes_whatever_the_order_of_hashes() -> None:
    code = (
        "from random import Random; from tests.kits.sim_worlds import *; from bailiff_sim.engine import Simulation;"
        "print(Simulation(random_world(Random(5), 40).workload(), policy(preemption={'scope': 'pool'})).run().digest)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "4711")
    }
    assert len(found) == 1


def test_the_digest_covers_the_bytes_also_if_they_are_not_kept() -> None:
    world = random_world(Random(11), 12)
    kept: list[tuple[Record, Wire]] = []
    with_bytes = Simulation(world.workload(), policy(), sink=lambda record, wire: kept.append((record, wire))).run()
    assert Simulation(world.workload(), policy()).run().digest == with_bytes.digest
    assert len({record.type for record, _ in kept}) > 8
    for record, wire in kept:
        assert digest_of(record) == record_hash(wire)
        for odd in ({"actor": "ann"}, {"cause": "c" * 300}, {"inputs": (("t" * 300, 4),)}, {"epoch": 300, "writer": ""}):
            assert digest_of(replace(record, **odd)) == record_hash(encode(replace(record, **odd)))


def saved_by_nodes(bytes_per_s: int, **rest: object) -> tuple[Result, Reread]:
    """A job of 40 GB that its node saves is preempted after ten minutes."""
    world = World()
    world.job("train", at=0, runs=HOUR, gpus=8, restart_cost=MINUTE, demand={"checkpoint": "snapshot"}, **rest)
    world.job("serve", at=10 * MINUTE, runs=5 * MINUTE, gpus=8, cls="inference")
    size, offer = TaskGroup(gpu_milli=8000, memory_bytes=40 * 10**9), SnapshotOffer(driver="criu", bytes_per_s=bytes_per_s)
    workload = world.workload()
    (at, train), *others = workload.events
    assert isinstance(train, JobSubmitted)
    sized = train.model_copy(update={"demand": train.demand.model_copy(update={"tasks": (size,)})})
    events = [WorkloadEvent(at, sized), *others]
    nodes = [node.model_copy(update={"snapshots": (offer,), "memory_bytes": 10**12}) for node in workload.nodes]
    reread = Reread()
    result = Simulation(
        replace(workload, nodes=nodes, events=[WorkloadEvent(*each) for each in events]), PREEMPT, sink=reread
    ).run()
    assert reread.replay.difference is None, reread.replay.difference
    return result, reread


def test_a_job_that_its_node_saves_loses_only_the_restart_although_it_ignores_the_notice() -> None:
    result, reread = saved_by_nodes(10**9)
    train, serve = result.jobs["train"], result.jobs["serve"]
    assert serve.waited == 40 * SECOND, "as long as its node takes to save 40 GB"
    assert (train.evictions, train.lost, train.overhead) == ({"preemption": 1}, 0, MINUTE)
    assert reread.kinds["TaskRestored"] == 1


def test_a_snapshot_that_does_not_fit_into_the_grace_saves_nothing() -> None:
    result, reread = saved_by_nodes(10**8)
    assert result.jobs["train"].lost == 10 * MINUTE
    assert "TaskRestored" not in reread.kinds
