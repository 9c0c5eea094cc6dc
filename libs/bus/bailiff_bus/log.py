"""One domain's audit log: a reader follows the chain, a writer knows what is committed (docs/log-protocol.md §3).

`AuditReader` yields the records that continue the chain and counts the others. `AuditWriter` appends, and calls a
record committed only when it is known to continue the chain; an acknowledgement alone is not that. What records mean
is not known here.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from bailiff_core.records import Break, ChainHead, Record, Wire, continues, encode, follow, record_hash
from bailiff_core.records.chain import WRITER_STARTED

from .port import Batch, Bus, BusUnavailable, Message, OffsetGone, Producer, Reader, Receipt
from .topics import AUDIT, AUDIT_LIMIT, message_size

ORPHANS_KEPT = 20
READ_WAIT = 0.5


class SteppedDown(Exception):
    """Another writer has the log now, or ours is not in it. This writer has stopped; the text says why."""


class OutcomeUnknown(Exception):
    """A send failed or timed out: whether the record is in the log only reading can tell. This writer has stopped."""


@dataclass(slots=True)  # never changed, but made for every record: see `Wire`
class Entry:
    """A record that continues the chain, as found. append_time: the broker's, µs UTC."""

    record: Record
    wire: Wire
    offset: int
    append_time: int
    hash: str


@dataclass(frozen=True, slots=True)
class Orphan:
    """A message in the partition that does not continue the chain."""

    offset: int
    reason: str
    hash: str


@dataclass(frozen=True, slots=True)
class Committed:
    """The records of one `append` are part of the log. head: after the last of them, at this offset.

    append_time: the broker's of the last one, µs UTC. entries: all of them, as a reader finds them.
    """

    head: ChainHead
    offset: int
    append_time: int
    entries: tuple[Entry, ...]


OnEntries = Callable[[Sequence[Entry]], Awaitable[None]]
Prepared = tuple[Record, Wire, ChainHead]  # a record, its bytes, and the chain after it


class AuditReader:
    """Follows the chain of one domain in its partition, from the start or from a snapshot's (head, offset).

    head: where the chain stands after what was read. offset: the Kafka offset that is read next. known_end: where the
    partition ended when that was last asked.
    """

    topic = AUDIT.name

    def __init__(
        self,
        bus: Bus,
        domain: str,
        partition: int,
        head: ChainHead | None = None,
        offset: int = 0,
        on_orphan: Callable[[Orphan], None] = lambda _: None,
    ) -> None:
        self.bus = bus
        self.domain = domain
        self.partition = partition
        self.head = head or ChainHead(domain)
        self.offset = offset
        self.known_end = 0
        self.orphans = 0
        self.latest_orphans: deque[Orphan] = deque(maxlen=ORPHANS_KEPT)
        self._on_orphan = on_orphan
        self._counted_to = offset
        self._head_at: int | None = None  # where the record that `head` is the hash of was read
        self._reader: Reader | None = None

    async def read(self, wait: float = READ_WAIT) -> list[Entry]:
        """The next records of the chain; waits up to `wait` seconds for a first message, which may be an orphan.

        Raises `UnreadableRecord`, and then stays before that record; `OffsetGone` if what was read before is no longer there.
        """
        return [found for found in await self.read_all(wait) if isinstance(found, Entry)]

    async def read_all(self, wait: float = READ_WAIT) -> list[Entry | Orphan]:
        """As `read`, with the orphans."""
        if self._reader is None:
            self._reader = await self.bus.reader([(AUDIT.name, self.partition, self.offset)])
        messages = await self._reader.read(wait=wait)
        judged: list[Entry | Orphan] = []
        try:
            for message in messages:
                judged.append(self._judge(message))
                self.offset = message.offset + 1
        except Exception:
            self.move(self.head, self.offset)
            if judged:
                return judged  # the next call comes to the unreadable one again, first of all
            raise
        self.offset = self._reader.position(AUDIT.name, self.partition)
        if self._head_at is not None and all(isinstance(found, Orphan) for found in judged) and judged:
            await self._find_head_again(self._reader, self._head_at)
        return judged

    async def _find_head_again(self, reader: Reader, at: int) -> None:
        """Nothing continues the chain: either that is none of it, or the log was cut short and has grown past us since."""
        reader.follow(AUDIT.name, self.partition, at)
        found: Sequence[Message] = ()
        while not found:
            span = (await self.bus.spans(AUDIT.name))[self.partition]
            if at >= span.end:
                raise OffsetGone(AUDIT.name, self.partition, at, span)
            found = await reader.read(wait=READ_WAIT)
        reader.follow(AUDIT.name, self.partition, self.offset)
        if found[0].offset != at or record_hash(Wire(found[0].headers, found[0].value)) != self.head.hash:
            raise OffsetGone(AUDIT.name, self.partition, at, span)

    async def end(self) -> int:
        """The offset that the next message of the partition will get. Raises `OffsetGone` if we stand outside it."""
        spans = await self.bus.spans(AUDIT.name)
        if self.partition not in spans:
            raise KeyError(f"{AUDIT.name} has no partition {self.partition}: create the topics for domain {self.domain}")
        span = spans[self.partition]
        if not span.begin <= self.offset <= span.end:
            raise OffsetGone(AUDIT.name, self.partition, self.offset, span)
        self.known_end = span.end
        return span.end

    async def catch_up(self, on_entries: OnEntries) -> None:
        """Read to where the partition ends now, handing over the records on the way."""
        end = await self.end()
        while self.offset < end:
            entries = await self.read()
            if entries:
                await on_entries(entries)
            else:
                end = min(end, await self.end())  # it may have been cut short meanwhile

    def judge(self, message: Message) -> Entry | Orphan:
        """What the message at `offset` is, where somebody else has read it; then stand behind it. Raises `UnreadableRecord`."""
        if message.offset < self.offset:
            raise ValueError(f"offset {message.offset} of {self.topic}/{self.partition} was judged before")
        found = self._judge(message)
        self.offset = message.offset + 1
        return found

    def move(self, head: ChainHead, offset: int) -> None:
        """Stand here: read on at `offset` as the reader of a log with this head."""
        self.head, self.offset, self._head_at = head, offset, None
        if self._reader is not None:
            self._reader.follow(AUDIT.name, self.partition, offset)

    async def close(self) -> None:
        """Let go of the connection."""
        if self._reader is not None:
            await self._reader.close()
            self._reader = None

    def _judge(self, message: Message) -> Entry | Orphan:
        wire = Wire(message.headers, message.value)
        found = follow(self.head, wire)
        if isinstance(found, Break):
            orphan = Orphan(message.offset, found.reason, record_hash(wire))
            if message.offset >= self._counted_to:  # a stretch may be read again
                self.orphans += 1
                self.latest_orphans.append(orphan)
                self._counted_to = message.offset + 1
                self._on_orphan(orphan)
            return orphan
        self.head, record = found
        self._head_at = message.offset
        return Entry(record, wire, message.offset, message.time, self.head.hash)


