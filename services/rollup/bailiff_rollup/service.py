"""All declared domains counted: those that the group gives to this replica, from where they were stored last."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from time import monotonic

from bailiff_bus import topics
from bailiff_bus.domains import check_topics
from bailiff_bus.envelope import wrap
from bailiff_bus.logs import logger
from bailiff_bus.messages import MeasuredWindow, RollupWindow
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Bus, Message, OffsetGone, Producer, Reader
from bailiff_bus.runtime import ExitCode, MustStop
from bailiff_bus.settings import read_pools
from bailiff_bus.until_first import until_first
from bailiff_bus.view import StateDiverged
from bailiff_core.model.pool import Pool

from .counted import Counted
from .exported import Exported
from .figures import Figures
from .settings import RollupSettings
from .stream import Stream
from .tracesending import Sender

LAG_EVERY = 5.0


class RollupService:
    """Counts, publishes windows, stores the figures. A failure anywhere ends it; the next one goes on from what is stored."""

    name = "rollup"

    def __init__(self, settings: RollupSettings, metrics: Metrics, bus: Bus) -> None:
        self._settings, self._metrics, self._bus = settings, metrics, bus
        self._pools = {pool.partition: pool for pool in read_pools(settings.pools)}
        self._folder = settings.state_dir / self.name
        self._counted: dict[int, Counted] = {}
        self._locks: dict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._measuring: dict[int, asyncio.Task[None]] = {}
        self._stored: dict[int, tuple[int, float]] = {}  # how much was in them, and when
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stream = Stream(settings.kafka, settings.instance, self._folder / "faust", self._take)
        self._joined = False
        self._producer: Producer | None = None
        self._traces = Sender(bus)
        self._exported = Exported(self._found)

    def readiness(self) -> Mapping[str, str | None]:
        """Ready once the group has dealt the domains out, and this replica's were read to their end."""
        if not self._joined:
            return {"group": "waiting for its domains"}
        counted = {at for at, counted in self._counted.items() if counted.opened}
        missing = [pool.name for at, pool in self._pools.items() if at in self._stream.owned and at not in counted]
        return dict.fromkeys(missing, "its log is being read") or {"group": None}

    async def run(self, stop: asyncio.Event) -> None:
        """Until asked to stop."""
        await self._check()
        self._metrics.registry.register(self._exported)
        try:
            await until_first(self._stream.run(), self._tend(), self._measure_lag(), self._failed, stop.wait())
        except StateDiverged as diverged:
            raise MustStop(ExitCode.STATE_DIVERGED, str(diverged)) from None
        finally:
            self._metrics.registry.unregister(self._exported)
            for task in self._measuring.values():
                task.cancel()
            for counted in self._counted.values():
                await counted.close()
            await self._bus.close()

    async def _check(self) -> None:
        await check_topics(self._bus)
        for topic in (topics.ROLLUPS, topics.TELEMETRY, topics.ROLLUP_STATE):
            try:
                found = await self._bus.spans(topic.name)
            except KeyError:
                text = f"there is no topic {topic.name}: run `bailiff topics create` first"
                raise MustStop(ExitCode.KAFKA_SETTINGS, text) from None
        if len(found) < len(await self._bus.spans(topics.AUDIT.name)):
            text = f"{topics.ROLLUP_STATE.name} has fewer partitions than the log: run `bailiff topics create` again"
            raise MustStop(ExitCode.KAFKA_SETTINGS, text)

    def _found(self) -> Mapping[str, tuple[Figures, Pool]]:
        """Of domains that were read to their end: figures that catch up look as if all of it had happened just now."""
        owned = self._stream.owned
        return {
            counted.pool.name: (counted.figures, counted.view.pool)
            for at, counted in self._counted.items()
            if at in owned and counted.opened
        }

    async def _take(self, message: Message) -> None:
        try:
            if message.partition in self._pools:
                async with self._locks[message.partition]:
                    await (await self._at(message.partition)).take(message)
        except Exception as error:  # noqa: BLE001 - Faust would log it, pass the message over and go on
            if not self._failed.done():
                self._failed.set_exception(error)
            await asyncio.Event().wait()

    async def _tend(self) -> None:
        """Open what was given to this replica, also where nothing new comes; let go of what was taken away."""
        while True:
            self._stream.changed.clear()
            owned = self._stream.owned
            self._joined = self._joined or self._stream.joined
            for at in [at for at in self._counted if at not in owned]:
                async with self._locks[at]:
                    self._measuring.pop(at).cancel()
                    await self._counted.pop(at).close()
                    self._metrics.log_lag.remove(self._pools[at].name)  # what this replica last knew would stay for ever
                    logger(domain=self._pools[at].name).info("another replica counts the domain now")
            for at in sorted(owned & self._pools.keys()):
                async with self._locks[at]:
                    await self._at(at)
            await self._stream.changed.wait()

    async def _at(self, partition: int) -> Counted:
        """The domain of this partition, opened. Only under its lock."""
        found = self._counted.get(partition)
        if found is None:
            pool = self._pools[partition]
            stored = self._stream.stored(pool.name)
            found = Counted(self._bus, pool, self._metrics, self._folder, stored, self._keep)
            self._stored[partition] = (found.figures.moved, monotonic())
            logger(domain=pool.name).info("this replica counts the domain", from_seq=found.figures.next_seq)
            self._counted[partition] = found
            await found.open()
            self._measuring[partition] = asyncio.create_task(self._measure(partition, found))
        return found

    async def _measure(self, at: int, counted: Counted) -> None:
        """Follow what agents measure, from where this domain's figures have it: Faust knows nothing of this topic."""
        reader: Reader | None = None
        try:
            offsets, name = counted.figures.measured.offsets, topics.TELEMETRY.name
            spans = await self._bus.spans(name)
            reader = await self._bus.reader([(name, part, offsets.get(part, span.begin)) for part, span in spans.items()])
            while True:
                try:
                    messages = await reader.read()
                except OffsetGone as gone:
                    reader.follow(gone.topic, gone.partition, gone.span.begin)
                    continue
                if messages:
                    async with self._locks[at]:
                        await counted.measure(messages)
        except Exception as error:  # noqa: BLE001 - whatever it is ends the service
            if not self._failed.done():
                self._failed.set_exception(error)
        finally:
            if reader is not None:
                await reader.close()

    async def _keep(self, counted: Counted) -> None:
        """Publish what is due, then store where that has been a while: what is told again then says the same."""
        pool, figures = counted.pool, counted.figures
        due, counted.due = counted.due, []
        if due:
            await self._publish(pool.name, due)
        if counted.traces is not None and counted.traces.spans:
            traced, counted.traces.spans = counted.traces.spans, []
            await self._traces.send(traced)
        stored, at = self._stored[pool.partition]
        fresh = figures.moved - stored
        if fresh >= self._settings.store_records or (fresh > 0 and monotonic() - at >= self._settings.store_seconds):
            self._stored[pool.partition] = (figures.moved, monotonic())
            await self._stream.store(pool.name, pool.partition, figures.to_bytes())

    async def _publish(self, domain: str, windows: list[RollupWindow | MeasuredWindow]) -> None:
        if self._producer is None:
            self._producer = await self._bus.producer()
        parcels = []
        for window in windows:
            kind = "measured/" if isinstance(window, MeasuredWindow) else ""
            headers, value = wrap(
                window, source=f"/bailiff/{domain}/rollup", id=f"{kind}{window.window}/{window.begin}/{window.end}",
                domain=domain, time_us=window.end,
            )  # fmt: skip
            parcels.append((f"{domain}/{window.window}".encode(), headers, value))
        for batch in await self._producer.send_many(topics.ROLLUPS.name, parcels):
            await batch.first

    async def _measure_lag(self) -> None:
        """Also of domains that are being read to their end, which takes long the first time."""
        while True:
            spans = await self._bus.spans(topics.AUDIT.name)
            for at, counted in self._counted.items():
                if at in spans:
                    self._metrics.log_lag.labels(counted.pool.name).set(max(0, spans[at].end - counted.offset))
            await asyncio.sleep(LAG_EVERY)
