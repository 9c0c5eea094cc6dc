"""Reads one pool's audit log: yields the records that continue the chain, and counts the orphans.

See docs/reference/log-protocol.md#chain-rule. Does not interpret the records.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bailiff_bus.port import Bus, Message, OffsetOutOfRange, Reader
from bailiff_bus.topics import AUDIT
from bailiff_core.records import Break, ChainHead, Record, Wire, follow, record_hash

from .log_signatures import DeferredSignatureCheck, InvalidSignature, LogSignatureCheck

MAX_LATEST_ORPHANS = 20
READ_WAIT = 0.5
HEAD_VERIFIED_EVERY = 64
"""Before the end that is known, the first of so many reads in a row that find orphans only reads the head again."""


@dataclass(slots=True)  # immutable by convention: created for every record, see `Wire`
class Entry:
    """A record that continues the chain, as stored. append_time: the broker's, µs UTC."""

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


OnEntries = Callable[[Sequence[Entry]], Awaitable[None]]


class AuditReader:
    """Follows the chain of one pool in its partition, from the start or from a snapshot's (head, offset).

    head: the chain after the last record read. head_offset: its offset, if it is known.
    offset: the next Kafka offset to read. known_end: the end of the partition when it was last queried.
    """

    topic = AUDIT.name

    def __init__(
        self,
        bus: Bus,
        pool: str,
        partition: int,
        head: ChainHead | None = None,
        offset: int = 0,
        on_orphan: Callable[[Orphan], None] = lambda _: None,
    ) -> None:
        self.bus = bus
        self.pool = pool
        self.partition = partition
        self.head = head or ChainHead(pool)
        self.offset = offset
        self.known_end = 0
        self.orphans = 0
        self.latest_orphans: deque[Orphan] = deque(maxlen=MAX_LATEST_ORPHANS)
        self._on_orphan = on_orphan
        self._orphans_counted_to = offset
        self.head_offset: int | None = None
        self._reader: Reader | None = None
        self._orphan_reads = 0
        self._woken = False
        self._check = LogSignatureCheck(pool)

    async def read(self, wait: float = READ_WAIT) -> list[Entry]:
        """The next records of the chain; waits up to `wait` seconds for the first message, which may be an orphan.

        Raises `UnreadableRecord` and stays before that record; raises `OffsetOutOfRange` if records read before are gone.
        """
        return [found for found in await self.read_all(wait) if isinstance(found, Entry)]

    async def read_all(self, wait: float = READ_WAIT) -> list[Entry | Orphan]:
        """As `read`, including orphans."""
        reader = await self._opened()
        messages = await reader.read(wait=0.0 if self._woken else wait)
        self._woken = False
        found = self.classify_all(messages)
        self.offset = reader.position(AUDIT.name, self.partition)
        if any(isinstance(each, Entry) for each in found):
            self._orphan_reads = 0
        elif found:
            if self.offset >= self.known_end or self._orphan_reads % HEAD_VERIFIED_EVERY == 0:
                await self.verify_head()
            self._orphan_reads += 1
        return found

    async def verify_head(self) -> None:
        """Read the head record again, where its offset is known and Kafka still has it.

        Raises `OffsetOutOfRange` if it changed: the log was truncated, and may have grown past this reader since.
        """
        head_offset = self.head_offset
        if head_offset is None:
            return
        reader = await self._opened(head_offset)
        self._move(reader, head_offset)
        found: Sequence[Message] = ()
        while not found:
            span = (await self.bus.spans(AUDIT.name))[self.partition]
            if head_offset < span.begin:
                break
            if head_offset >= span.end:
                raise OffsetOutOfRange(AUDIT.name, self.partition, head_offset, span)
            found = await reader.read(1, READ_WAIT)
        self._move(reader, self.offset)
        if found and (found[0].offset, record_hash(Wire(found[0].headers, found[0].value))) != (head_offset, self.head.hash):
            raise OffsetOutOfRange(AUDIT.name, self.partition, head_offset, span)

    async def _opened(self, offset: int | None = None) -> Reader:
        if self._reader is None:
            self._reader = await self.bus.reader([(AUDIT.name, self.partition, self.offset if offset is None else offset)])
        return self._reader

    def _move(self, reader: Reader, offset: int) -> None:
        if reader.position(AUDIT.name, self.partition) != offset:  # else what was fetched is of use
            reader.follow(AUDIT.name, self.partition, offset)

    def wake(self) -> None:
        """A waiting read returns at once; if none waits, the next one does not wait."""
        if self._reader is None:
            self._woken = True
        else:
            self._reader.wake()

    async def end(self) -> int:
        """The offset of the partition's next message. Raises `OffsetOutOfRange` if this reader's offset is outside the
        partition.
        """
        spans = await self.bus.spans(AUDIT.name)
        if self.partition not in spans:
            raise KeyError(f"{AUDIT.name} has no partition {self.partition}: create the topics for pool {self.pool}")
        span = spans[self.partition]
        if not span.begin <= self.offset <= span.end:
            raise OffsetOutOfRange(AUDIT.name, self.partition, self.offset, span)
        self.known_end = span.end
        return span.end

    async def catch_up(self, on_entries: OnEntries) -> None:
        """Read to the present end of the partition and pass the records to `on_entries`."""
        end = await self.end()
        while self.offset < end:
            entries = await self.read()
            if entries:
                await on_entries(entries)
            else:
                end = min(end, await self.end())  # the log may have been truncated meanwhile

    def classify(self, message: Message) -> Entry | Orphan:
        """Entry or orphan, for a message at `offset` that another reader fetched; then advance past it.

        Raises `UnreadableRecord`.
        """
        if message.offset < self.offset:
            raise ValueError(f"offset {message.offset} of {self.topic}/{self.partition} was classified before")
        found = self._classify(message, self._check)
        self.offset = message.offset + 1
        return found

    def move(self, head: ChainHead, offset: int, head_offset: int | None = None) -> None:
        """Continue at `offset`, as the reader of a log with this head."""
        self.head, self.offset, self.head_offset = head, offset, head_offset
        if self._reader is not None:
            self._reader.follow(AUDIT.name, self.partition, offset)

    async def close(self) -> None:
        """Close the connection."""
        if self._reader is not None:
            await self._reader.close()
            self._reader = None

    def classify_all(self, messages: Sequence[Message]) -> list[Entry | Orphan]:
        """As `classify`, for the messages of one read: one signature check for all, or where that fails, one for each.

        Returns those before an unreadable record. Raises `UnreadableRecord` if that comes first.
        """
        start = self.head, self.offset, self.head_offset
        try:
            return self._classify_each(messages, DeferredSignatureCheck(self.pool))
        except InvalidSignature:
            self.head, self.offset, self.head_offset = start
            return self._classify_each(messages, self._check)

    def _classify_each(self, messages: Sequence[Message], check: LogSignatureCheck) -> list[Entry | Orphan]:
        found: list[Entry | Orphan] = []
        try:
            for message in messages:
                found.append(self._classify(message, check))
                self.offset = message.offset + 1
        except InvalidSignature:
            raise
        except Exception:
            check.settle()
            self.move(self.head, self.offset, self.head_offset)
            if not found:
                raise
            return found  # the next call reads the unreadable record first
        check.settle()
        return found

    def _classify(self, message: Message, check: LogSignatureCheck) -> Entry | Orphan:
        wire = Wire(message.headers, message.value)
        followed = follow(self.head, wire, check=check)
        if isinstance(followed, Break):
            check.settle()
            orphan = Orphan(message.offset, followed.reason, record_hash(wire))
            if message.offset >= self._orphans_counted_to:  # a segment may be read again
                self._on_orphan(orphan)  # where it raises, the orphan is read again
                self.orphans += 1
                self.latest_orphans.append(orphan)
                self._orphans_counted_to = message.offset + 1
            return orphan
        self.head, record = followed
        self.head_offset = message.offset
        return Entry(record, wire, message.offset, message.time, self.head.hash)
