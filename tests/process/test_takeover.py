"""Two replicas of every control service share four pools; when one of a kind dies, the other takes over what it had."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from tests.system import System, Watch

from bailiff_core.records.decisions import PreemptionDecided

pytestmark = pytest.mark.kafka

CONTROL = ("admission", "victim-selection", "eviction-executor")
POOLS = ("pool-a", "pool-b", "pool-c", "pool-d")
ALL_OF_THEM = '"partitions": [0, 1, 2, 3]'


@pytest.fixture
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A system with a second replica of each control service, named with `-b`."""
    system = System(tmp_path_factory.mktemp("pairs"), pools=dict.fromkeys(POOLS, 1))
    try:
        system.start()
        for name in CONTROL:
            system.stack.start_service(name, replica="-b")
        system.wait_ready()
        yield system
    finally:
        system.stop()


async def test_the_other_replica_takes_the_pools_over(pairs: System) -> None:
    async with AsyncExitStack() as open_pools:
        pools = [await open_pools.enter_async_context(pairs.watch(name)) for name in POOLS]
        for pool in pools:
            await pool.submit(whole(pool), gpus=8)
        for pool in pools:
            await pool.until_running(whole(pool))
        for name in CONTROL:
            seconds = await taken_over(pairs, pools[0], dead=name, other=f"{name}-b")
            print(f"{name}: killed, and after {seconds:.1f} s the other replica had all four pools")
            await every_pool_is_served(pools, f"without-{name}")
            pairs.start_service(name)
            await asyncio.to_thread(pairs.wait_ready)

        # All at once, and those that took over before.
        for name in CONTROL:
            pairs.kill(f"{name}-b")
        await every_pool_is_served(pools, "without-all")


async def taken_over(system: System, pool: Watch, dead: str, other: str) -> float:
    """Kill one replica; how many seconds later the other one knew that every pool is its own."""
    told = len(system.log_of(other))
    began = time.monotonic()
    system.kill(dead)
    await pool.until(f"{other} has all pools", lambda _: ALL_OF_THEM in system.log_of(other)[told:])
    return time.monotonic() - began


async def every_pool_is_served(pools: list[Watch], urgent: str) -> None:
    """In each pool somebody leaves for an urgent job and comes back, and the log is one chain that replays."""
    for pool in pools:
        await pool.submit(f"{urgent}-in-{pool.domain}", "true", gpus=4, kind="inference")
    for pool in pools:
        await pool.until_ended(f"{urgent}-in-{pool.domain}")
        job = whole(pool)
        await pool.until_running(job)
        await pool.noted(job, pool.job(job).attempt)
        pool.assert_started_once(job)
        decided = [fact for fact in pool.facts(PreemptionDecided) if fact.asker.job == f"{urgent}-in-{pool.domain}"]
        assert [[victim.job for victim in fact.victims] for fact in decided] == [[job]]
        await pool.verify(orphans=True)


def whole(pool: Watch) -> str:
    """The job that has the pool to itself."""
    return f"whole-{pool.domain}"
