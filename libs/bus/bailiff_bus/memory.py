"""The bus in memory, for simulation: several clients of one `MemoryCluster`, with faults, kills and pauses.

It waits by asyncio alone, reads no clock but the one it is given and rolls no dice, so a virtual-time event loop makes
every run repeatable. Settings, security and the network do not exist here; what the real Kafka does to a client that
lives is held to the same contract suite.
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Protocol
from zlib import crc32

from .port import (
    AT_ONCE,
    Batch,
    BusUnavailable,
    Headers,
    Message,
    OffsetGone,
    Ownership,
    Parcel,
    Producer,
    Reader,
    Receipt,
    Span,
)  # fmt: skip
from .topics import TOPICS, check_size

At = tuple[str, int]
MEMBER_TIMEOUT = 6.0


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one send: `stored` so many times after `delay` seconds, then acknowledged or not.

    An unacknowledged one raises `BusUnavailable`. offset_known: whether the acknowledgement says where it is.
    """

    delay: float = 0.0
    stored: int = 1
    acknowledged: bool = True
    offset_known: bool = True


FINE = Fate()
ACKNOWLEDGEMENT_LOST = Fate(acknowledged=False)
NOT_STORED = Fate(stored=0, acknowledged=False)
STORED_TWICE = Fate(stored=2)
OFFSET_UNKNOWN = Fate(offset_known=False)


class Faults(Protocol):
    """Asked once for every batch, and once for every message and reader. Clients are known by name."""

    def send(self, client: str, topic: str, partition: int, value: bytes) -> Fate:
        """What becomes of it. value: of its first message."""
        ...

    def delivery(self, client: str, message: Message) -> float:
        """Seconds that this message, and all behind it in its partition, stay unseen by a reader of this client."""
        ...


@dataclass(slots=True)
class Partition:
    """Messages in offset order, which may have gaps, and who waits for the next one."""

    begin: int = 0
    end: int = 0
    messages: list[Message] = field(default_factory=list)
    waiting: list["asyncio.Future[None]"] = field(default_factory=list)

    def wake(self) -> None:
        waiting, self.waiting = self.waiting, []
        for future in waiting:
            _set(future)

    def index(self, offset: int) -> int:
        return bisect_left(self.messages, offset, key=attrgetter("offset"))


class MemoryCluster:
    """The topics that all clients share. clock: µs UTC, for append times. session_timeout: seconds of loop time.

    batch: how many messages fit into one. Few, so that a fault may fall into the middle of what was sent together.
    """

    def __init__(
        self, clock: Callable[[], int], faults: Faults | None = None, session_timeout: float = MEMBER_TIMEOUT, batch: int = 1
    ) -> None:
        self.clock = clock
        self.batch = batch
        self.faults = faults
        self.session_timeout = session_timeout
        self.outage = False
        self._topics: dict[str, list[Partition]] = {}
        self._groups: dict[tuple[str, str], _Group] = {}

    def client(self, name: str) -> "MemoryBus":
        """A client, as a process has one."""
        return MemoryBus(self, name)

    def begin_outage(self) -> None:
        """Nobody reaches the brokers: calls and sends fail, readers hear nothing. Seats are kept."""
        self.outage = True

    def end_outage(self) -> None:
        """Everything is as it was."""
        self.outage = False
        for partitions in self._topics.values():
            for each in partitions:
                each.wake()

    # --- topics

    def create_topics(self, domains: int) -> None:
        """All topics of the registry; partitions are added where there are too few."""
        for topic in TOPICS.values():
            self.add_partitions(topic.name, topic.partition_count(domains))

    def add_partitions(self, topic: str, total: int) -> None:
        """Make the topic if there is none, and let it have so many partitions."""
        partitions = self._topics.setdefault(topic, [])
        partitions += [Partition() for _ in range(total - len(partitions))]
        for (_, grouped), group in self._groups.items():
            if grouped == topic:
                group.assign()

    def partitions(self, topic: str) -> list[Partition]:
        """Raises `KeyError` for no such topic."""
        return self._topics[topic]

    def messages(self, topic: str, partition: int) -> list[Message]:
        """What the partition holds now."""
        return list(self._topics[topic][partition].messages)

    def trim(self, topic: str, partition: int, offset: int) -> None:
        """Drop what is before `offset`, as retention does."""
        where = self._topics[topic][partition]
        where.begin = max(where.begin, min(offset, where.end))
        del where.messages[: where.index(where.begin)]

    def truncate(self, topic: str, partition: int, end: int) -> None:
        """Drop the tail from `end` on, as a power loss can. Later messages get these offsets again."""
        where = self._topics[topic][partition]
        where.end = max(where.begin, min(end, where.end))
        del where.messages[where.index(where.end) :]

    def skip(self, topic: str, partition: int, count: int = 1) -> None:
        """Use up offsets without a message, as transaction markers do."""
        where = self._topics[topic][partition]
        where.end += count
        where.wake()

    def store(self, topic: str, partition: int, key: bytes | None, headers: Headers, value: bytes) -> Message:
        """Append one message."""
        where = self._topics[topic][partition]
        message = Message(topic, partition, where.end, self.clock(), key, headers, value)
        where.messages.append(message)
        where.end += 1
        where.wake()
        return message

    def group(self, name: str, topic: str) -> "_Group":
        """The group's state, made on first use."""
        return self._groups.setdefault((name, topic), _Group(self, topic))


