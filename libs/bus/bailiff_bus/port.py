"""The port to a log of topics, as small as the services need it: read by position, send and be told the offset."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

AT_ONCE = 100  # messages: each is some sixty objects, and of a thousand the first have left the processor's cache too early
Headers = tuple[tuple[str, bytes], ...]
Parcel = tuple[bytes | None, Headers, bytes]  # what is sent: key, headers, value


@dataclass(slots=True, unsafe_hash=True)  # nobody changes one; to make a frozen one takes as long as to read it
class Message:
    """One stored record. `time` is the broker's append time in µs UTC. A tombstone's value is empty."""

    topic: str
    partition: int
    offset: int
    time: int
    key: bytes | None
    headers: Headers
    value: bytes


@dataclass(frozen=True, slots=True)
class Span:
    """What a partition holds: offsets from `begin` up to but not including `end`."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where an acknowledged message was stored. `offset` is None when the broker did not say."""

    partition: int
    offset: int | None
    time: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages that are stored one right behind the other, or not at all. `first`: where the first of them is."""

    count: int
    first: "asyncio.Future[Receipt]"


class BusUnavailable(Exception):
    """The brokers cannot be reached, or did not answer in time. The outcome of a send is unknown."""


class OffsetGone(Exception):
    """The position is no longer (or not yet) in the topic."""

    def __init__(self, topic: str, partition: int, asked: int, span: Span) -> None:
        super().__init__(f"{topic}/{partition} holds offsets {span.begin} to {span.end}, {asked} was asked for")
        self.topic, self.partition, self.asked, self.span = topic, partition, asked, span


class Reader(Protocol):
    """Reads given partitions from given offsets, in offset order within each partition."""

    async def read(self, limit: int = AT_ONCE, wait: float = 0.5) -> list[Message]:
        """What is there, at most `limit`; waits up to `wait` seconds for a first message. Raises `OffsetGone`.

        Gives way to others once, also where much is there.
        """
        ...

    def follow(self, topic: str, partition: int, offset: int) -> None:
        """Read this partition, too, from `offset` on; or move to it."""
        ...

    def position(self, topic: str, partition: int) -> int:
        """The offset that is read next. It passes over offsets that hold no message, such as transaction markers."""
        ...

    async def close(self) -> None:
        """Let go of the connection."""
        ...


class Producer(Protocol):
    """Sends in order per partition.

    After one failed send the outcome of all unacknowledged ones is unknown, and the producer sends nothing more.
    """

    async def send(
        self, topic: str, value: bytes, *, key: bytes | None = None, headers: Headers = (), partition: int | None = None
    ) -> "asyncio.Future[Receipt]":
        """Hand over one message; the result is its acknowledgement. Raises `BusUnavailable`, here or there.

        A message above its topic's limit raises `ValueError` here, and nothing has happened.
        """
        ...

    async def send_many(self, topic: str, parcels: Sequence[Parcel], *, partition: int | None = None) -> list[Batch]:
        """As `send`, in as few batches as they fit in: a fraction of the work. Batches of one partition are in order."""
        ...

    async def close(self, timeout: float = 5.0) -> None:
        """Flush for at most `timeout` seconds, then let go. After a failed send nothing is flushed."""
        ...


class Ownership(Protocol):
    """A seat in a group of replicas that split the partitions of one topic among themselves."""

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that the group gave to this replica."""
        ...

    async def changed(self) -> frozenset[int]:
        """Wait until `owned` is another than this (at first: `join`) returned last, and return it."""
        ...

    async def leave(self) -> None:
        """Give everything back."""
        ...


class Bus(Protocol):
    """A log of topics."""

    async def spans(self, topic: str) -> Mapping[int, Span]:
        """Every partition of the topic and what it holds. Raises `BusUnavailable`, and `KeyError` for no such topic."""
        ...

    async def reader(self, positions: Sequence[tuple[str, int, int]]) -> Reader:
        """A reader of (topic, partition, offset) positions."""
        ...

    async def producer(self) -> Producer:
        """A producer of its own incarnation: idempotent, acknowledged by all in-sync replicas."""
        ...

    async def join(self, group: str, topic: str, instance: str | None) -> Ownership:
        """Take a seat in the group. `instance`: a name under which a restart takes its seat back at once."""
        ...

    async def topic_settings(self, topic: str) -> Mapping[str, str]:
        """The topic's settings by Kafka's names, such as `retention.ms`; `replication` and `brokers` are counts."""
        ...

    async def close(self) -> None:
        """Let go of everything. A seat with an `instance` is kept for a restart until its session times out."""
        ...
