"""The port to Kafka-like messaging: read partitions by offset, send with acknowledgement, join consumer groups."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from .assignment import Assigned

READ_LIMIT = 100  # messages: larger batches fall out of the processor's cache (about sixty objects each)
Headers = tuple[tuple[str, bytes], ...]
OutgoingMessage = tuple[bytes | None, Headers, bytes]  # key, headers, value


@dataclass(slots=True, unsafe_hash=True)  # immutable by convention: creating a frozen one costs as much as reading it
class Message:
    """One stored record. `time` is the broker's append time in µs UTC. A tombstone's value is empty."""

    topic: str
    partition: int
    offset: int
    time: int
    key: bytes | None
    headers: Headers
    value: bytes


Wanted = Callable[[Message], bool]
"""Which messages a reader wants."""


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets that a partition holds: from `begin` up to but not including `end`.

    topic_id: Kafka's id of the topic, another one once it is deleted and made anew.
    """

    begin: int
    end: int
    topic_id: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where an acknowledged message was stored. `offset` is None if the broker did not return it."""

    partition: int
    offset: int | None
    time: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages that are stored at consecutive offsets, or not at all. `first`: the receipt of the first one."""

    count: int
    first: "asyncio.Future[Receipt]"


class BusUnavailable(Exception):
    """The brokers cannot be reached, or did not answer in time. The outcome of a send is unknown."""


class AccessDenied(BusUnavailable):
    """The access lists refuse this to the connected user. The text names the resource. Rights may be granted at any time."""


class TopicMissing(BusUnavailable):
    """The topic does not exist, or no longer. It may be created at any time."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic} does not exist: run `bailiff topics create`")


class OffsetOutOfRange(Exception):
    """The position is no longer (or not yet) in the topic, or is one in a topic of the same name that was deleted."""

    def __init__(self, topic: str, partition: int, offset: int, span: Span) -> None:
        holds = f"{topic}/{partition} holds offsets {span.begin} to {span.end}"
        is_inside = span.begin <= offset <= span.end
        super().__init__(
            f"offset {offset} is of an earlier topic: {topic} was made anew, and {holds}"
            if is_inside
            else f"offset {offset} is out of range: {holds}"
        )
        self.topic, self.partition, self.offset, self.span = topic, partition, offset, span


class Reader(Protocol):
    """Reads given partitions from given offsets, in offset order within each partition.

    Where a topic is deleted and made anew while it is read, a read raises `OffsetOutOfRange` within half a minute, once for each
    partition, also if the new topic holds the offset. Whoever keeps an offset longer than a reader keeps the topic's id with it.
    """

    async def read(self, limit: int = READ_LIMIT, wait: float = 0.5) -> list[Message]:
        """The next messages, at most `limit`; waits up to `wait` seconds for a first one. Raises `OffsetOutOfRange`.

        It may return none before that, where the position has passed over offsets without messages.

        Yields to the event loop once per call, even if messages are buffered.
        """
        ...

    def follow(self, topic: str, partition: int, offset: int) -> None:
        """Add this partition at `offset`, or seek to `offset` if it is read already."""
        ...

    def position(self, topic: str, partition: int) -> int:
        """The next offset to read. It skips offsets that hold no wanted message, such as transaction markers."""
        ...

    def wake(self) -> None:
        """A waiting read returns at once; if none waits, the next one does not wait."""
        ...

    async def close(self) -> None:
        """Stop reading."""
        ...


class Producer(Protocol):
    """Sends in order per partition.

    After a failed send the outcome of all unacknowledged ones is unknown, and the producer accepts no more messages.
    """

    async def send(
        self, topic: str, value: bytes, *, key: bytes | None = None, headers: Headers = (), partition: int | None = None
    ) -> "asyncio.Future[Receipt]":
        """Send one message; the future is its acknowledgement. The call or the future raises `BusUnavailable`.

        Raises `ValueError`, and sends nothing, for a message above its topic's limit.
        """
        ...

    async def send_many(self, topic: str, messages: Sequence[OutgoingMessage], *, partition: int | None = None) -> list[Batch]:
        """As `send`, in as few batches as possible, which is faster. Batches of one partition keep their order."""
        ...

    async def close(self, timeout: float = 5.0) -> None:
        """Flush for at most `timeout` seconds, then close. After a failed send nothing is flushed."""
        ...


class GroupMembership(Protocol):
    """Membership in a consumer group whose members divide the partitions of one topic."""

    @property
    def assigned(self) -> Assigned:
        """The partitions that this member owns, and those that it stands by for."""
        ...

    async def changed(self) -> Assigned:
        """Wait until `assigned` differs from what this call (at first: `join`) returned last, and return it."""
        ...

    async def leave(self) -> None:
        """Leave the group and release all partitions."""
        ...


class Bus(Protocol):
    """A log of topics."""

    async def spans(self, topic: str) -> Mapping[int, Span]:
        """The offset range of each partition. Raises `BusUnavailable`, `TopicMissing`."""
        ...

    async def reader(self, positions: Sequence[tuple[str, int, int]], wanted: Wanted | None = None) -> Reader:
        """A reader of (topic, partition, offset) positions. wanted: it passes over all others, without waking for them."""
        ...

    async def producer(self) -> Producer:
        """A new producer: idempotent, acknowledged by all in-sync replicas."""
        ...

    async def join(self, group: str, topic: str, instance: str | None) -> GroupMembership:
        """Join the group. `instance`: static member id, so that a restart keeps its assignment without a rebalance."""
        ...

    async def members(self, group: str) -> Mapping[str, Assigned]:
        """The group's living members by their ids, and what each owns. One that sends no heartbeats is none after its session."""
        ...

    async def topic_settings(self, topic: str) -> Mapping[str, str]:
        """The topic's settings by Kafka's names, such as `retention.ms`; `replication` and `brokers` are counts."""
        ...

    async def close(self) -> None:
        """Close everything. A static member (`instance`) keeps its assignment until its session times out."""
        ...


@asynccontextmanager
async def open_producer(bus: Bus) -> AsyncIterator[Producer]:
    """A producer that is closed at the end. Raises `BusUnavailable`."""
    producer = await bus.producer()
    try:
        yield producer
    finally:
        await producer.close(1.0)
