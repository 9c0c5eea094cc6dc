"""Follows one pool: folds its log as it grows and publishes changes to subscribers, at most five times a second.

During a Kafka outage the last state stays visible, and the fold resumes where it was. A log that was truncated or replaced is
folded from its start, and every subscriber gets a fresh snapshot.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from bailiff.client.pool_ref import PoolRef
from bailiff.client.rejections import PoolAlarms
from bailiff_bus.port import Bus, BusUnavailable, OffsetOutOfRange
from bailiff_console.history.snapshots import PointInTime, Snapshots
from bailiff_console.history.state_at import StateHistory, head_after
from bailiff_core.model.state import PoolState
from bailiff_core.records.wire import UnreadableRecord
from bailiff_log.job_index import JobIndex
from bailiff_log.projection import Projection, StateDiverged
from bailiff_log.reader import Entry
from bailiff_log.snapshot_file import SnapshotDraft
from bailiff_service.gc_tuning import freeze_objects, unfreeze_and_collect
from bailiff_service.logs import logger
from bailiff_service.metrics import Metrics
from bailiff_service.pool_ownership import IDLE_WAIT_S
from bailiff_service.race import race

from .change import Show, event
from .change_tracker import ChangeTracker
from .event_lines import event_lines
from .pool_projection import PoolProjection
from .subscribers import MIN_INTERVAL_S, Subscribers
from .telemetry_history import TelemetryHistory
from .view_cache import ViewCache

TICK_S = MIN_INTERVAL_S + 0.015  # a tick's events are sent before the next tick
OPEN_CYCLE_S = 0.2  # maximum wait for the rest of an open decision cycle
PAUSE_S = 1.0
PAUSE_AFTER_FAULT_S = 30.0
LINES_FROM = 2000  # records before the end of the log: rendered as event lines at startup


class PoolFollower:
    """fault: why the log cannot be followed; None during a mere Kafka outage. ready: the log was read to its end once.

    on_record: called with each record after that, once it is folded. reading: incremented each time the log is read from its
    start, when it may be another log.
    """

    def __init__(self, bus: Bus, place: PoolRef, metrics: Metrics, folder: Path, most_snapshots: int = 64) -> None:
        self.bus, self.place, self._metrics, self._folder = bus, place, metrics, folder / place.identity[:16]
        self.history = StateHistory(
            bus, place.name, place.partition, Snapshots(self._folder / "past", place.name, most_snapshots)
        )
        self.subscribers, self.alarms = Subscribers(), PoolAlarms(bus)
        self._watched = Counter[str]()
        self.fault: str | None = None
        self.ready = False
        self.on_record: Callable[[Entry], None] = lambda _: None
        self._changed = asyncio.Event()
        self._tracker = ChangeTracker()
        self._lines: list[bytes] = []
        self._log = logger(pool=place.name)
        self._opened = False
        self.telemetry_history = TelemetryHistory()
        self._telemetry: dict[str, Any] = {}
        self._new_telemetry: dict[str, Any] = {}
        self.reading = 0
        self._reset(resume=True)

    def _reset(self, *, resume: bool) -> None:
        """Start from the saved state, or from the first record."""
        self.view_cache, self.job_index = ViewCache(), JobIndex()
        self.pool_projection = PoolProjection(self.place.name, self.view_cache, self._watched)
        self.log_projection = _CachedProjection(self, self.bus, self._metrics, self._folder if resume else None)
        self._opened, self.ready = False, False
        self.reading += 1

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def state(self) -> PoolState:
        """The state after the last folded record. Trial changes to its scheduling snapshot must be undone before the next
        await.
        """
        return self.log_projection.state

    async def run(self) -> None:
        """Follow the log until cancelled."""
        try:
            while True:
                try:
                    await self._follow()
                except BusUnavailable as error:
                    self._log.warning("Kafka is unavailable", why=str(error))
                    await self.log_projection.close()
                    await asyncio.sleep(PAUSE_S)
                except OffsetOutOfRange as error:
                    self._log.error("the log was truncated; reading it from its start", why=str(error))
                    await self._restart()
                except (StateDiverged, UnreadableRecord) as fault:
                    self.fault = str(fault)
                    self._log.error(f"cannot follow the log: {fault}")
                    await asyncio.sleep(PAUSE_AFTER_FAULT_S)
                    await self._restart()
        finally:
            await self.history.close()
            await self.log_projection.close()

    async def _restart(self) -> None:
        await self.log_projection.close()
        await self.history.close()
        self.history.snapshots.forget()
        self._reset(resume=False)
        unfreeze_and_collect()  # the previous projection

    async def _follow(self) -> None:
        if not self._opened:
            await self.log_projection.open()
            self._opened = True
            if self.log_projection.state.seq >= 0 and not self._restore_view_cache():
                await self.log_projection.close()
                self._reset(resume=False)
                self._opened = True
            self.history.snapshots.forget(self.log_projection.state.seq)  # nothing beyond is confirmed by the log
        if not self.ready:
            await self.log_projection.catch_up()
            freeze_objects()
            self.pool_projection.rebuild(self.state, self.log_projection.head.hash, self.log_projection.reader.orphans)
            self._tracker.clear()
            self._lines.clear()
            self.ready, self.fault = True, None
            self.subscribers.reset()
        await race(self._advance(), self._tick())

    async def _advance(self) -> None:
        while True:
            if await self.log_projection.advance(IDLE_WAIT_S):
                self._changed.set()

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        last = float("-inf")
        while True:
            await self._changed.wait()
            await asyncio.sleep(last + TICK_S - loop.time())
            self._changed.clear()
            if self.state.cycle_open:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), OPEN_CYCLE_S)
                self._changed.clear()
            last = loop.time()
            self.tick()

    def tick(self) -> None:
        """Publish the changes since the last tick."""
        if self.state.seq != self.pool_projection.position.seq:
            self._publish_change()
        if self._new_telemetry:
            self.subscribers.broadcast(_telemetry(self._new_telemetry), "telemetry")
            self._new_telemetry = {}

    def _publish_change(self) -> None:
        self._tracker.include_preemptors(self.state)
        lines, self._lines = self._lines, []
        change = self.pool_projection.update(
            self.state, self.log_projection.head.hash, self._tracker, lines, self.log_projection.reader.orphans
        )
        self._tracker.clear()
        self.subscribers.publish(change)

    # --- besides the log

    def watch(self, job: str) -> None:
        """The live rows include this job, until `unwatch`."""
        self._watched[job] += 1
        if self.ready:
            self.pool_projection.watch(self.state, job)

    def unwatch(self, job: str) -> None:
        """Undo one `watch`."""
        self._watched[job] -= 1
        if self._watched[job] <= 0:
            del self._watched[job]

    def snapshot_event(self, show: Show) -> bytes:
        """The first events for a subscriber of these parts."""
        known = bool(self._telemetry) and "telemetry" in show
        return self.pool_projection.snapshot_event(show) + (_telemetry(self._telemetry) if known else b"")

    def update_telemetry(self, nodes: dict[str, Any]) -> None:
        """Store the newest GPU telemetry of these nodes."""
        self._telemetry |= nodes
        for name in [name for name in self._telemetry if name not in self.state.node_numbers]:
            del self._telemetry[name]
        self.telemetry_history.keep(self._telemetry)
        self._new_telemetry |= nodes
        self._changed.set()

    # --- called by the projection

    def on_entry(self, entry: Entry) -> None:
        """The next record; the state is after it."""
        record, state = entry.record, self.log_projection.state
        if record.seq == 0:
            self.view_cache.clear()  # the saved state was not confirmed: the log is read from its start
            self.history.snapshots.forget()
        self.view_cache.take(record, state)
        if record.cycle_end and self.history.snapshots.wants(record.seq, self.log_projection.reader.known_end):
            self.history.snapshots.keep(PointInTime(state, self.view_cache, head_after(entry, state), entry.offset + 1))
        if self.ready:
            self.on_record(entry)
            self._tracker.take(record, state)
            self._lines += event_lines(record, state)
        elif entry.offset + LINES_FROM >= self.log_projection.reader.known_end:
            self.pool_projection.events.extend(event_lines(record, state))

    def save_view_cache(self, seq: int) -> None:
        """Save the view cache next to the projection's snapshot of the same record."""
        draft = self._view_cache_file.with_suffix(".draft")
        draft.write_text(json.dumps({"seq": seq, "view_cache": self.view_cache.to_data()}), encoding="utf-8")
        draft.replace(self._view_cache_file)

    @property
    def _view_cache_file(self) -> Path:
        return self._folder / "view_cache.json"

    def _restore_view_cache(self) -> bool:
        """Load the saved view cache. Returns whether it is of the same record as the projection's snapshot."""
        try:
            found = json.loads(self._view_cache_file.read_text(encoding="utf-8"))
            if found["seq"] != self.log_projection.state.seq:
                return False
            self.view_cache.restore(ViewCache.from_data(found["view_cache"]))
            self.job_index.load(self.log_projection.state)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False
        return True


def _telemetry(nodes: dict[str, Any]) -> bytes:
    return event("telemetry", orjson.dumps({"nodes": nodes}))


class _CachedProjection(Projection):
    """Projection that saves the view cache next to its snapshot; continues without both if the disk is not writable."""

    def __init__(self, followed: PoolFollower, bus: Bus, metrics: Metrics, snapshots: Path | None) -> None:
        place = followed.place
        super().__init__(
            bus,
            place.name,
            place.partition,
            metrics,
            snapshots=snapshots,
            observe=followed.on_entry,
            job_index=followed.job_index,
        )
        self._followed = followed

    def save_snapshot(self, draft: SnapshotDraft, digest: Entry) -> None:
        super().save_snapshot(draft, digest)
        try:
            if self.unwritable is None:
                self._followed.save_view_cache(digest.record.seq - 1)
        except OSError as error:
            self._log.warning("cannot write the view cache; the next start reads the whole log", why=str(error))
            self.unwritable = str(error)
