"""Two replicas of every control service share four pools; when one of a service is killed, or of each, the others take over."""

import asyncio
import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack

import pytest
from tests.kits.system import System, Watch

from bailiff_core.records.decisions import PreemptionDecided
from bailiff_devstack.identity import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

CONTROL = ("admission", "victim-selection", "eviction-executor")
POOLS = ("pool-a", "pool-b", "pool-c", "pool-d")
OWNED = re.compile(r'"owned": (\[[0-9, ]*\]), "standby": \[[0-9, ]*\], "event": "pools assigned"')


@pytest.fixture
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A system with a second replica of each control service, named with `-b`."""
    with System(tmp_path_factory.mktemp("pairs"), pools=dict.fromkeys(POOLS, 1)) as system:
        for name in CONTROL:
            system.stack.start_service(name, replica="-b")
        system.wait_ready()
        assert wait_until(lambda: all(len(owned(system, f"{name}{b}")) == 2 for name in CONTROL for b in ("", "-b")), 60)
        yield system


@pytest.mark.parametrize(
    "deaths",
    [
        pytest.param([CONTROL], id="all-at-once"),
        pytest.param([(name,) for name in CONTROL], id="one-after-another", marks=pytest.mark.long),
    ],
)
async def test_the_other_replicas_take_the_pools_over(pairs: System, deaths: Sequence[Sequence[str]]) -> None:
    async with AsyncExitStack() as open_pools:
        pools = [await open_pools.enter_async_context(pairs.watch(name)) for name in POOLS]
        for pool in pools:
            await pool.submit(whole(pool), gpus=8)
        for pool in pools:
            await pool.until_running(whole(pool))
        for number, dead in enumerate(deaths):
            seconds = await taken_over(pairs, pools[0], dead)
            print(f"{', '.join(dead)}: killed, and after {seconds:.1f} s the others had all four pools")
            await every_pool_is_served(pools, f"urgent-{number}")
            for name in dead:
                pairs.start_service(name)
            await asyncio.to_thread(pairs.wait_ready)


async def taken_over(system: System, pool: Watch, dead: Sequence[str]) -> float:
    """Kill these replicas; seconds until every pool is assigned to the other ones."""
    others = [f"{name}-b" for name in dead]
    began = time.monotonic()
    system.kill(*dead)

    await pool.until(f"{', '.join(others)} have all pools", lambda _: all(len(owned(system, other)) == 4 for other in others))
    return time.monotonic() - began


def owned(system: System, replica: str) -> list[int]:
    """The pools that this replica owns, by its newest log line."""
    ownership_lines = OWNED.findall(system.log_of(replica))
    return list(json.loads(ownership_lines[-1])) if ownership_lines else []


async def every_pool_is_served(pools: list[Watch], urgent: str) -> None:
    """In each pool a victim is preempted for an urgent job and resumes; the log is one chain that replays."""
    for pool in pools:
        await pool.submit(f"{urgent}-in-{pool.pool}", "true", gpus=4, kind="inference")
    for pool in pools:
        await pool.until_ended(f"{urgent}-in-{pool.pool}")
        job = whole(pool)
        await pool.until_running(job)
        await pool.noted(job, pool.job(job).attempt)
        pool.assert_started_once(job)
        decided = [fact for fact in pool.facts(PreemptionDecided) if fact.preemptor.job == f"{urgent}-in-{pool.pool}"]
        assert [[victim.job for victim in fact.victims] for fact in decided] == [[job]]
        await pool.verify(orphans=True)


def whole(pool: Watch) -> str:
    """The job that uses the whole pool."""
    return f"whole-{pool.pool}"
