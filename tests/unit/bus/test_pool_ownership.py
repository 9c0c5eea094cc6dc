"""What replicas keep in memory: one state of each pool that they own or stand by for."""

import asyncio
import weakref
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import pytest
from tests.kits.memory_bus import MemoryBus, MemoryCluster

from bailiff_log.projection import Projection
from bailiff_log.writer import SteppedDown
from bailiff_service.metrics import Metrics
from bailiff_service.pool_ownership import PoolOwnership
from bailiff_service.settings import PoolDeclaration

LIVES = 4


@pytest.mark.slow
def test_a_projection_that_stepped_down_releases_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bailiff_service.pool_ownership.RESTART_PAUSE_S", 0.0)
    projections: list[weakref.ref[Projection]] = []

    async def lives() -> None:
        cluster = MemoryCluster(clock=count(1).__next__)
        cluster.create_topics(pools=1)
        bus, metrics, last = cluster.client("replica"), Metrics(), asyncio.Event()

        async def open_view(pool: PoolDeclaration) -> Projection:
            return Projection(bus, pool.name, pool.partition, metrics)

        async def work(projection: Projection) -> None:
            projections.append(weakref.ref(projection))
            if len(projections) < LIVES:
                raise SteppedDown("another one writes")
            last.set()
            await asyncio.Event().wait()

        pools = (PoolDeclaration(name="pool-a", partition=0),)
        ownership = asyncio.create_task(PoolOwnership(bus, "tests", None, pools, open_view, work, metrics).run(asyncio.Event()))
        await asyncio.wait((ownership, asyncio.ensure_future(last.wait())), return_when=asyncio.FIRST_COMPLETED)
        assert last.is_set(), ownership.result()
        assert [projection() is None for projection in projections] == [True] * (LIVES - 1) + [False]
        ownership.cancel()
        await asyncio.gather(ownership, return_exceptions=True)

    asyncio.run(lives())


@pytest.mark.slow
def test_of_four_replicas_two_follow_each_pool_and_the_one_that_stood_by_takes_over() -> None:
    names = [f"pool-{number}" for number in range(4)]
    pools = tuple(PoolDeclaration(name=name, partition=at) for at, name in enumerate(names))

    async def main() -> None:
        cluster = MemoryCluster(clock=count(1).__next__)
        cluster.create_topics(pools=len(pools))
        followed = {replica: dict[str, weakref.ref[Projection]]() for replica in "abcd"}
        owned: dict[str, set[str]] = {replica: set() for replica in "abcd"}
        changed = asyncio.Event()

        def start(replica: str) -> tuple[MemoryBus, asyncio.Task[None]]:
            bus, metrics = cluster.client(replica), Metrics()

            async def open_view(pool: PoolDeclaration) -> Projection:
                projection = Projection(bus, pool.name, pool.partition, metrics)
                followed[replica][pool.name] = weakref.ref(projection)
                return projection

            async def work(projection: Projection) -> None:
                owned[replica].add(projection.pool)
                changed.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    owned[replica].discard(projection.pool)

            ownership = PoolOwnership(bus, "tests", None, pools, open_view, work, metrics)
            return bus, asyncio.create_task(ownership.run(asyncio.Event()))

        def follows(replica: str) -> set[str]:
            return {name for name, projection in followed[replica].items() if projection() is not None}

        async def until(condition: Callable[[], bool]) -> None:
            async with asyncio.timeout(60):
                while not condition():
                    changed.clear()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(changed.wait(), 0.05)

        running = {replica: start(replica) for replica in "abcd"}
        await until(lambda: all(len(owned[replica]) == 1 and len(follows(replica)) == 2 for replica in "abcd"))
        (lost,) = owned["a"]
        (standby,) = [replica for replica in "bcd" if lost in follows(replica)]
        running["a"][0].kill()
        running["a"][1].cancel()
        await until(lambda: lost in owned[standby])
        assert sorted(name for replica in "bcd" for name in owned[replica]) == names
        for _, task in running.values():
            task.cancel()
        await asyncio.gather(*(task for _, task in running.values()), return_exceptions=True)

    asyncio.run(main())
