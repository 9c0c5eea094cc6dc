"""In-memory bus: several clients of one `MemoryCluster`, with faults, kills and pauses.

Deterministic: it waits by asyncio only, uses the given clock and no randomness, so that runs on a virtual-time event loop
are repeatable. No settings, security or network. The contract suite that tests the Kafka bus tests this one as well.
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Protocol
from zlib import crc32

from bailiff_bus.assignment import Assigned, assign
from bailiff_bus.port import (
    READ_LIMIT,
    Batch,
    BusUnavailable,
    GroupMembership,
    Headers,
    Message,
    OffsetOutOfRange,
    OutgoingMessage,
    Producer,
    Reader,
    Receipt,
    Span,
    TopicMissing,
    Wanted,
)
from bailiff_bus.topics import TOPICS, check_size

At = tuple[str, int]
MEMBER_TIMEOUT = 6.0


@dataclass(frozen=True, slots=True)
class SendOutcome:
    """The outcome of one send: stored `stored` times after `delay` seconds, then acknowledged or not.

    Without acknowledgement it raises `BusUnavailable`. offset_known: whether the acknowledgement has the offset.
    """

    delay: float = 0.0
    stored: int = 1
    acknowledged: bool = True
    offset_known: bool = True


STORED = SendOutcome()
ACKNOWLEDGEMENT_LOST = SendOutcome(acknowledged=False)
NOT_STORED = SendOutcome(stored=0, acknowledged=False)
STORED_TWICE = SendOutcome(stored=2)
OFFSET_UNKNOWN = SendOutcome(offset_known=False)


class Faults(Protocol):
    """Fault injection: called once per batch, and once per message and reader. `client` is the client's name."""

    def send(self, client: str, topic: str, partition: int, value: bytes) -> SendOutcome:
        """The outcome of this batch. value: of its first message."""
        ...

    def delivery(self, client: str, message: Message) -> float:
        """Delay in seconds before readers of this client receive this message and later ones of its partition."""
        ...


@dataclass(slots=True)
class Partition:
    """Messages in offset order (gaps are possible), and the readers that wait for the next one."""

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

    batch: messages per batch; small, so that faults can hit the middle of a `send_many`.
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
        self._created: dict[str, int] = {}
        self._groups: dict[tuple[str, str], _Group] = {}

    def client(self, name: str) -> "MemoryBus":
        """A client, representing one process."""
        return MemoryBus(self, name)

    def begin_outage(self) -> None:
        """The brokers become unreachable: calls and sends fail, readers get nothing. Group memberships are kept."""
        self.outage = True

    def end_outage(self) -> None:
        """The brokers are reachable again."""
        self.outage = False
        for partitions in self._topics.values():
            for each in partitions:
                each.wake()

    # --- topics

    def create_topics(self, pools: int) -> None:
        """Create all topics of the registry, and add missing partitions."""
        for topic in TOPICS.values():
            self.add_partitions(topic.name, topic.partition_count(pools))

    def add_partitions(self, topic: str, total: int) -> None:
        """Create the topic if it does not exist, and grow it to `total` partitions."""
        if topic not in self._topics:
            self._topics[topic], self._created[topic] = [], self._created.get(topic, 0) + 1
        partitions = self._topics[topic]
        partitions += [Partition() for _ in range(total - len(partitions))]
        for (_, grouped), group in self._groups.items():
            if grouped == topic:
                group.assign()

    def delete_topic(self, topic: str) -> None:
        """Delete it with its messages; who waits for some looks again."""
        for each in self._topics.pop(topic):
            each.wake()

    def topic_id(self, topic: str) -> str:
        """Another one each time that the topic is created."""
        return f"{topic}-{self._created.get(topic, 0)}"

    def partitions(self, topic: str) -> list[Partition]:
        """The partitions of the topic. Raises `TopicMissing`."""
        if topic not in self._topics:
            raise TopicMissing(topic)
        return self._topics[topic]

    def messages(self, topic: str, partition: int) -> list[Message]:
        """The messages of the partition."""
        return list(self._topics[topic][partition].messages)

    def trim(self, topic: str, partition: int, offset: int) -> None:
        """Drop messages before `offset`, as retention does."""
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
        message = Message(topic, partition, self._topics[topic][partition].end, self.clock(), key, headers, value)
        self.keep(message)
        return message

    def keep(self, message: Message) -> None:
        """Append this message, such as one of another cluster."""
        where = self._topics[message.topic][message.partition]
        where.messages.append(message)
        where.end = message.offset + 1
        where.wake()

    def group(self, name: str, topic: str) -> "_Group":
        """The group's state, created on first use."""
        return self._groups.setdefault((name, topic), _Group(self, topic))


