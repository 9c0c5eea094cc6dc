"""State of a pool after any record: replayed from the nearest snapshot.

A replay goes forward only. The most recent replays stay open, so that moving a time slider folds only the records between.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice, takewhile
from pathlib import Path

from bailiff_bus.port import Bus, BusUnavailable, OffsetOutOfRange
from bailiff_core.fold import apply
from bailiff_core.fold.keys import log_keys
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead, Record
from bailiff_core.records.wire import time_text
from bailiff_log.reader import AuditReader, Entry
from bailiff_service.problems import unavailable

from .snapshots import PointInTime, Snapshots

MAX_REPLAYS = 3  # per pool
IDLE_S = 60.0  # then replays are closed: each holds a whole state
READ_TIMEOUT_S = 8.0
READ_S = 0.5
CHUNK = 1000  # records folded at a time


class StateHistory:
    """Point-in-time states of one pool. `at` serves one caller at a time, because folding is CPU-bound."""

    def __init__(self, bus: Bus, pool: str, partition: int, snapshots: Snapshots) -> None:
        self.bus, self.pool, self.partition, self.snapshots = bus, pool, partition, snapshots
        self._replays: list[_Replay] = []  # least recently used first
        self._lock = asyncio.Lock()
        self._used = 0.0

    @asynccontextmanager
    async def at(self, *, seq: int | None = None, time: int | None = None, end: int) -> AsyncIterator[PointInTime]:
        """State after this record, or after the last one until this time (µs), which must be in the log.

        end: approximate length of the log. The yielded state is shared: do not keep it.
        """
        async with self._lock:
            replay = await self._nearest(seq, time)
            try:
                await replay.to(seq, time, end)
            except BaseException as error:
                await self._close(replay)
                if isinstance(error, OffsetOutOfRange | BusUnavailable):
                    raise unavailable(f"cannot read the log up to that point: {error}") from None
                raise
            try:
                yield replay.moment
            finally:
                self._used = asyncio.get_running_loop().time()

    async def tidy(self) -> None:
        """Close replays after a time without use."""
        if self._replays and not self._lock.locked() and asyncio.get_running_loop().time() - self._used >= IDLE_S:
            await self._close(*self._replays)

    async def close(self) -> None:
        """Close all replays and flush the snapshots."""
        await asyncio.to_thread(self.snapshots.flush)
        await self._close(*self._replays)

    async def _nearest(self, seq: int | None, time: int | None) -> "_Replay":
        fits = [each for each in self._replays if (each.moment.seq <= seq if seq is not None else each.is_until(time or 0))]
        replay = max(fits, key=lambda each: each.moment.seq, default=None)
        position = replay.moment.seq if replay is not None else -1
        if replay is None or (seq is not None and self.snapshots.newest_before(seq) > position):
            replay = self._begin(await self.snapshots.before(seq=seq, time=time))
        elif time is not None and self.snapshots.newest_until(time) > position:
            replay = self._begin(await self.snapshots.before(time=time))
        self._replays = [*(each for each in self._replays if each is not replay), replay]
        await self._close(*self._replays[:-MAX_REPLAYS])
        return replay

    def _begin(self, moment: PointInTime) -> "_Replay":
        return _Replay(AuditReader(self.bus, self.pool, self.partition, moment.head, moment.offset), moment, self.snapshots)

    async def _close(self, *replays: "_Replay") -> None:
        self._replays = [each for each in self._replays if each not in replays]
        for each in replays:
            await each.close()


class _Replay:
    """One forward replay."""

    def __init__(self, reader: AuditReader, moment: PointInTime, snapshots: Snapshots) -> None:
        self._reader, self.moment, self._snapshots = reader, moment, snapshots
        self._ahead: deque[Entry] = deque()  # read and not yet folded

    def is_until(self, time: int) -> bool:
        """Whether it is at or before this time, so that it can advance to it."""
        return self.moment.seq < 0 or self.moment.state.now <= time

    async def to(self, seq: int | None, time: int | None, end: int) -> None:
        """Advance, folding in a thread so that live streams keep running."""
        while seq is None or self.moment.seq < seq:
            if not self._ahead:
                await self._read()
            fits = (each for each in self._ahead if time is None or each.record.time <= time)
            batch = list(islice(takewhile(lambda each: seq is None or each.record.seq <= seq, fits), CHUNK))
            if not batch:
                return
            folded, state = await asyncio.to_thread(self._fold, batch, end)
            for _ in range(folded):
                self._ahead.popleft()
            if state is not None:
                self._snapshots.keep(self.moment, state)

    async def close(self) -> None:
        await self._reader.close()

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                while not self._ahead:
                    self._ahead.extend(await self._reader.read(READ_S))
        except TimeoutError:
            raise unavailable("cannot read the log from Kafka: timeout") from None

    def _fold(self, batch: list[Entry], end: int) -> tuple[int, Path | None]:
        """Fold in a worker thread. Returns the number of folded entries, and the written state if a snapshot is due."""
        moment = self.moment
        for folded, entry in enumerate(batch, 1):
            record = entry.record
            apply(moment.state, record)
            moment.view_cache.take(record, moment.state)
            moment.head, moment.offset = head_after(entry, moment.state), entry.offset + 1
            if record.cycle_end and self._snapshots.wants(record.seq, end):
                return folded, self._snapshots.write_state(moment)
        return len(batch), None


def head_after(entry: Entry, state: PoolState) -> ChainHead:
    """The chain head after this record. state: after it."""
    record: Record = entry.record
    time, keys = time_text(record.time), log_keys(state)
    return ChainHead(record.pool, record.seq + 1, entry.hash, record.epoch, time, record.next_content if keys else "", keys)
