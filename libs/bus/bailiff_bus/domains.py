"""Which replica works on which domain: all replicas follow all domains, a consumer group deals them out.

The group only decides who tries; the chain decides who wins. Taking over a dead replica's domain is the same path as a
restart: catch up, begin.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from . import topics
from .ambient import REAL, Ambient
from .envelope import wrap
from .garbage import state_is_gone, state_stays
from .log import OutcomeUnknown, SteppedDown
from .logs import logger
from .messages import Alarm
from .metrics import Metrics
from .port import Bus, BusUnavailable, OffsetGone
from .runtime import ExitCode, MustStop
from .settings import PoolDeclaration, ServiceSettings, read_pools
from .until_first import until_first
from .view import DomainView, StateDiverged

OpenView = Callable[[PoolDeclaration], Awaitable[DomainView]]
Work = Callable[[DomainView], Awaitable[None]]

PAUSE_AFTER_STEPPING_DOWN = 0.2
LAG_EVERY = 5.0


class Domains:
    """Follows every declared domain, and runs `work` on those that the group gave to this replica.

    work: one incarnation of the service on one domain, on a view at hand; ends only by an exception. After
    `SteppedDown` and `OutcomeUnknown` a new view is opened and it begins again; any other exception ends the whole service.
    """

    def __init__(
        self,
        bus: Bus,
        group: str,
        instance: str | None,
        pools: tuple[PoolDeclaration, ...],
        open_view: OpenView,
        work: Work,
        metrics: Metrics,
        ambient: Ambient = REAL,
    ) -> None:
        self._bus, self._group, self._instance, self._ambient = bus, group, instance, ambient
        self._pools, self._open_view, self._work, self._metrics = pools, open_view, work, metrics
        self._states: dict[str, str | None] = {pool.name: "its log is being read" for pool in pools}
        self._views: dict[str, DomainView] = {}
        self._owned: frozenset[int] = frozenset()
        self._changed = asyncio.Event()
        self._log = logger()

    def readiness(self) -> Mapping[str, str | None]:
        """Per domain: None once its log has begun and was read to the end."""
        return {name: state or self._not_begun(name) for name, state in self._states.items()}

    def _not_begun(self, name: str) -> str | None:
        view = self._views.get(name)
        return "its log has not begun" if view is None or view.pool.seq < 0 else None

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. What the first failing task raises is raised here."""
        gc.disable()  # a fold makes no cycles, and a state that grows would be looked through again and again
        try:
            await until_first(*map(self._tend, self._pools), self._follow_group(), self._measure_lag(), stop.wait())
        finally:
            gc.enable()

    async def _follow_group(self) -> None:
        while any(self._states.values()):
            await self._next_change()
        seat = await self._bus.join(self._group, topics.AUDIT.name, self._instance)
        try:
            owned = seat.owned
            while True:
                self._owned = owned
                self._log.info("domains owned", partitions=sorted(owned))
                self._wake()
                owned = await seat.changed()
        finally:
            with suppress(asyncio.CancelledError):
                await seat.leave()

    async def _tend(self, pool: PoolDeclaration) -> None:
        while True:
            again = pool.name in self._views
            view = self._views[pool.name] = await self._open_view(pool)
            if again:
                state_is_gone()  # the view's before this one
            try:
                await view.open()
                await view.catch_up()
                self._states[pool.name] = None
                if not any(self._states.values()):
                    state_stays()
                    gc.enable()
                self._wake()
                await self._stand_by(view, pool.partition)
                await self._work_while_owned(view, pool)
            except (SteppedDown, OutcomeUnknown) as reason:
                self._log.warning("stepped down", domain=pool.name, reason=str(reason))
                await asyncio.sleep(PAUSE_AFTER_STEPPING_DOWN)
            except StateDiverged as diverged:
                await self._alarm(pool.name, "state-diverged", str(diverged))
                raise MustStop(ExitCode.STATE_DIVERGED, str(diverged)) from None
            except OffsetGone as gone:
                self._log.error("the log ends before what was read of it; reading what is left", domain=pool.name, why=str(gone))
            finally:
                await view.close()

    async def _measure_lag(self) -> None:
        while True:
            await asyncio.sleep(LAG_EVERY)
            with suppress(BusUnavailable):
                spans = await self._bus.spans(topics.AUDIT.name)
                for pool in self._pools:
                    if pool.name in self._views and pool.partition in spans:
                        behind = spans[pool.partition].end - self._views[pool.name].offset
                        self._metrics.log_lag.labels(pool.name).set(max(0, behind))

    async def _alarm(self, domain: str, code: str, text: str) -> None:
        alarm = Alarm(severity="critical", code=code, text=text)
        at = self._ambient.wall()
        headers, value = wrap(alarm, source=f"/bailiff/{domain}/{self._group}", id=f"{code}/{at}", domain=domain, time_us=at)
        producer = await self._bus.producer()
        try:
            await (await producer.send(topics.ALARMS.name, value, key=domain.encode(), headers=headers))
        finally:
            await producer.close(1.0)

    async def _stand_by(self, view: DomainView, partition: int) -> None:
        while partition not in self._owned:
            await view.advance(0.5)

    async def _work_while_owned(self, view: DomainView, pool: PoolDeclaration) -> None:
        work = asyncio.ensure_future(self._work(view))
        try:
            while pool.partition in self._owned:
                change = asyncio.ensure_future(self._next_change())
                await asyncio.wait({work, change}, return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                if work.done():
                    work.result()
                    return
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _next_change(self) -> None:
        await self._changed.wait()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


async def check_topics(bus: Bus) -> None:
    """Refuse to run where the audit topic's settings could lose, cut or reorder the log. Raises `MustStop`."""
    try:
        found = await bus.topic_settings(topics.AUDIT.name)
        faults = topics.check_audit_settings(found, int(found["brokers"]))
    except KeyError:
        raise MustStop(
            ExitCode.KAFKA_SETTINGS, f"there is no topic {topics.AUDIT.name}: run `bailiff topics create` first"
        ) from None
    if faults:
        raise MustStop(ExitCode.KAFKA_SETTINGS, "; ".join(faults))


class FollowingService:
    """A service that follows every declared domain and runs `work` on those that its group gives to this replica."""

    def __init__(self, name: str, settings: ServiceSettings, metrics: Metrics, bus: Bus, work: Work) -> None:
        self.name = name
        self._settings, self._metrics, self._bus = settings, metrics, bus
        self._pools = read_pools(settings.pools)
        self._domains = Domains(bus, f"bailiff-{name}", settings.instance, self._pools, self._open_view, work, metrics)

    def readiness(self) -> Mapping[str, str | None]:
        """Ready when every domain's log has begun and was read to its end."""
        return self._domains.readiness()

    async def run(self, stop: asyncio.Event) -> None:
        """Until asked to stop."""
        try:
            await check_topics(self._bus)
            await self._domains.run(stop)
        finally:
            await self._bus.close()

    async def _open_view(self, pool: PoolDeclaration) -> DomainView:
        snapshots = self._settings.state_dir / self.name
        return DomainView(self._bus, pool.name, pool.partition, self._metrics, snapshots=snapshots)