class MemoryBus:
    """One client. `kill` and `pause` act as SIGKILL and SIGSTOP on a process."""

    def __init__(self, cluster: MemoryCluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self._running = asyncio.Event()
        self._running.set()
        self._killed = False
        self._producers: list[MemoryProducer] = []
        self._memberships: list[MemoryGroupMembership] = []

    # --- for tests and simulation

    def kill(self) -> None:
        """As SIGKILL: no further effects, and pending calls never return."""
        self._killed = True
        self._running.clear()
        for producer in self._producers:
            producer.drop()
        for membership in self._memberships:
            membership.silent()

    def pause(self) -> None:
        """Its calls block until `resume`."""
        self._running.clear()
        for membership in self._memberships:
            membership.silent()

    def resume(self) -> None:
        """Continue after `pause`."""
        if not self._killed:
            self._running.set()
            for membership in self._memberships:
                membership.resume_heartbeats()

    async def alive(self) -> None:
        """Pass while the client runs; block while it is paused, and forever once it is killed."""
        await self._running.wait()

    async def reach(self) -> None:
        """Wait while paused; raise `BusUnavailable` during an outage."""
        await self.alive()
        if self.cluster.outage:
            raise BusUnavailable("the brokers are unreachable")

    # --- the port

    async def spans(self, topic: str) -> Mapping[int, Span]:
        """The offset range of each partition of the topic."""
        await self.reach()
        partitions = self.cluster.partitions(topic)
        return {number: Span(each.begin, each.end, self.cluster.topic_id(topic)) for number, each in enumerate(partitions)}

    async def reader(self, positions: Sequence[tuple[str, int, int]], wanted: Wanted | None = None) -> Reader:
        """A reader of (topic, partition, offset) positions. wanted: it passes over all other messages."""
        await self.reach()
        return MemoryReader(self, positions, wanted)

    async def producer(self) -> Producer:
        """A new producer."""
        await self.reach()
        producer = MemoryProducer(self)
        self._producers.append(producer)
        return producer

    async def join(self, group: str, topic: str, instance: str | None) -> GroupMembership:
        """Join the group."""
        await self.reach()
        membership = MemoryGroupMembership(self, self.cluster.group(group, topic), instance)
        self._memberships.append(membership)
        return membership

    async def members(self, group: str) -> Mapping[str, Assigned]:
        """The members that are not silent, and what each owns."""
        await self.reach()
        found = [member for (name, _), each in self.cluster._groups.items() if name == group for member in each.members]
        return {f"{number:06}": member.assigned_by_group for number, member in enumerate(found)}

    async def topic_settings(self, topic: str) -> Mapping[str, str]:
        """The settings of the registry for one broker."""
        await self.reach()
        self.cluster.partitions(topic)
        return {**TOPICS[topic].settings_for(brokers=1), "replication": "1", "brokers": "1"}

    async def close(self) -> None:
        """Close everything."""
        await self.alive()
        for producer in self._producers:
            await producer.close()
        for membership in self._memberships:
            membership.close()
        self._producers.clear()
        self._memberships.clear()


class MemoryReader:
    """Reads by offset."""

    def __init__(self, bus: MemoryBus, positions: Sequence[tuple[str, int, int]], wanted: Wanted | None = None) -> None:
        self._bus, self._wanted = bus, wanted
        self._woken = False
        self._wakeup: asyncio.Future[None] | None = None
        self._positions: dict[At, int] = {(topic, partition): offset for topic, partition, offset in positions}
        self._visible: dict[At, tuple[int, float]] = {}  # the next offset, and when it becomes visible
        self._topic_ids = {at: bus.cluster.topic_id(at[0]) for at in self._positions}

    async def read(self, limit: int = READ_LIMIT, wait: float = 0.5) -> list[Message]:
        """The next messages, at most `limit`; waits up to `wait` seconds for a first one."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        await asyncio.sleep(0)
        while True:
            await self._bus.alive()
            found, next_visible = self._take(limit, loop.time())
            remaining = min(until, next_visible) - loop.time()
            if found or self._woken or loop.time() >= until:
                self._woken = False
                return found
            await self._wait(remaining)

    def follow(self, topic: str, partition: int, offset: int) -> None:
        """Add this partition at `offset`, or seek to `offset` if it is read already."""
        self._positions[topic, partition] = offset
        self._visible.pop((topic, partition), None)
        self._topic_ids[topic, partition] = self._bus.cluster.topic_id(topic)

    def position(self, topic: str, partition: int) -> int:
        """The next offset to read."""
        return self._positions[topic, partition]

    def wake(self) -> None:
        """A waiting read returns at once; if none waits, the next one does not wait."""
        self._woken = True
        if self._wakeup is not None:
            _set(self._wakeup)

    async def close(self) -> None:
        """Nothing to release."""
        await self._bus.alive()

    def _take(self, limit: int, now: float) -> tuple[list[Message], float]:
        """The visible messages, and when the next becomes visible if none is appended. Advances the positions."""
        found: list[Message] = []
        next_visible = float("inf")
        if self._bus.cluster.outage:
            return found, next_visible
        for at in list(self._positions):
            where = self._partition(at)
            if where is None:
                continue
            position = self._positions[at]
            topic_id = self._bus.cluster.topic_id(at[0])
            if not where.begin <= position <= where.end or topic_id != self._topic_ids[at]:
                if found:
                    break  # return these first; the next call raises
                self._topic_ids[at] = topic_id
                raise OffsetOutOfRange(*at, position, Span(where.begin, where.end))
            for message in where.messages[where.index(position) :]:
                visible_at = self._visibility(at, message, now)
                if visible_at > now:
                    next_visible = min(next_visible, visible_at)
                    break
                if len(found) == limit:
                    return found, now
                if self._wanted is None or self._wanted(message):
                    found.append(message)
                self._positions[at] = message.offset + 1
            else:
                self._positions[at] = where.end
        return found, next_visible

    def _visibility(self, at: At, message: Message, now: float) -> float:
        known, visible_at = self._visible.get(at, (-1, 0.0))
        if known != message.offset:
            faults = self._bus.cluster.faults
            visible_at = now + (faults.delivery(self._bus.name, message) if faults else 0.0)
            self._visible[at] = (message.offset, visible_at)
        return visible_at

    async def _wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        wakeup = self._wakeup = loop.create_future()
        watched = [where for at in self._positions if (where := self._partition(at)) is not None]
        for where in watched:
            where.waiting.append(wakeup)
        timer = loop.call_later(max(0.0, seconds), _set, wakeup)
        try:
            await wakeup
        finally:
            timer.cancel()
            self._wakeup = None
            for where in watched:
                if wakeup in where.waiting:
                    where.waiting.remove(wakeup)

    def _partition(self, at: At) -> Partition | None:
        topic, partition = at
        partitions = self._bus.cluster.partitions(topic)
        return partitions[partition] if partition < len(partitions) else None


def _set(wakeup: "asyncio.Future[None]") -> None:
    if not wakeup.done():
        wakeup.set_result(None)


@dataclass(slots=True)
class _PendingBatch:
    topic: str
    partition: int
    messages: Sequence[OutgoingMessage]
    receipt: "asyncio.Future[Receipt]"


class MemoryProducer:
    """Sends one batch after another. After a failure it accepts no more messages; accepted ones are still sent."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus
        self._failure: str | None = None
        self._pending: deque[_PendingBatch] = deque()
        self._sending: asyncio.Task[None] | None = None

    async def send(
        self, topic: str, value: bytes, *, key: bytes | None = None, headers: Headers = (), partition: int | None = None
    ) -> "asyncio.Future[Receipt]":
        """Send one message; the result is its acknowledgement."""
        (batch,) = await self.send_many(topic, [(key, headers, value)], partition=partition)
        return batch.first

    async def send_many(self, topic: str, messages: Sequence[OutgoingMessage], *, partition: int | None = None) -> list[Batch]:
        """Send several messages, in small batches."""
        await self._bus.alive()
        for key, headers, value in messages:
            check_size(topic, key, headers, value)
        if self._failure is not None:
            raise BusUnavailable(f"this producer has stopped: {self._failure}")
        try:
            count = len(self._bus.cluster.partitions(topic))
        except TopicMissing:
            count = 0
        if not count or (partition or 0) >= count:
            raise BusUnavailable(self._fail(f"{topic}/{partition or 0} does not exist"))
        groups: dict[int, list[OutgoingMessage]] = {}
        for message in messages:
            groups.setdefault(crc32(message[0] or b"") % count if partition is None else partition, []).append(message)
        batch_size = self._bus.cluster.batch
        return [
            self._enqueue(topic, at, group[begin : begin + batch_size])
            for at, group in groups.items()
            for begin in range(0, len(group), batch_size)
        ]

    def _enqueue(self, topic: str, partition: int, messages: Sequence[OutgoingMessage]) -> Batch:
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        receipt.add_done_callback(lambda done: done.cancelled() or done.exception())  # not every acknowledgement is awaited
        self._pending.append(_PendingBatch(topic, partition, messages, receipt))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_all())
        return Batch(len(messages), receipt)

    async def close(self, timeout: float = 5.0) -> None:
        """Flush for at most `timeout` seconds, then close. After a failed send nothing is flushed."""
        await self._bus.alive()
        if self._sending is not None and self._failure is None:
            await asyncio.wait([self._sending], timeout=timeout)
        self._fail("the producer was closed")
        self.drop()

    def drop(self) -> None:
        """Drop batches that are not stored yet."""
        self._pending.clear()
        if self._sending is not None:
            self._sending.cancel()

    async def _send_all(self) -> None:
        while self._pending:
            batch = self._pending[0]
            await self._bus.alive()
            cluster = self._bus.cluster
            outcome = STORED
            if cluster.outage:
                outcome = NOT_STORED
            elif cluster.faults is not None:
                outcome = cluster.faults.send(self._bus.name, batch.topic, batch.partition, batch.messages[0][2])
            if outcome.delay:
                await asyncio.sleep(outcome.delay)
                await self._bus.alive()
            self._pending.popleft()
            stored = [
                cluster.store(batch.topic, batch.partition, *message) for _ in range(outcome.stored) for message in batch.messages
            ]
            await self._bus.alive()
            if batch.receipt.done():
                continue
            if stored and outcome.acknowledged and self._failure is None:
                offset = stored[0].offset if outcome.offset_known else None
                batch.receipt.set_result(Receipt(batch.partition, offset, stored[0].time))
            else:
                self._fail(f"{batch.topic}/{batch.partition} did not acknowledge")
                batch.receipt.set_exception(BusUnavailable(self._failure))

    def _fail(self, reason: str) -> str:
        self._failure = self._failure or reason
        for batch in self._pending:
            if not batch.receipt.done():
                batch.receipt.set_exception(BusUnavailable(self._failure))
        return self._failure


