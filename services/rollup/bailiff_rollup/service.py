"""The roll-up service: aggregates the declared pools that the consumer group assigns to this replica."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.messages.rollups import RollupWindow, TelemetryWindow
from bailiff_bus.port import Bus, Message, OffsetOutOfRange, Producer, Reader
from bailiff_core.model.state import PoolState
from bailiff_log.projection import StateDiverged
from bailiff_service.exit_code import ExitCode, MustStop
from bailiff_service.logs import logger
from bailiff_service.metrics import Metrics
from bailiff_service.pool_ownership import IDLE_WAIT_S, check_topics
from bailiff_service.race import race
from bailiff_service.settings import read_pools

from .aggregates import Aggregates
from .exporter import RollupCollector
from .pool_rollup import PoolRollup
from .settings import RollupSettings
from .span_exporter import SpanSender
from .stream import Stream

LAG_EVERY = 5.0
TELEMETRY_STORED_EVERY_S = 300.0  # if there are no new records: the topic keeps what is measured again after a crash


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the last stored aggregates include, and when they were stored."""

    records: int
    size: int
    at: float

    @classmethod
    def now(cls, aggregates: Aggregates) -> "_Stored":
        return cls(aggregates.next_seq, aggregates.size, monotonic())

    def is_due(self, aggregates: Aggregates, settings: RollupSettings) -> bool:
        """Whether the aggregates are to be stored again."""
        unstored, passed = aggregates.size - self.size, monotonic() - self.at
        every = settings.store_seconds if aggregates.next_seq > self.records else TELEMETRY_STORED_EVERY_S
        return unstored >= settings.store_records or (unstored > 0 and passed >= every)


