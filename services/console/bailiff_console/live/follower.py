"""One pool followed: its log folded as it grows, and a tick at most five times a second that tells its pages what changed.

Kafka may go and come back: the picture stays as it was, and the fold goes on where it stood. A log that was cut short, or is
another one, is folded anew, and every page gets a fresh board.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from bailiff.client import Domain
from bailiff_bus.garbage import state_is_gone, state_stays
from bailiff_bus.log import Entry
from bailiff_bus.logs import logger
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Bus, BusUnavailable, OffsetGone
from bailiff_bus.until_first import until_first
from bailiff_bus.view import DomainView, StateDiverged
from bailiff_console.past.snapshots import Moment, Snapshots
from bailiff_console.past.walk import Past, head_after
from bailiff_core.model.pool import Pool
from bailiff_core.records.wire import UnreadableRecord

from .change import Show, event
from .eventlines import event_lines
from .histories import Histories
from .memo import Memo
from .pages import PACE_S, Pages
from .picture import Picture
from .touched import Touched

TICK_S = PACE_S + 0.015  # what one tick tells has been sent to everybody when the next one comes
OPEN_TURN_S = 0.2  # so long a tick waits for the rest of a turn
PAUSE_S = 1.0
PAUSE_AFTER_FAULT_S = 30.0
LINES_FROM = 2000  # records before the end of the log: those are told, so that the newest lines are there from the start


class Followed:
    """fault: why its log cannot be followed; None while it is, or Kafka is only away. ready: it was read to its end once.

    heard: called with each record from then on, once it is folded. reading: how often its log was begun to be read; another time
    it may be another log.
    """

    def __init__(self, bus: Bus, place: Domain, metrics: Metrics, folder: Path, most_snapshots: int = 64) -> None:
        self.bus, self.place, self._metrics, self._folder = bus, place, metrics, folder / place.identity[:16]
        self.past = Past(bus, place.name, place.partition, Snapshots(self._folder / "past", place.name, most_snapshots))
        self.pages = Pages()
        self.fault: str | None = None
        self.ready = False
        self.unwritable: str | None = None
        self.heard: Callable[[Entry], None] = lambda _: None
        self._changed = asyncio.Event()
        self._touched = Touched()
        self._lines: list[bytes] = []
        self._log = logger(domain=place.name)
        self._opened = False
        self._measured: dict[str, Any] = {}
        self._measured_since: dict[str, Any] = {}
        self.reading = 0
        self._new(kept=True)

    def _new(self, *, kept: bool) -> None:
        """Begin from what was kept, or from the log's first record."""
        self.memo, self.histories = Memo(), Histories()
        self.picture = Picture(self.place.name, self.memo)
        self.view = _View(self, self.bus, self._metrics, self._folder if kept else None)
        self._opened, self.ready = False, False
        self.reading += 1

    @property
    def name(self) -> str:
        """Of the pool."""
        return self.place.name

    @property
    def pool(self) -> Pool:
        """The state after the last record that was read. Whoever tries things on its scene takes them back before it waits."""
        return self.view.pool

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                try:
                    await self._follow()
                except BusUnavailable as away:
                    self._log.warning("Kafka is not there", why=str(away))
                    await self.view.close()
                    await asyncio.sleep(PAUSE_S)
                except OffsetGone as gone:
                    self._log.error("the log ends before what was read of it; reading what is left", why=str(gone))
                    await self._again()
                except (StateDiverged, UnreadableRecord) as fault:
                    self.fault = str(fault)
                    self._log.error(f"the log cannot be followed: {fault}")
                    await asyncio.sleep(PAUSE_AFTER_FAULT_S)
                    await self._again()
        finally:
            await self.past.close()
            await self.view.close()

    async def _again(self) -> None:
        await self.view.close()
        await self.past.close()
        self.past.snapshots.forget()
        self._new(kept=False)
        state_is_gone()  # the view's before this one

    async def _follow(self) -> None:
        if not self._opened:
            await self.view.open()
            self._opened = True
            if self.view.pool.seq >= 0 and not self._recall():
                await self.view.close()
                self._new(kept=False)
                self._opened = True
            self.past.snapshots.forget(self.view.pool.seq)  # the log confirms nothing beyond that
        if not self.ready:
            await self.view.catch_up()
            state_stays()
            self.picture.all_anew(self.pool, self.view.head.hash, self.view.reader.orphans)
            self._touched.clear()
            self._lines.clear()
            self.ready, self.fault = True, None
            self.pages.start_afresh()
        await until_first(self._advance(), self._tick())

    async def _advance(self) -> None:
        while True:
            if await self.view.advance(0.5):
                self._changed.set()

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        last = float("-inf")
        while True:
            await self._changed.wait()
            await asyncio.sleep(last + TICK_S - loop.time())
            self._changed.clear()
            if self.pool.turn_open:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), OPEN_TURN_S)
                self._changed.clear()
            last = loop.time()
            self.tick()

    def tick(self) -> None:
        """Tell everybody what changed since the last one."""
        if self.pool.seq != self.picture.place.seq:
            self._tell_change()
        if self._measured_since:
            self.pages.tell(_telemetry(self._measured_since), "telemetry")
            self._measured_since = {}

    def _tell_change(self) -> None:
        self._touched.settle(self.pool)
        lines, self._lines = self._lines, []
        change = self.picture.update(self.pool, self.view.head.hash, self._touched, lines, self.view.reader.orphans)
        self._touched.clear()
        self.pages.send(change)

    # --- beside the log

    def board(self, show: Show) -> bytes:
        """What a page with these parts begins with."""
        known = bool(self._measured) and "telemetry" in show
        return self.picture.board(show) + (_telemetry(self._measured) if known else b"")

    def measured(self, nodes: dict[str, Any]) -> None:
        """The newest look at the GPUs of these nodes."""
        self._measured |= nodes
        for name in [name for name in self._measured if name not in self.pool.node_numbers]:
            del self._measured[name]
        self._measured_since |= nodes
        self._changed.set()

    # --- as the view folds

    def folded(self, entry: Entry) -> None:
        """The next record; the pool is just after it."""
        record, pool = entry.record, self.view.pool
        if record.seq == 0:
            self.memo.clear()  # what was kept was not confirmed, and the log is read from its start
            self.histories.clear()
            self.past.snapshots.forget()
        self.memo.take(record, pool)
        self.histories.take(entry, pool)
        if record.turn_end and self.past.snapshots.wants(record.seq, self.view.reader.known_end):
            self.past.snapshots.keep(Moment(pool, self.memo, head_after(entry), entry.offset + 1))
        if self.ready:
            self.heard(entry)
            self._touched.take(record, pool)
            self._lines += event_lines(record, pool)
        elif entry.offset + LINES_FROM >= self.view.reader.known_end:
            self.picture.events.extend(event_lines(record, pool))

    def keep_memo(self, seq: int) -> None:
        """Beside the view's snapshot, which is of this record, too."""
        draft = self._memo_file.with_suffix(".draft")
        draft.write_text(
            json.dumps({"seq": seq, "memo": self.memo.to_data(), "histories": self.histories.to_data()}), encoding="utf-8"
        )
        draft.replace(self._memo_file)

    @property
    def _memo_file(self) -> Path:
        return self._folder / "memo.json"

    def _recall(self) -> bool:
        """Whether the memo that was kept is of the view's snapshot; then it is the present one."""
        try:
            found = json.loads(self._memo_file.read_text(encoding="utf-8"))
            if found["seq"] != self.view.pool.seq:
                return False
            self.memo.become(Memo.from_data(found["memo"]))
            self.histories.become(found["histories"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False
        return True


def _telemetry(nodes: dict[str, Any]) -> bytes:
    return event("telemetry", orjson.dumps({"nodes": nodes}))


class _View(DomainView):
    """Keeps the memo beside its snapshot; where neither can be written, goes on without."""

    def __init__(self, followed: Followed, bus: Bus, metrics: Metrics, snapshots: Path | None) -> None:
        place = followed.place
        super().__init__(bus, place.name, place.partition, metrics, snapshots=snapshots, observe=followed.folded)
        self._followed = followed

    def keep(self, state: bytes, now: int, digest: Entry) -> None:
        try:
            super().keep(state, now, digest)
            self._followed.keep_memo(digest.record.seq - 1)
            self._followed.unwritable = None
        except OSError as error:
            self.digest_seq = digest.record.seq
            if self._followed.unwritable is None:
                self._log.warning("what was folded cannot be kept on disk; the next start reads the whole log", why=str(error))
            self._followed.unwritable = str(error)
