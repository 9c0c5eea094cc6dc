"""A replica that loses a pool and gets it back, time and again, keeps one state of it in memory."""

import asyncio
import weakref
from itertools import count

import pytest

from bailiff_bus.testing import MemoryCluster
from bailiff_log.projection import Projection
from bailiff_log.writer import SteppedDown
from bailiff_service.metrics import Metrics
from bailiff_service.pool_ownership import PoolOwnership
from bailiff_service.settings import PoolDeclaration

LIVES = 4


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