class RollupService:
    """Aggregates, publishes windows, stores the aggregates. Any failure ends the service; the next start resumes there."""

    name = "rollup"

    def __init__(self, settings: RollupSettings, metrics: Metrics, bus: Bus) -> None:
        self._settings, self._metrics, self._bus = settings, metrics, bus
        self._pools = {pool.partition: pool for pool in read_pools(settings.pools)}
        self._folder = settings.state_dir / self.name
        self._rollups: dict[int, PoolRollup] = {}
        self._locks: dict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._telemetry_tasks: dict[int, asyncio.Task[None]] = {}
        self._stored: dict[int, _Stored] = {}
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stream = Stream(settings.kafka, settings.instance, self._folder / "faust", self._take)
        self._joined = False
        self._producer: Producer | None = None
        self._traces = SpanSender(bus)
        self._collector = RollupCollector(self._open_rollups)

    def readiness(self) -> Mapping[str, str | None]:
        """Ready once pools are assigned and this replica's logs are read to their end."""
        if not self._joined:
            return {"group": "waiting for the assignment of pools"}
        opened = {at for at, rollup in self._rollups.items() if rollup.opened}
        missing = [pool.name for at, pool in self._pools.items() if at in self._stream.owned and at not in opened]
        return dict.fromkeys(missing, "reading its log") or {"group": None}

    async def run(self, stop: asyncio.Event) -> None:
        """Aggregate until stopped."""
        await self._check()
        self._metrics.registry.register(self._collector)
        try:
            await race(self._stream.run(), self._follow_assignment(), self._measure_lag(), self._failed, stop.wait())
        except StateDiverged as diverged:
            raise MustStop(ExitCode.STATE_DIVERGED, str(diverged)) from None
        finally:
            self._metrics.registry.unregister(self._collector)
            for task in self._telemetry_tasks.values():
                task.cancel()
            for rollup in self._rollups.values():
                await rollup.close()
            await self._bus.close()

    async def _check(self) -> None:
        await check_topics(self._bus)
        for topic in (topics.ROLLUPS, topics.TELEMETRY, topics.ROLLUP_STATE):
            found = await self._bus.spans(topic.name)
        if len(found) < len(await self._bus.spans(topics.AUDIT.name)):
            text = f"{topics.ROLLUP_STATE.name} has fewer partitions than the log: run `bailiff topics create` again"
            raise MustStop(ExitCode.KAFKA_SETTINGS, text)

    def _open_rollups(self) -> Mapping[str, tuple[Aggregates, PoolState]]:
        """Aggregates and state of pools whose log was read to its end. Those that catch up would show old events as current."""
        owned = self._stream.owned
        return {
            rollup.pool.name: (rollup.aggregates, rollup.projection.state)
            for at, rollup in self._rollups.items()
            if at in owned and rollup.opened
        }

    async def _take(self, message: Message) -> None:
        try:
            if message.partition in self._pools:
                async with self._locks[message.partition]:
                    await (await self._at(message.partition)).take(message)
        except Exception as error:  # noqa: BLE001 - Faust would log it, skip the message and continue
            if not self._failed.done():
                self._failed.set_exception(error)
            await asyncio.Event().wait()

    async def _follow_assignment(self) -> None:
        """Open assigned pools, even without new messages; close revoked ones."""
        while True:
            self._stream.changed.clear()
            owned = self._stream.owned
            self._joined = self._joined or self._stream.joined
            for at in [at for at in self._rollups if at not in owned]:
                async with self._locks[at]:
                    self._telemetry_tasks.pop(at).cancel()
                    await self._rollups.pop(at).close()
                    self._metrics.log_lag.remove(self._pools[at].name)  # a stale value would stay
                    logger(pool=self._pools[at].name).info("pool reassigned to another replica")
            for at in sorted(owned & self._pools.keys()):
                async with self._locks[at]:
                    await self._at(at)
            await self._stream.changed.wait()

    async def _at(self, partition: int) -> PoolRollup:
        """The roll-up of this partition's pool, opened. Call under its lock."""
        found = self._rollups.get(partition)
        if found is None:
            pool = self._pools[partition]
            stored = self._stream.stored(pool.name)
            found = PoolRollup(self._bus, pool, self._metrics, self._folder, stored, self._keep)
            self._stored[partition] = _Stored.now(found.aggregates)
            logger(pool=pool.name).info("aggregating the pool", from_seq=found.aggregates.next_seq)
            self._rollups[partition] = found
            await found.open()
            self._telemetry_tasks[partition] = asyncio.create_task(self._follow_telemetry(partition, found))
        return found

    async def _follow_telemetry(self, at: int, rollup: PoolRollup) -> None:
        """Aggregate telemetry from the stored position on. This topic is not read through Faust."""
        reader: Reader | None = None
        try:
            name, telemetry = topics.TELEMETRY.name, rollup.aggregates.telemetry
            while True:
                if reader is None:
                    before, begins = telemetry.topic_id, telemetry.begin(await self._bus.spans(name))
                    if before not in ("", telemetry.topic_id):
                        logger(pool=rollup.pool.name).warning(f"{name} was made anew: it is read from its begin")
                    reader = await self._bus.reader([(name, part, offset) for part, offset in begins.items()])
                try:
                    messages = await reader.read(wait=IDLE_WAIT_S)
                except OffsetOutOfRange:
                    await reader.close()
                    reader = None
                    continue
                if messages:
                    async with self._locks[at]:
                        await rollup.measure(messages)
        except Exception as error:  # noqa: BLE001 - any error ends the service
            if not self._failed.done():
                self._failed.set_exception(error)
        finally:
            if reader is not None:
                await reader.close()

    async def _keep(self, rollup: PoolRollup) -> None:
        """Publish due windows, then store the aggregates if due. After a crash the same messages are published again."""
        pool, aggregates = rollup.pool, rollup.aggregates
        due, rollup.due = rollup.due, []
        if due:
            await self._publish(pool.name, due)
        if rollup.traces is not None and rollup.traces.spans:
            spans, rollup.traces.spans = rollup.traces.spans, []
            await self._traces.send(spans)
        if self._stored[pool.partition].is_due(aggregates, self._settings):
            self._stored[pool.partition] = _Stored.now(aggregates)
            await self._stream.store(pool.name, pool.partition, aggregates.to_bytes())

    async def _publish(self, pool: str, windows: list[RollupWindow | TelemetryWindow]) -> None:
        if self._producer is None:
            self._producer = await self._bus.producer()
        messages = []
        for window in windows:
            kind = "measured/" if isinstance(window, TelemetryWindow) else ""
            headers, value = wrap(
                window,
                source=f"/bailiff/{pool}/rollup",
                id=f"{kind}{window.window}/{window.begin}/{window.end}",
                pool=pool,
                time_us=window.end,
            )
            messages.append((f"{pool}/{window.window}".encode(), headers, value))
        for batch in await self._producer.send_many(topics.ROLLUPS.name, messages):
            await batch.first

    async def _measure_lag(self) -> None:
        """Export the lag of each pool's log, also while it catches up."""
        while True:
            spans = await self._bus.spans(topics.AUDIT.name)
            for at, rollup in self._rollups.items():
                if at in spans:
                    self._metrics.log_lag.labels(rollup.pool.name).set(max(0, spans[at].end - rollup.offset))
            await asyncio.sleep(LAG_EVERY)
