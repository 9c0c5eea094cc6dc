"""A wrong clock, and a clock step while the system runs (log protocol §7).

Each test runs a job that may run for half an hour: a service that trusted a wrong clock would stop it.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kits.other_clock import OtherClock
from tests.kits.system import System, Watch

from bailiff_core.records.decisions import EvictionDecided
from bailiff_core.records.facts import ClockStepped, NodeLost, WriterStarted
from bailiff_service.exit_code import ExitCode

HOURS_2 = 7200
SECOND = 1_000_000
HALF_AN_HOUR = 1800 * SECOND
TOLERANCE = 60 * SECOND

_jobs = itertools.count(1)


@pytest.fixture
def clock(tmp_path: Path) -> OtherClock:
    """A fake clock for processes."""
    return OtherClock(tmp_path / "clock")


async def test_a_writer_whose_clock_is_two_hours_fast_changes_nothing(battered: System, clock: OtherClock) -> None:
    clock.set(HOURS_2)
    async with battered.watch("pool-a") as pool:
        await pool.clear()
        limited = await runs_within_a_limit(pool)
        battered.kill("admission")
        await one_with_this_clock_ends(battered, clock)
        assert "the broker's clock is -7" in battered.log_of("admission-wrong")
        await check_pool_continues(pool, limited)
        assert behind_the_true_time(pool)


@pytest.mark.parametrize("step_s", [pytest.param(HOURS_2, id="ahead", marks=pytest.mark.long), pytest.param(-HOURS_2, id="back")])
async def test_the_clock_of_the_writers_machine_alone_is_set(battered: System, clock: OtherClock, step_s: int) -> None:
    async with battered.watch("pool-a") as pool:
        await pool.clear()
        battered.kill("admission")
        started = len(pool.facts(WriterStarted))
        wrong = battered.stack.start_service("admission", replica="-wrong", env=clock.env)
        await pool.until("it writes", lambda _: len(pool.facts(WriterStarted)) > started)
        limited = await runs_within_a_limit(pool)
        clock.set(step_s)
        await exits_with_clock_error(battered, wrong)
        await check_pool_continues(pool, limited)
        assert behind_the_true_time(pool)


@pytest.fixture
def lone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A separate system: its log time will be ahead of the true time."""
    with System(tmp_path_factory.mktemp("one-machine"), pools={"pool-a": 1}) as system:
        yield system


@pytest.mark.long
async def test_a_tolerated_clock_step_is_recorded_and_no_duration_counts_it(lone: System, clock: OtherClock) -> None:
    """As on a single machine, where the broker has the same clock; here admission's tolerance is increased."""
    async with lone.watch("pool-a") as pool:
        lone.kill("admission")
        started = len(pool.facts(WriterStarted))
        lone.stack.start_service("admission", env={**clock.env, "BAILIFF_CLOCK_TOLERANCE_S": str(100 * HOURS_2)})
        await pool.until("it writes", lambda _: len(pool.facts(WriterStarted)) > started)
        limited = await runs_within_a_limit(pool)
        for steps, ahead_s in enumerate((HOURS_2, 0), 1):
            clock.set(ahead_s)
            await pool.until("the clock step is recorded", lambda _, steps=steps: len(pool.facts(ClockStepped)) == steps)
            await check_pool_continues(pool, limited, starts="")
        ahead, back = (fact.jump for fact in pool.facts(ClockStepped))
        assert abs(ahead - HOURS_2 * SECOND) < TOLERANCE
        assert back == 0
        assert len(pool.facts(WriterStarted)) == started + 1


async def runs_within_a_limit(pool: Watch) -> str:
    """Start a job with a run time limit of half an hour; its name."""
    job = f"limited-{next(_jobs)}"
    await pool.submit(job, run_time_limit=HALF_AN_HOUR)
    await pool.until_running(job)
    return job


async def one_with_this_clock_ends(system: System, clock: OtherClock) -> None:
    """Start an admission with this clock, which must exit because of it."""
    await exits_with_clock_error(system, system.stack.start_service("admission", replica="-wrong", env=clock.env))


async def exits_with_clock_error(system: System, process: str) -> None:
    """Wait until it exits with the exit code for clocks."""
    code = await asyncio.to_thread(system.stack.processes.wait, process)
    assert code == ExitCode.CLOCK, system.log_of(process)
    assert "from this machine's: synchronise the clocks, then restart" in system.log_of(process)
    system.stack.processes.stop(process)


async def check_pool_continues(pool: Watch, limited: str, starts: str = "admission") -> None:
    """With a correct clock the pool is served again, no job was stopped, and log time is monotonic."""
    if starts:
        pool.system.start_service(starts)
    job = f"after-{next(_jobs)}"
    await pool.submit(job, "true")
    await pool.until_ended(job)
    assert pool.running(limited)
    assert pool.job(limited).attempt == 1
    assert pool.facts(EvictionDecided, job=limited) == []
    times = [entry.record.time for entry in pool.entries]
    assert times == sorted(times)
    await pool.verify(orphans=True)


def behind_the_true_time(pool: Watch) -> bool:
    """Whether log time is not ahead of the true time."""
    return pool.state.now < time.time_ns() // 1000 + TOLERANCE


HOUR = 3600
STEPPED = ("victim-selection", "eviction-executor", "node-agent")


@pytest.mark.parametrize("step_s", [pytest.param(HOUR, id="ahead"), pytest.param(-HOUR, id="back", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "service", [pytest.param(name, marks=() if name == "node-agent" else pytest.mark.long) for name in STEPPED]
)
async def test_another_services_clock_is_set_by_an_hour_during_a_preemption(
    battered: System, clock: OtherClock, service: str, step_s: int
) -> None:
    """Only admission's clock is written down, and the agent measures its deadlines by the boot-time clock."""
    async with battered.watch("pool-a") as pool:
        await pool.clear()
        battered.kill(service)
        battered.stack.start_service(service, env=clock.env)
        try:
            limited = await runs_within_a_limit(pool)
            victim, urgent = f"victim-{next(_jobs)}", f"urgent-{next(_jobs)}"
            await pool.submit(victim, gpus=7)
            await pool.until_running(victim)
            clock.set(step_s)
            await pool.submit(urgent, pool.until_signalled(), gpus=7, kind="inference")
            await pool.until_running(urgent)
            await pool.noted(urgent, 1)
            clock.set(0)
            pool.let_finish(urgent)
            await pool.until_ended(urgent)
            await pool.until_running(victim)
            assert pool.facts(ClockStepped) == []
            assert pool.running(limited)
            assert pool.job(limited).attempt == 1
            assert pool.facts(NodeLost) == []
            assert behind_the_true_time(pool)
            pool.assert_started_once(limited, urgent)
            await pool.verify(orphans=True)
        finally:
            battered.kill_and_restart(service)
