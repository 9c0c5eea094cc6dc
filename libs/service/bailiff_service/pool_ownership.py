"""Assigns pools to replicas: a consumer group assigns each pool to one of them, and to a second one that follows it.

At its start a replica reads the log of every pool; afterwards it follows those that it owns or stands by for. The group only
selects the replica that tries to write; the hash chain accepts the records of one writer only. Taking over a dead replica's
pool works like a restart: catch up, then begin.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from bailiff_bus import topics
from bailiff_bus.assignment import Assigned
from bailiff_bus.envelope import wrap
from bailiff_bus.messages.dead_letters import Alarm
from bailiff_bus.port import Bus, BusUnavailable, OffsetOutOfRange, TopicMissing, open_producer
from bailiff_core.decision_cycle import build_indices
from bailiff_core.model.state import PoolState
from bailiff_log.projection import Projection, StateDiverged
from bailiff_log.writer import OutcomeUnknown, SteppedDown

from .clock_and_ids import SYSTEM, ClockAndIds
from .exit_code import ExitCode, MustStop
from .gc_tuning import freeze_objects, unfreeze_and_collect
from .logs import logger
from .metrics import Metrics
from .race import race
from .settings import PoolDeclaration, ServiceSettings, read_pools

OpenProjection = Callable[[PoolDeclaration], Awaitable[Projection]]
Work = Callable[[Projection], Awaitable[None]]
OnLogEnd = Callable[[str, int], None]
"""Called with a pool and the offset at which its log ends."""

RESTART_PAUSE_S = 0.2
IDLE_WAIT_S = 30.0
LAG_INTERVAL_S = 5.0


class PoolOwnership:
    """Follows the pools assigned to this replica, and runs `work` on those that it owns.

    work: one incarnation of the service on one pool's projection; it ends only by an exception. After `SteppedDown` and
    `OutcomeUnknown` a new projection is opened and it starts again; any other exception ends the service. The ends of all logs
    are looked up every `ends_interval_s` seconds, by one query: for the metric of the lag, and for `on_log_end`.
    """

    def __init__(
        self,
        bus: Bus,
        group: str,
        instance: str | None,
        pools: tuple[PoolDeclaration, ...],
        open_projection: OpenProjection,
        work: Work,
        metrics: Metrics,
        clock_and_ids: ClockAndIds = SYSTEM,
        ends_interval_s: float = LAG_INTERVAL_S,
        on_log_end: OnLogEnd = lambda _pool, _end: None,
    ) -> None:
        self._ends_interval_s, self._on_log_end = ends_interval_s, on_log_end
        self._bus, self._group, self._instance, self._clock_and_ids = bus, group, instance, clock_and_ids
        self._pools, self._open_projection, self._work, self._metrics = pools, open_projection, work, metrics
        self._states: dict[str, str | None] = {pool.name: "reading its log" for pool in pools}
        self._projections: dict[str, Projection] = {}
        self._assigned: Assigned | None = None
        self._changed = asyncio.Event()
        self._log = logger()

    def readiness(self) -> Mapping[str, str | None]:
        """By pool: None once its log was read to its end, and exists if this replica follows it."""
        return {name: state or self._empty_log(name) for name, state in self._states.items()}

    def _empty_log(self, name: str) -> str | None:
        projection = self._projections.get(name)
        return "its log is empty" if projection is not None and projection.state.seq < 0 else None

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set. Raises the exception of the first task that fails."""
        gc.disable()  # folding creates no reference cycles, and scanning a growing state repeatedly is expensive
        try:
            await race(*map(self._run_pool, self._pools), self._follow_group(), self._watch_ends(), stop.wait())
        finally:
            gc.enable()

    async def _follow_group(self) -> None:
        while any(self._states.values()):
            await self._next_change()
        membership = await self._bus.join(self._group, topics.AUDIT.name, self._instance)
        try:
            assigned = membership.assigned
            while True:
                self._assigned = assigned
                self._log.info("pools assigned", owned=sorted(assigned.owned), standby=sorted(assigned.standby))
                self._wake()
                assigned = await membership.changed()
        finally:
            with suppress(asyncio.CancelledError):
                await membership.leave()

    async def _run_pool(self, pool: PoolDeclaration) -> None:
        reopened = False
        while True:
            while not self._follows(pool.partition):
                await self._next_change()
            await self._run_projection(pool, reopened)
            del self._projections[pool.name]
            self._metrics.forget_log(pool.name)
            reopened = True

    async def _run_projection(self, pool: PoolDeclaration, reopened: bool) -> None:
        """Until it steps down, or the pool is assigned to others."""
        projection = self._projections[pool.name] = await self._open_projection(pool)
        if reopened:
            unfreeze_and_collect()  # of the previous projection
        try:
            await projection.open()
            await projection.catch_up()
            self._states[pool.name] = None
            if not any(self._states.values()):
                freeze_objects()
                gc.enable()
            self._wake()
            while self._follows(pool.partition):
                if self._owns(pool.partition):
                    await self._work_while_owned(projection, pool)
                    return
                await projection.advance(IDLE_WAIT_S)
        except (SteppedDown, OutcomeUnknown) as reason:
            self._log.warning("stepped down", pool=pool.name, reason=str(reason))
            await asyncio.sleep(RESTART_PAUSE_S)
        except StateDiverged as diverged:
            await self._alarm(pool.name, "state-diverged", str(diverged))
            raise MustStop(ExitCode.STATE_DIVERGED, str(diverged)) from None
        except OffsetOutOfRange as gone:
            self._log.error("the log was truncated; reading the rest", pool=pool.name, reason=str(gone))
        finally:
            await projection.close()

    async def _watch_ends(self) -> None:
        while True:
            await asyncio.sleep(self._ends_interval_s)
            with suppress(BusUnavailable):
                spans = await self._bus.spans(topics.AUDIT.name)
                for pool in self._pools:
                    if pool.name in self._projections and pool.partition in spans:
                        end = spans[pool.partition].end
                        self._metrics.log_lag.labels(pool.name).set(max(0, end - self._projections[pool.name].offset))
                        self._on_log_end(pool.name, end)

    async def _alarm(self, pool: str, code: str, text: str) -> None:
        alarm = Alarm(severity="critical", code=code, text=text)
        at = self._clock_and_ids.wall()
        headers, value = wrap(alarm, source=f"/bailiff/{pool}/{self._group}", id=f"{code}/{at}", pool=pool, time_us=at)
        async with open_producer(self._bus) as producer:
            await (await producer.send(topics.ALARMS.name, value, key=pool.encode(), headers=headers))

    def _follows(self, partition: int) -> bool:
        """Every pool, until the group has assigned them."""
        return self._assigned is None or partition in self._assigned.owned | self._assigned.standby

    def _owns(self, partition: int) -> bool:
        return self._assigned is not None and partition in self._assigned.owned

    async def _work_while_owned(self, projection: Projection, pool: PoolDeclaration) -> None:
        work = asyncio.ensure_future(self._work(projection))
        try:
            while self._owns(pool.partition):
                change = asyncio.ensure_future(self._next_change())
                await asyncio.wait({work, change}, return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                if work.done():
                    work.result()
                    return
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    def _next_change(self) -> Awaitable[object]:
        """The next change after this call, whenever it is awaited."""
        return self._changed.wait()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for projection in self._projections.values():
            projection.wake()


async def check_topics(bus: Bus) -> None:
    """Verify that the audit topic's settings cannot lose, truncate or reorder the log. Raises `MustStop`."""
    try:
        found = await bus.topic_settings(topics.AUDIT.name)
        faults = topics.check_audit_settings(found, int(found["brokers"]))
    except TopicMissing as error:
        raise MustStop(ExitCode.KAFKA_SETTINGS, str(error)) from None
    if faults:
        raise MustStop(ExitCode.KAFKA_SETTINGS, "; ".join(faults))


class PoolService:
    """A service that follows the pools assigned to this replica and runs `work` on those that it owns (`PoolOwnership`)."""

    def __init__(
        self,
        name: str,
        settings: ServiceSettings,
        metrics: Metrics,
        bus: Bus,
        work: Work,
        *,
        ends_interval_s: float = LAG_INTERVAL_S,
        on_log_end: OnLogEnd = lambda _pool, _end: None,
    ) -> None:
        self.name = name
        self._settings, self._metrics, self._bus = settings, metrics, bus
        self._pools = read_pools(settings.pools)
        self._ownership = PoolOwnership(
            bus,
            f"bailiff-{name}",
            settings.instance,
            self._pools,
            self._open_projection,
            work,
            metrics,
            ends_interval_s=ends_interval_s,
            on_log_end=on_log_end,
        )

    def readiness(self) -> Mapping[str, str | None]:
        """Ready when every pool's log exists and was read to its end."""
        return self._ownership.readiness()

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set."""
        try:
            await check_topics(self._bus)
            await self._ownership.run(stop)
        finally:
            await self._bus.close()

    async def _open_projection(self, pool: PoolDeclaration) -> Projection:
        snapshots = self._settings.state_dir / self.name
        return Projection(self._bus, pool.name, pool.partition, self._metrics, snapshots=snapshots)


def prepare_state(state: PoolState) -> None:
    """Build the scheduling indices before the first decision, and exclude all objects from garbage collection."""
    build_indices(state)
    freeze_objects()