class MemoryBus:
    """One client. `kill` and `pause` do to it what SIGKILL and SIGSTOP do to a process."""

    def __init__(self, cluster: MemoryCluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self._running = asyncio.Event()
        self._running.set()
        self._killed = False
        self._producers: list[MemoryProducer] = []
        self._seats: list[MemorySeat] = []

    # --- for tests and simulation

    def kill(self) -> None:
        """From now on nothing that it does has an effect, and its calls never return."""
        self._killed = True
        self._running.clear()
        for producer in self._producers:
            producer.drop()
        for seat in self._seats:
            seat.silent()

    def pause(self) -> None:
        """Its calls block until `resume`."""
        self._running.clear()
        for seat in self._seats:
            seat.silent()

    def resume(self) -> None:
        """Go on, knowing nothing of the time in between."""
        if not self._killed:
            self._running.set()
            for seat in self._seats:
                seat.back()

    async def alive(self) -> None:
        """Pass while the client runs; block while it is paused, and for ever once it is killed."""
        await self._running.wait()

    async def reach(self) -> None:
        """Be alive and come through to the brokers."""
        await self.alive()
        if self.cluster.outage:
            raise BusUnavailable("the brokers are away")

    # --- the port

    async def spans(self, topic: str) -> Mapping[int, Span]:
        """Every partition of the topic and what it holds."""
        await self.reach()
        return {number: Span(each.begin, each.end) for number, each in enumerate(self.cluster.partitions(topic))}

    async def reader(self, positions: Sequence[tuple[str, int, int]]) -> Reader:
        """A reader of (topic, partition, offset) positions."""
        await self.reach()
        return MemoryReader(self, positions)

    async def producer(self) -> Producer:
        """A producer of its own incarnation."""
        await self.reach()
        producer = MemoryProducer(self)
        self._producers.append(producer)
        return producer

    async def join(self, group: str, topic: str, instance: str | None) -> Ownership:
        """Take a seat in the group."""
        await self.reach()
        seat = MemorySeat(self, self.cluster.group(group, topic), instance)
        self._seats.append(seat)
        return seat

    async def topic_settings(self, topic: str) -> Mapping[str, str]:
        """The settings that the registry asks for, as of one broker."""
        await self.reach()
        self.cluster.partitions(topic)
        return {**TOPICS[topic].settings_with(brokers=1), "replication": "1", "brokers": "1"}

    async def close(self) -> None:
        """Let go of everything."""
        await self.alive()
        for producer in self._producers:
            await producer.close()
        for seat in self._seats:
            seat.close()
        self._producers.clear()
        self._seats.clear()


class MemoryReader:
    """Reads by position."""

    def __init__(self, bus: MemoryBus, positions: Sequence[tuple[str, int, int]]) -> None:
        self._bus = bus
        self._positions: dict[At, int] = {(topic, partition): offset for topic, partition, offset in positions}
        self._visible: dict[At, tuple[int, float]] = {}  # the offset asked about last, and when it can be seen

    async def read(self, limit: int = AT_ONCE, wait: float = 0.5) -> list[Message]:
        """What is there, at most `limit`; waits up to `wait` seconds for a first message."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        await asyncio.sleep(0)
        while True:
            await self._bus.alive()
            found, next_look = self._take(limit, loop.time())
            left = min(until, next_look) - loop.time()
            if found or loop.time() >= until:
                return found
            await self._wait(left)

    def follow(self, topic: str, partition: int, offset: int) -> None:
        """Read this partition, too, from `offset` on; or move to it."""
        self._positions[topic, partition] = offset
        self._visible.pop((topic, partition), None)

    def position(self, topic: str, partition: int) -> int:
        """The offset that is read next."""
        return self._positions[topic, partition]

    async def close(self) -> None:
        """Nothing is held."""
        await self._bus.alive()

    def _take(self, limit: int, now: float) -> tuple[list[Message], float]:
        """What can be seen, and when to look again if nothing is appended. Moves the positions."""
        found: list[Message] = []
        next_look = float("inf")
        if self._bus.cluster.outage:
            return found, next_look
        for at in list(self._positions):
            where = self._partition(at)
            if where is None:
                continue
            position = self._positions[at]
            if not where.begin <= position <= where.end:
                if found:
                    break  # first give out what there is; the next call comes here again
                raise OffsetGone(*at, position, Span(where.begin, where.end))
            for message in where.messages[where.index(position) :]:
                seen_at = self._seen_at(at, message, now)
                if seen_at > now:
                    next_look = min(next_look, seen_at)
                    break
                if len(found) == limit:
                    return found, now
                found.append(message)
                self._positions[at] = message.offset + 1
            else:
                self._positions[at] = where.end
        return found, next_look

    def _seen_at(self, at: At, message: Message, now: float) -> float:
        asked, seen_at = self._visible.get(at, (-1, 0.0))
        if asked != message.offset:
            faults = self._bus.cluster.faults
            seen_at = now + (faults.delivery(self._bus.name, message) if faults else 0.0)
            self._visible[at] = (message.offset, seen_at)
        return seen_at

    async def _wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        news: asyncio.Future[None] = loop.create_future()
        watched = [where for at in self._positions if (where := self._partition(at)) is not None]
        for where in watched:
            where.waiting.append(news)
        timer = loop.call_later(max(0.0, seconds), _set, news)
        try:
            await news
        finally:
            timer.cancel()
            for where in watched:
                if news in where.waiting:
                    where.waiting.remove(news)

    def _partition(self, at: At) -> Partition | None:
        topic, partition = at
        partitions = self._bus.cluster.partitions(topic)
        return partitions[partition] if partition < len(partitions) else None


def _set(news: "asyncio.Future[None]") -> None:
    if not news.done():
        news.set_result(None)


@dataclass(slots=True)
class _Letter:
    topic: str
    partition: int
    parcels: Sequence[Parcel]
    receipt: "asyncio.Future[Receipt]"


class MemoryProducer:
    """Sends one after another. One failure, and it accepts nothing more; what it has accepted still goes out."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus
        self._failure: str | None = None
        self._letters: deque[_Letter] = deque()
        self._sending: asyncio.Task[None] | None = None

    async def send(
        self, topic: str, value: bytes, *, key: bytes | None = None, headers: Headers = (), partition: int | None = None
    ) -> "asyncio.Future[Receipt]":
        """Hand over one message; the result is its acknowledgement."""
        (batch,) = await self.send_many(topic, [(key, headers, value)], partition=partition)
        return batch.first

    async def send_many(self, topic: str, parcels: Sequence[Parcel], *, partition: int | None = None) -> list[Batch]:
        """Hand over several, in small batches."""
        await self._bus.alive()
        for key, headers, value in parcels:
            check_size(topic, key, headers, value)
        if self._failure is not None:
            raise BusUnavailable(f"this producer sends nothing more: {self._failure}")
        try:
            count = len(self._bus.cluster.partitions(topic))
        except KeyError:
            count = 0
        if not count or (partition or 0) >= count:
            raise BusUnavailable(self._fail(f"there is no {topic}/{partition or 0}"))
        groups: dict[int, list[Parcel]] = {}
        for parcel in parcels:
            groups.setdefault(crc32(parcel[0] or b"") % count if partition is None else partition, []).append(parcel)
        most = self._bus.cluster.batch
        return [
            self._post(topic, at, group[begin : begin + most])
            for at, group in groups.items()
            for begin in range(0, len(group), most)
        ]

    def _post(self, topic: str, partition: int, parcels: Sequence[Parcel]) -> Batch:
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        receipt.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody has to look
        self._letters.append(_Letter(topic, partition, parcels, receipt))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_all())
        return Batch(len(parcels), receipt)

    async def close(self, timeout: float = 5.0) -> None:
        """Flush for at most `timeout` seconds, then let go. After a failed send nothing is flushed."""
        await self._bus.alive()
        if self._sending is not None and self._failure is None:
            await asyncio.wait([self._sending], timeout=timeout)
        self._fail("the producer was closed")
        self.drop()

    def drop(self) -> None:
        """Lose what has not been stored yet."""
        self._letters.clear()
        if self._sending is not None:
            self._sending.cancel()

    async def _send_all(self) -> None:
        while self._letters:
            letter = self._letters[0]
            await self._bus.alive()
            cluster = self._bus.cluster
            fate = FINE
            if cluster.outage:
                fate = NOT_STORED
            elif cluster.faults is not None:
                fate = cluster.faults.send(self._bus.name, letter.topic, letter.partition, letter.parcels[0][2])
            if fate.delay:
                await asyncio.sleep(fate.delay)
                await self._bus.alive()
            self._letters.popleft()
            stored = [
                cluster.store(letter.topic, letter.partition, *parcel) for _ in range(fate.stored) for parcel in letter.parcels
            ]
            await self._bus.alive()
            if letter.receipt.done():
                continue
            if stored and fate.acknowledged and self._failure is None:
                offset = stored[0].offset if fate.offset_known else None
                letter.receipt.set_result(Receipt(letter.partition, offset, stored[0].time))
            else:
                self._fail(f"{letter.topic}/{letter.partition} did not acknowledge")
                letter.receipt.set_exception(BusUnavailable(self._failure))

    def _fail(self, reason: str) -> str:
        self._failure = self._failure or reason
        for letter in self._letters:
            if not letter.receipt.done():
                letter.receipt.set_exception(BusUnavailable(self._failure))
        return self._failure


