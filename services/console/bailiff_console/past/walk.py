"""The pool just after any record: from the nearest state that is at hand, folded on with the log's records.

A walk goes forward only; the last few are kept open, so that who moves a slider pays for the records between two places.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice, takewhile

from bailiff_bus.log import AuditReader, Entry
from bailiff_bus.port import Bus, BusUnavailable, OffsetGone
from bailiff_console.problems import busy
from bailiff_core.fold import apply
from bailiff_core.fold.snapshot import to_snapshot
from bailiff_core.records import ChainHead, Record
from bailiff_core.records.wire import time_text

from .snapshots import Moment, Snapshots

OPEN = 3  # walks of one pool
IDLE_S = 60.0  # then they are let go: each holds a whole pool
SILENT_S = 8.0
READ_S = 0.5
CHUNK = 1000  # records folded at a time


class Past:
    """One pool's. `at` is for one at a time: folding is what it costs, and there is one processor to do it."""

    def __init__(self, bus: Bus, domain: str, partition: int, snapshots: Snapshots) -> None:
        self.bus, self.domain, self.partition, self.snapshots = bus, domain, partition, snapshots
        self._walks: list[_Walk] = []  # the one that was used last is the last
        self._one = asyncio.Lock()
        self._used = 0.0

    @asynccontextmanager
    async def at(self, *, seq: int | None = None, time: int | None = None, end: int) -> AsyncIterator[Moment]:
        """Just after this record, or after the last one until this time (µs). The log must go on behind that, or end there.

        end: how long the log is, about. What is given out may be looked at, not kept: it moves on.
        """
        async with self._one:
            walk = await self._nearest(seq, time)
            try:
                await walk.to(seq, time, end)
            except BaseException as error:
                await self._close(walk)
                if isinstance(error, OffsetGone | BusUnavailable):
                    raise busy(f"the log cannot be read that far now: {error}") from None
                raise
            try:
                yield walk.moment
            finally:
                self._used = asyncio.get_running_loop().time()

    async def tidy(self) -> None:
        """Let go of what nobody has looked at for a while."""
        if self._walks and not self._one.locked() and asyncio.get_running_loop().time() - self._used >= IDLE_S:
            await self._close(*self._walks)

    async def close(self) -> None:
        """Let go of what it reads, and have all of it on disk."""
        await asyncio.to_thread(self.snapshots.settle)
        await self._close(*self._walks)

    async def _nearest(self, seq: int | None, time: int | None) -> "_Walk":
        fits = [each for each in self._walks if (each.moment.seq <= seq if seq is not None else each.is_until(time or 0))]
        walk = max(fits, key=lambda each: each.moment.seq, default=None)
        there = walk.moment.seq if walk is not None else -1
        if walk is None or (seq is not None and self.snapshots.newest_before(seq) > there):
            walk = self._begin(await self.snapshots.before(seq=seq, time=time))
        elif time is not None and self.snapshots.newest_until(time) > there:
            walk = self._begin(await self.snapshots.before(time=time))
        self._walks = [*(each for each in self._walks if each is not walk), walk]
        await self._close(*self._walks[:-OPEN])
        return walk

    def _begin(self, moment: Moment) -> "_Walk":
        return _Walk(AuditReader(self.bus, self.domain, self.partition, moment.head, moment.offset), moment, self.snapshots)

    async def _close(self, *walks: "_Walk") -> None:
        self._walks = [each for each in self._walks if each not in walks]
        for each in walks:
            await each.close()


class _Walk:
    """One fold that goes forward."""

    def __init__(self, reader: AuditReader, moment: Moment, snapshots: Snapshots) -> None:
        self._reader, self.moment, self._snapshots = reader, moment, snapshots
        self._ahead: deque[Entry] = deque()  # read, and not folded yet

    def is_until(self, time: int) -> bool:
        """Whether it stands at or before this time, so that it can go there."""
        return self.moment.seq < 0 or self.moment.pool.now <= time

    async def to(self, seq: int | None, time: int | None, end: int) -> None:
        """Go there, in a thread: who is live has the processor meanwhile, too."""
        while seq is None or self.moment.seq < seq:
            if not self._ahead:
                await self._read()
            fits = (each for each in self._ahead if time is None or each.record.time <= time)
            batch = list(islice(takewhile(lambda each: seq is None or each.record.seq <= seq, fits), CHUNK))
            if not batch:
                return
            taken, state = await asyncio.to_thread(self._fold, batch, end)
            for _ in range(taken):
                self._ahead.popleft()
            if state is not None:
                self._snapshots.keep(self.moment, state)

    async def close(self) -> None:
        await self._reader.close()

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(SILENT_S):
                while not self._ahead:
                    self._ahead.extend(await self._reader.read(READ_S))
        except TimeoutError:
            raise busy("Kafka does not give the log's records") from None

    def _fold(self, batch: list[Entry], end: int) -> tuple[int, bytes | None]:
        """In any thread, while nobody else looks at it. How many it took, and the state after them if it is to be kept."""
        moment = self.moment
        for taken, entry in enumerate(batch, 1):
            record = entry.record
            apply(moment.pool, record)
            moment.memo.take(record, moment.pool)
            moment.head, moment.offset = head_after(entry), entry.offset + 1
            if record.turn_end and self._snapshots.wants(record.seq, end):
                return taken, to_snapshot(moment.pool)
        return len(batch), None


def head_after(entry: Entry) -> ChainHead:
    """Where the log stands just after this record."""
    record: Record = entry.record
    return ChainHead(record.domain, record.seq + 1, entry.hash, record.epoch, time_text(record.time))
