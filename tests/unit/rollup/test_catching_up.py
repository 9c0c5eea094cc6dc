"""A roll-up that starts on a long log: what it exports meanwhile."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kits.memory_bus import STORED, MemoryCluster, SendOutcome
from tests.kits.rollup import busy_log
from tests.unit.bus.virtual_time import run

from bailiff_bus import topics
from bailiff_bus.port import Message
from bailiff_rollup.service import RollupService
from bailiff_rollup.settings import RollupSettings
from bailiff_service.metrics import Metrics

POOL = "pool-a"
COMES_LATE_S = 600.0


class SlowHalf:
    """A Kafka that hands out the second half of the log ten minutes after the first."""

    def __init__(self, log: int) -> None:
        self._half = log // 2

    def send(self, client: str, topic: str, partition: int, value: bytes) -> SendOutcome:
        return STORED

    def delivery(self, client: str, message: Message) -> float:
        return COMES_LATE_S if (message.topic, message.offset) == (topics.AUDIT.name, self._half) else 0.0


class Group:
    """In place of Faust: who counts what, and what is kept."""

    def __init__(self, *_: Any) -> None:
        self.owned, self.joined, self.changed = frozenset({0}), True, asyncio.Event()

    async def run(self) -> None:
        await asyncio.Event().wait()

    def stored(self, pool: str) -> bytes | None:
        return None

    async def store(self, pool: str, partition: int, aggregates: bytes) -> None:
        pass


@pytest.mark.slow
def test_lag_is_exported_while_catching_up_and_aggregates_are_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    groups: list[Group] = []

    def group(*given: Any) -> Group:
        groups.append(Group(*given))
        return groups[0]

    monkeypatch.setattr("bailiff_rollup.service.Stream", group)
    (tmp_path / "pools.yaml").write_text(f"pools: [{{name: {POOL}, partition: 0}}]")
    log = busy_log(30)

    async def begins() -> None:
        cluster = MemoryCluster(clock=iter(range(1, 1 << 30)).__next__, faults=SlowHalf(len(log)))
        cluster.create_topics(pools=1)
        for wire in log:
            cluster.store(topics.AUDIT.name, 0, POOL.encode(), wire.headers, wire.value)
        metrics, stop = Metrics(), asyncio.Event()
        settings = RollupSettings(pools=tmp_path / "pools.yaml", state_dir=tmp_path)
        service = RollupService(settings, metrics, cluster.client("rollup"))
        running = asyncio.create_task(service.run(stop))

        def says(name: str, **labels: str) -> float | None:
            return metrics.registry.get_sample_value(name, {"pool": POOL, **labels})

        async def until(condition: Callable[[], bool]) -> None:
            async with asyncio.timeout(2 * COMES_LATE_S):
                while not condition():
                    assert not running.done(), running.result()
                    await asyncio.sleep(1)

        await until(lambda: says("bailiff_log_lag") == len(log) - len(log) // 2)
        assert service.readiness() == {POOL: "reading its log"}
        assert says("bailiff_jobs_submitted_total", priority_class="train") is None

        await until(lambda: service.readiness() == {"group": None})
        assert says("bailiff_jobs_submitted_total", priority_class="train") == 60
        await until(lambda: says("bailiff_log_lag") == 0)

        groups[0].owned = frozenset()
        groups[0].changed.set()
        await until(lambda: says("bailiff_log_lag") is None)  # another replica tells it now
        stop.set()
        await running

    run(begins())