class _Group:
    """Who sits in a group, in join order, and what each was given."""

    def __init__(self, cluster: MemoryCluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.members: list[MemorySeat] = []

    def enter(self, seat: "MemorySeat") -> None:
        """Take the seat of the same instance if there is one, or a new one at the end."""
        for number, member in enumerate(self.members):
            if seat.instance is not None and member.instance == seat.instance:
                self.members[number] = seat
                member.stop_waiting()
                break
        else:
            self.members.append(seat)
        self.assign()

    def remove(self, seat: "MemorySeat") -> None:
        """Its partitions go to the others."""
        if seat in self.members:
            self.members.remove(seat)
            self.assign()

    def assign(self) -> None:
        """Deal the partitions out, one after another. A silent member is dealt some, too: nobody knows yet."""
        count = len(self.cluster.partitions(self.topic))
        for number, member in enumerate(self.members):
            member.give(frozenset(range(number, count, len(self.members))))


class MemorySeat:
    """A seat in a group. While its client is silent the seat is kept for the session timeout."""

    def __init__(self, bus: MemoryBus, group: _Group, instance: str | None) -> None:
        self.instance = instance
        self._bus = bus
        self._group = group
        self._given: frozenset[int] = frozenset()
        self._known: frozenset[int] = frozenset()
        self._silent = False
        self._timer: asyncio.TimerHandle | None = None
        self._news = asyncio.Event()
        group.enter(self)
        self._told = self._known

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that the group gave to this replica, as far as it knows."""
        return self._known

    async def changed(self) -> frozenset[int]:
        """Wait until `owned` is another than this returned last, and return it."""
        while True:
            await self._bus.alive()
            if self._known != self._told:
                self._told = self._known
                return self._told
            self._news.clear()
            await self._news.wait()

    async def leave(self) -> None:
        """Give everything back."""
        await self._bus.alive()
        self._end()

    def close(self) -> None:
        """End; a seat with an instance is kept for a while."""
        if self.instance is None:
            self._end()
        else:
            self.silent()
            self._learn(frozenset())

    def give(self, partitions: frozenset[int]) -> None:
        """The group has decided. A silent member does not hear it."""
        self._given = partitions
        if not self._silent:
            self._learn(partitions)

    def silent(self) -> None:
        """No heartbeats from now on."""
        self._silent = True
        self.stop_waiting()
        self._timer = asyncio.get_running_loop().call_later(self._bus.cluster.session_timeout, self._group.remove, self)

    def back(self) -> None:
        """The next heartbeat tells it what has happened; a seat that is gone is taken again, at the end."""
        self.stop_waiting()
        self._timer = asyncio.get_running_loop().call_later(self._bus.cluster.session_timeout / 3, self._heartbeat)

    def stop_waiting(self) -> None:
        """No time runs any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _heartbeat(self) -> None:
        self._silent = False
        if self in self._group.members:
            self._learn(self._given)
        else:
            self._group.enter(self)

    def _end(self) -> None:
        self.stop_waiting()
        self._group.remove(self)
        self._learn(frozenset())

    def _learn(self, partitions: frozenset[int]) -> None:
        self._known = partitions
        self._news.set()