class _Group:
    """A consumer group: members in join order, and their assignments."""

    def __init__(self, cluster: MemoryCluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.members: list[MemoryGroupMembership] = []

    def enter(self, membership: "MemoryGroupMembership") -> None:
        """Add the member; it replaces one with the same instance."""
        for number, member in enumerate(self.members):
            if membership.instance is not None and member.instance == membership.instance:
                self.members[number] = membership
                member.stop_waiting()
                membership.assign(member.assigned_by_group)
                return
        self.members.append(membership)
        self.assign()

    def remove(self, membership: "MemoryGroupMembership") -> None:
        """Remove the member and reassign its partitions."""
        if membership in self.members:
            self.members.remove(membership)
            self.assign()

    def assign(self) -> None:
        """Divide the partitions. Silent members are included until their session times out."""
        names = {f"{number:06}": member for number, member in enumerate(self.members)}
        before = {name: member.assigned_by_group for name, member in names.items()}
        if names:
            for name, assigned in assign(range(len(self.cluster.partitions(self.topic))), before).items():
                names[name].assign(assigned)


class MemoryGroupMembership:
    """Membership in a group; kept for the session timeout while the client is silent."""

    def __init__(self, bus: MemoryBus, group: _Group, instance: str | None) -> None:
        self.instance = instance
        self._bus = bus
        self._group = group
        self.assigned_by_group = Assigned()
        self._known = Assigned()
        self._silent = False
        self._timer: asyncio.TimerHandle | None = None
        self._wakeup = asyncio.Event()
        group.enter(self)
        self._reported = self._known

    @property
    def assigned(self) -> Assigned:
        """The partitions of this member, as of its last heartbeat."""
        return self._known

    async def changed(self) -> Assigned:
        """Wait until `assigned` differs from what this call returned last, and return it."""
        while True:
            await self._bus.alive()
            if self._known != self._reported:
                self._reported = self._known
                return self._reported
            self._wakeup.clear()
            await self._wakeup.wait()

    async def leave(self) -> None:
        """Leave the group and release all partitions."""
        await self._bus.alive()
        self._leave()

    def close(self) -> None:
        """Stop; a static member keeps its assignment until the session times out."""
        if self.instance is None:
            self._leave()
        else:
            self.silent()
            self._update(Assigned())

    def assign(self, assigned: Assigned) -> None:
        """The group has assigned these partitions. A silent member is not notified."""
        self.assigned_by_group = assigned
        if not self._silent:
            self._update(assigned)

    def silent(self) -> None:
        """Stop sending heartbeats."""
        self._silent = True
        self.stop_waiting()
        self._timer = asyncio.get_running_loop().call_later(self._bus.cluster.session_timeout, self._group.remove, self)

    def resume_heartbeats(self) -> None:
        """Resume heartbeats: the next one updates the assignment, or joins again if the session has timed out."""
        self.stop_waiting()
        self._timer = asyncio.get_running_loop().call_later(self._bus.cluster.session_timeout / 3, self._heartbeat)

    def stop_waiting(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _heartbeat(self) -> None:
        self._silent = False
        if self in self._group.members:
            self._update(self.assigned_by_group)
        else:
            self._group.enter(self)

    def _leave(self) -> None:
        self.stop_waiting()
        self._group.remove(self)
        self._update(Assigned())

    def _update(self, assigned: Assigned) -> None:
        self._known = assigned
        self._wakeup.set()
