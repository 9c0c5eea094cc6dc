"""One partition as one reader reads it: the position, and messages that were fetched and not yet read."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords

from bailiff_bus.port import Headers, Message, Wanted

from .errors import MIB

MAX_BUFFERED_BYTES = MIB
"""A partition is not fetched while its reader has this many bytes, as stored, to read."""

_CONTENT = itemgetter(1)


class NoAnswer(Exception):
    """For some time no broker has answered for the partition."""

    def __init__(self, at: TopicPartition) -> None:
        super().__init__(at)
        self.at = at


class TopicMadeAnew(Exception):
    """The topic is another one than that of the cursor's position."""

    def __init__(self, at: TopicPartition) -> None:
        super().__init__(at)
        self.at = at


class Cursor:
    """position: the next offset to read. fetch_at: the next one to fetch. error: why nothing more is fetched.

    on_ready: called when there is something to read.
    """

    def __init__(
        self, at: TopicPartition, offset: int, on_ready: Callable[["Cursor"], None], wanted: Wanted | None = None
    ) -> None:
        self.at, self.position, self.fetch_at, self._wanted = at, offset, offset, wanted
        self.error: Exception | None = None
        self.lost_since: float | None = None
        """Since when no broker has answered for this partition; None while one does."""
        self._on_ready = on_ready
        self._buffered: deque[tuple[Iterator[Message], int, int]] = deque()  # messages, offset after them, bytes
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether its reader has enough to read."""
        return self._bytes >= MAX_BUFFERED_BYTES

    @property
    def is_ready(self) -> bool:
        """Whether there is something to read, or an error to raise."""
        return bool(self._buffered) or self.error is not None

    def move(self, offset: int) -> None:
        """Continue at this offset, without what was fetched elsewhere."""
        self.position = self.fetch_at = offset
        self.error = None
        self._buffered.clear()
        self._bytes = 0

    def deliver(self, messages: Iterator[Message], end: int, size: int) -> None:
        """Take messages that begin at `fetch_at`. end: the offset after them. size: bytes, as stored."""
        self.fetch_at = end
        if self._wanted is not None:
            wanted = list(filter(self._wanted, messages))
            if not wanted and not self._buffered:
                self.position = end
                return
            messages, size = iter(wanted), size if wanted else 0
        self._buffered.append((messages, end, size))
        self._bytes += size
        self._on_ready(self)

    def fail(self, error: Exception) -> None:
        """Raise this once everything before it is read."""
        self.error = error
        self._on_ready(self)

    def answered(self) -> None:
        """A broker has answered for this partition: an outage is over."""
        self.lost_since = self.error = None

    def take(self, limit: int) -> list[Message]:
        """The next messages, at most `limit`; advances the position."""
        found: list[Message] = []
        while self._buffered and len(found) < limit:
            messages, end, size = self._buffered[0]
            for message in islice(messages, limit - len(found)):
                found.append(message)
                self.position = message.offset + 1
            if len(found) < limit:
                self._buffered.popleft()
                self._bytes -= size
                self.position = end
        return found


class Batches:
    """The messages of one response for one partition, decoded when they are read.

    end: the offset after them: of the next fetch. Raises `CorruptRecordException` if a checksum is wrong.
    """

    def __init__(self, at: TopicPartition, offset: int, stored: bytes) -> None:
        self.at, self.offset, self.size = at, offset, len(stored)
        records = MemoryRecords(stored)
        self._batches: list[Any] = []
        while records.has_next():
            self._batches.append(records.next_batch())
        if not all(batch.validate_crc() for batch in self._batches):
            raise CorruptRecordException(f"invalid checksum in {at.topic}/{at.partition} after offset {offset}")
        self.end: int = self._batches[-1].next_offset if self._batches else offset

    def __iter__(self) -> Iterator[Message]:
        for batch in self._batches:
            if batch.is_control_batch:
                continue
            for record in batch:
                if record.offset >= self.offset:  # a batch may begin before it
                    yield Message(
                        self.at.topic,
                        self.at.partition,
                        record.offset,
                        record.timestamp * 1000,
                        record.key,
                        _headers(record.headers),
                        record.value or b"",
                    )


def _headers(found: Sequence[tuple[str, bytes | None]]) -> Headers:
    """The headers; null values as empty ones."""
    if None in map(_CONTENT, found):
        return tuple([(name, content or b"") for name, content in found])
    return tuple(found)  # type: ignore[arg-type]