@dataclass(frozen=True, slots=True)
class _Append:
    """What one call of `append` is waiting for."""

    committed: "asyncio.Future[Committed]"
    count: int
    entries: list[Entry] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A record on its way. head: the chain after it."""

    record: Record
    wire: Wire
    head: ChainHead
    acknowledgement: "asyncio.Future[Receipt]"  # of the batch that it is in
    at: int  # its place in the batch
    append: _Append


class AuditWriter:
    """One writer incarnation. After any exception of its own it is finished: make a new one, with the same reader.

    The reader must be used by nobody else meanwhile. When the writer is finished, the reader stands behind the last
    record that was handed out, by `begin` or by a result of `append`: whoever reads on sees all that came after.
    """

    def __init__(self, bus: Bus, reader: AuditReader, window: int = 1000, tries: int = 5) -> None:
        self._bus = bus
        self._reader = reader
        self._window = window
        self._tries = tries
        self._producer: Producer | None = None
        self._sent_head = reader.head  # after all that was sent
        self._head = reader.head  # after all that is committed
        self._offset = reader.offset  # behind the last committed record
        self._handed_out = (reader.head, reader.offset)
        self._last_append_time: int | None = None
        self._sent: deque[_Sent] = deque()
        self._appending = asyncio.Lock()  # one list of records after another
        self._sending = asyncio.Lock()  # one record after another, and none while we read back
        self._room = asyncio.Event()
        self._work = asyncio.Event()
        self._settling: asyncio.Task[None] | None = None
        self._ended: Exception | None = None

    @property
    def head(self) -> ChainHead:
        """The chain after the last committed record."""
        return self._head

    @property
    def next_head(self) -> ChainHead:
        """The chain after all that was handed to `append`: what the next record must continue."""
        return self._sent_head

    @property
    def offset(self) -> int:
        """The Kafka offset behind the last committed record."""
        return self._offset

    @property
    def last_append_time(self) -> int | None:
        """The broker's append time of the newest committed record of this writer, µs UTC."""
        return self._last_append_time

    async def begin(self, make_first: Callable[[ChainHead], Sequence[Record]], on_entries: OnEntries) -> Entry:
        """Start this incarnation: append `WriterStarted`, and read until it is seen to stand in the chain.

        make_first: the records for a log that stands here, with `WriterStarted` as the last one; in an empty log the
        ones that create the domain come before it. on_entries: gets every record of the log that is read here, our own
        included, in order; what it folds is what make_first may rely on. Returns our `WriterStarted`.

        If another writer was faster, reads on and tries again, `tries` times; then raises `SteppedDown`.
        """
        try:
            self._producer = await self._bus.producer()
            for _ in range(self._tries):
                await self._reader.catch_up(on_entries)
                started = await self._try_to_begin(make_first(self._reader.head), on_entries)
                if started is not None:
                    break
            else:
                raise SteppedDown(f"{self._tries} times another writer of {self._reader.domain} was faster")
        except BusUnavailable as error:
            self._mark_read()
            self._handed_out = (self._head, self._offset)
            raise self._end(OutcomeUnknown(str(error))) from error
        except BaseException as error:
            self._mark_read()
            self._handed_out = (self._head, self._offset)
            self._end(error if isinstance(error, Exception) else OutcomeUnknown("the start was cancelled"))
            raise
        self._last_append_time = started.append_time
        self._mark_read()
        self._handed_out = (self._head, self._offset)
        self._sent_head = self._head
        self._settling = asyncio.create_task(self._settle())
        return started

    async def append(self, records: Sequence[Record]) -> "asyncio.Future[Committed]":
        """Send these records, in order; await the result to know that all of them are committed.

        `prev` is filled in; everything else must continue the chain already, or `ValueError` is raised and nothing is
        sent. Waits while the window of unacknowledged records is full. Raises `SteppedDown` or `OutcomeUnknown`, here
        or there; `OffsetGone` if the log was cut short, `UnreadableRecord` if a newer release writes it.
        """
        if not records:
            raise ValueError("nothing to append")
        async with self._appending:
            self._refuse_if_ended()
            prepared = chained(self._sent_head, records)
            committed: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
            committed.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody has to look
            append = _Append(committed, len(prepared))
            try:
                for begin in range(0, len(prepared), self._window):
                    await self._hand_over(prepared[begin : begin + self._window], append)
            except BusUnavailable as error:
                raise self._end(OutcomeUnknown(str(error))) from error
            except BaseException:
                self._end(OutcomeUnknown("an append was cut short"))
                raise
        return committed

    async def check(self) -> None:
        """Whether the log is still ours, for a writer with nothing to append. Raises `SteppedDown` if it is not."""
        async with self._appending:
            self._refuse_if_ended()
            if self._sent:
                return  # their acknowledgements will tell
            try:
                self._reader.move(self._head, self._offset)
                end = await self._reader.end()
                while self._reader.offset < end:
                    end = await self._read_on(end)
                self._mark_read()
            except BusUnavailable:
                raise
            except Exception as error:
                self._end(error)
                raise

    async def close(self, timeout: float = 5.0) -> None:
        """Let what was sent be settled for at most `timeout` seconds, then end this incarnation."""
        if self._sent:
            await asyncio.wait([self._sent[-1].append.committed], timeout=timeout)
        if self._settling is not None:
            self._settling.cancel()
        self._end(SteppedDown("the writer was closed"))
        if self._producer is not None:
            await self._producer.close(timeout)

    # --- sending

    async def _try_to_begin(self, records: Sequence[Record], on_entries: OnEntries) -> Entry | None:
        """Our `WriterStarted`, or None if it did not come to stand in the chain."""
        if not records or records[-1].type != WRITER_STARTED:
            raise ValueError("the first records of a writer end with WriterStarted")
        prepared = chained(self._reader.head, records)
        batches = await self._send(prepared)
        receipts = [await batch.first for batch in batches]
        ours, last = prepared[-1][2].hash, receipts[-1].offset
        end = await self._reader.end() if last is None else last + batches[-1].count
        started: Entry | None = None
        while self._reader.offset < end:
            entries = await self._reader.read()
            if entries:
                await on_entries(entries)
            else:
                end = min(end, await self._reader.end())
            for entry in entries:
                if entry.hash == ours:
                    started = entry
                elif started is not None and entry.record.type == WRITER_STARTED:
                    raise SteppedDown(f"writer {entry.record.writer} started with epoch {entry.record.epoch}")
        return started

    async def _send(self, prepared: Sequence[Prepared]) -> list[Batch]:
        assert self._producer is not None
        parcels = [(None, wire.headers, wire.value) for _, wire, _ in prepared]
        return await self._producer.send_many(AUDIT.name, parcels, partition=self._reader.partition)

    async def _hand_over(self, prepared: Sequence[Prepared], append: _Append) -> None:
        while self._ended is None and self._sent and len(self._sent) + len(prepared) > self._window:
            self._room.clear()
            await self._room.wait()
        async with self._sending:
            self._refuse_if_ended()
            batches = await self._send(prepared)
            self._sent_head = prepared[-1][2]
            places = [(batch.first, at) for batch in batches for at in range(batch.count)]
            self._sent += [_Sent(*each, *place, append) for each, place in zip(prepared, places, strict=True)]
            self._work.set()

    # --- settling: from acknowledged to committed

    async def _settle(self) -> None:
        try:
            while True:
                while not self._sent:
                    self._work.clear()
                    await self._work.wait()
                sent = self._sent[0]
                receipt = await sent.acknowledgement
                if receipt.offset is not None and receipt.offset + sent.at == self._offset:
                    self._commit(self._offset, receipt.time)
                else:
                    await self._read_back()
        except BusUnavailable as error:
            self._end(OutcomeUnknown(str(error)))
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits must hear of it
            self._end(error)

    def _commit(self, offset: int, append_time: int) -> None:
        sent = self._sent.popleft()
        self._head, self._offset, self._last_append_time = sent.head, offset + 1, append_time
        append = sent.append
        append.entries.append(Entry(sent.record, sent.wire, offset, append_time, sent.head.hash))
        if len(append.entries) == append.count and not append.committed.done():
            append.committed.set_result(Committed(sent.head, offset, append_time, tuple(append.entries)))
            self._handed_out = (self._head, self._offset)
        self._room.set()

    async def _read_back(self) -> None:
        """Somebody else wrote in between, or the broker did not say where ours are: read what is there.

        Nothing is sent meanwhile, and all that was sent is acknowledged first: so the partition's end lies behind it.
        """
        async with self._sending:
            for sent in self._sent:
                await sent.acknowledgement
            self._reader.move(self._head, self._offset)
            end = await self._reader.end()
            while self._sent and self._reader.offset < end:
                end = await self._read_on(end)
            if self._sent:
                raise SteppedDown(f"an acknowledged record is not in the log, which ends at offset {end}")
            self._mark_read()

    async def _read_on(self, end: int) -> int:
        """Read a piece of the log. Our records in it are committed; another writer's valid ones end this writer.

        Returns how far there is to read: up to `end`, or less where the log was cut short meanwhile.
        """
        piece = await self._reader.read_all()
        if not piece:
            return min(end, await self._reader.end())
        for found in piece:
            is_ours = bool(self._sent) and found.hash == self._sent[0].head.hash
            if isinstance(found, Entry):
                if not is_ours:
                    record = found.record
                    raise SteppedDown(f"writer {record.writer} wrote {record.type} with epoch {record.epoch} at seq {record.seq}")
                self._commit(found.offset, found.append_time)
            elif is_ours:
                raise SteppedDown(f"our record at offset {found.offset} does not continue the chain: {found.reason}")
        return end

    def _mark_read(self) -> None:
        """What the reader has passed over is behind us, too."""
        self._head, self._offset = self._reader.head, self._reader.offset

    # --- the end

    def _refuse_if_ended(self) -> None:
        if self._ended is not None:
            raise self._ended

    def _end(self, error: Exception) -> Exception:
        """Finish this incarnation; the first reason stands. Returns it."""
        if self._ended is None:
            self._ended = error
            self._reader.move(*self._handed_out)
            for sent in self._sent:
                if not sent.append.committed.done():
                    sent.append.committed.set_exception(error)
            self._sent.clear()
            self._room.set()
        return self._ended


def chained(head: ChainHead, records: Sequence[Record]) -> list[Prepared]:
    """These records with `prev` filled in, their bytes, and the head after each.

    Raises `ValueError` for one that would not continue the chain, or is too large.
    """
    prepared = []
    for given in records:
        record = given.continuing(head.hash)
        wire = encode(record)
        where = f"{record.domain}#{record.seq} {record.type}"
        size = message_size(None, wire.headers, wire.value)
        if size > AUDIT_LIMIT:
            raise ValueError(f"{where} has {size} bytes; an audit record may have {AUDIT_LIMIT}")
        after = continues(head, wire)
        if isinstance(after, Break):
            raise ValueError(f"{where} does not continue the log: {after.reason}")
        prepared.append((record, wire, after))
        head = after
    return prepared
