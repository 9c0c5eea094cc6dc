"""A replica that loses a domain and gets it back, time and again, keeps one state of it in memory."""

import asyncio
import weakref
from itertools import count

import pytest

from bailiff_bus.domains import Domains
from bailiff_bus.log import SteppedDown
from bailiff_bus.memory import MemoryCluster
from bailiff_bus.metrics import Metrics
from bailiff_bus.settings import PoolDeclaration
from bailiff_bus.view import DomainView

LIVES = 4


def test_the_state_of_a_view_that_stepped_down_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bailiff_bus.domains.PAUSE_AFTER_STEPPING_DOWN", 0.0)
    views: list[weakref.ref[DomainView]] = []

    async def lives() -> None:
        cluster = MemoryCluster(clock=count(1).__next__)
        cluster.create_topics(domains=1)
        bus, metrics, last = cluster.client("replica"), Metrics(), asyncio.Event()

        async def open_view(pool: PoolDeclaration) -> DomainView:
            return DomainView(bus, pool.name, pool.partition, metrics)

        async def work(view: DomainView) -> None:
            views.append(weakref.ref(view))
            if len(views) < LIVES:
                raise SteppedDown("another one writes")
            last.set()
            await asyncio.Event().wait()

        pools = (PoolDeclaration(name="pool-a", partition=0),)
        domains = asyncio.create_task(Domains(bus, "tests", None, pools, open_view, work, metrics).run(asyncio.Event()))
        await asyncio.wait((domains, asyncio.ensure_future(last.wait())), return_when=asyncio.FIRST_COMPLETED)
        assert last.is_set(), domains.result()
        assert [view() is None for view in views] == [True] * (LIVES - 1) + [False]
        domains.cancel()
        await asyncio.gather(domains, return_exceptions=True)

    asyncio.run(lives())
