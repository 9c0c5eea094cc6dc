"""One suite for both buses: what the services rely on, and what the audit log's reader and writer make of it.

No test waits for time to pass: each waits for what it expects, and the test's own time-out is the only limit.
"""

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Protocol

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.structs import TopicPartition
from tests.kits.kafka import kafka  # noqa: F401 - a fixture
from tests.kits.memory_bus import MemoryCluster
from tests.kits.waiting import PATIENCE_S

from bailiff_bus import topics
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.port import Bus, Message, OffsetOutOfRange, Reader, Receipt, Span, TopicMissing
from bailiff_core.records import ChainHead, Record, Wire, encode, record_hash
from bailiff_core.records.facts import ClockAdvanced, PoolCreated, WriterStarted
from bailiff_log import reader as log_reader
from bailiff_log import writer as log_writer
from bailiff_log.reader import AuditReader, Entry
from bailiff_log.writer import AuditWriter, Committed, SteppedDown
from bailiff_service.settings import KafkaSettings

_run = uuid.uuid4().hex[:8]  # the broker may be shared with other runs
_numbers = itertools.count(1)


class World(Protocol):
    """Topics of a test's own, and clients to them."""

    async def topic(self, partitions: int) -> str: ...

    async def make_anew(self, topic: str, partitions: int) -> None: ...

    async def add_partitions(self, topic: str, total: int) -> None: ...

    async def trim(self, topic: str, partition: int, offset: int) -> None: ...

    async def use_up_offset(self, topic: str, partition: int) -> None: ...

    async def client(self) -> Bus: ...


class MemoryWorld:
    """The bus in memory."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster(clock=itertools.count(1_700_000_000_000_000, 1000).__next__)

    async def topic(self, partitions: int) -> str:
        name = f"contract-{_run}-{next(_numbers)}"
        self.cluster.add_partitions(name, partitions)
        return name

    async def make_anew(self, topic: str, partitions: int) -> None:
        self.cluster.delete_topic(topic)
        self.cluster.add_partitions(topic, partitions)

    async def add_partitions(self, topic: str, total: int) -> None:
        self.cluster.add_partitions(topic, total)

    async def trim(self, topic: str, partition: int, offset: int) -> None:
        self.cluster.trim(topic, partition, offset)

    async def use_up_offset(self, topic: str, partition: int) -> None:
        self.cluster.skip(topic, partition)

    async def client(self) -> Bus:
        return self.cluster.client(f"client-{next(_numbers)}")


class KafkaWorld:
    """The real Kafka."""

    def __init__(self, bootstrap: str) -> None:
        self.settings = KafkaSettings(bootstrap=bootstrap, request_timeout_ms=20_000, session_timeout_ms=3_000)
        self.admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        self.opened: list[KafkaBus] = []

    async def topic(self, partitions: int) -> str:
        name = f"contract-{_run}-{next(_numbers)}"
        await self.create(name, partitions)
        return name

    async def create(self, name: str, partitions: int) -> None:
        settings = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": str(1024 * 1024)}
        answer = await self.admin.create_topics([NewTopic(name, partitions, 1, topic_configs=settings)])
        assert [code for _, code, _ in answer.topic_errors] == [0]
        await self.wait_for(name, partitions)

    async def make_anew(self, topic: str, partitions: int) -> None:
        await self.admin.delete_topics([topic])
        await self.create(topic, partitions)

    async def add_partitions(self, topic: str, total: int) -> None:
        await self.admin.create_partitions({topic: NewPartitions(total)})
        await self.wait_for(topic, total)

    async def wait_for(self, topic: str, partitions: int) -> None:
        while True:
            (described,) = await self.admin.describe_topics([topic])
            if sum(each["leader"] >= 0 for each in described["partitions"]) == partitions:
                return
            await asyncio.sleep(0.02)

    async def trim(self, topic: str, partition: int, offset: int) -> None:
        await self.admin.delete_records({TopicPartition(topic, partition): RecordsToDelete(offset)})

    async def use_up_offset(self, topic: str, partition: int) -> None:
        """A transaction leaves a record, and a marker that no reader is shown."""
        bus = await self.client()
        end = (await bus.spans(topic))[partition].end
        producer = AIOKafkaProducer(
            bootstrap_servers=self.settings.bootstrap, transactional_id=f"contract-{_run}-{next(_numbers)}"
        )
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"junk", partition=partition)
        finally:
            await producer.stop()
        while (await bus.spans(topic))[partition].end < end + 2:  # noqa: ASYNC110 - the broker writes the marker later
            await asyncio.sleep(0.02)

    async def client(self) -> Bus:
        bus = KafkaBus(self.settings)
        self.opened.append(bus)
        return bus


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Both buses, one after the other."""
    if request.param == "memory":
        yield MemoryWorld()
        return
    real = KafkaWorld(request.getfixturevalue("kafka").bootstrap)
    await real.admin.start()
    try:
        yield real
    finally:
        for bus in real.opened:
            await bus.close()
        await real.admin.close()


async def send(bus: Bus, topic: str, *values: bytes, partition: int = 0) -> list[Receipt]:
    """Send in order, and wait for the acknowledgements."""
    producer = await bus.producer()
    sent = [await producer.send(topic, value, partition=partition) for value in values]
    return [await each for each in sent]


async def read(reader: Reader, count: int) -> list[Message]:
    """Reads this many messages."""
    found: list[Message] = []
    while len(found) < count:
        found += await reader.read(wait=5)
    return found


# --- messages


async def test_bytes_keys_headers_and_order_are_as_sent(world: World) -> None:
    topic, bus = await world.topic(1), await world.client()
    producer = await bus.producer()
    headers = (("ce_type", b"a"), ("content-type", b"b"), ("ce_type", b"\xff\x00"))
    sent = [
        await producer.send(topic, b"first", key=b"k", headers=headers),
        await producer.send(topic, b"", partition=0),
        await producer.send(topic, b"third"),
    ]
    receipts = [await each for each in sent]
    found = await read(await bus.reader([(topic, 0, 0)]), 3)
    assert [(each.key, each.headers, each.value) for each in found] == [
        (b"k", headers, b"first"),
        (None, (), b""),
        (None, (), b"third"),
    ]
    assert [each.offset for each in found] == [0, 1, 2] == [each.offset for each in receipts]
    assert [each.time for each in found] == [each.time for each in receipts]
    assert found[0].time > 1_500_000_000_000_000  # µs


async def test_a_key_always_goes_to_the_same_partition(world: World) -> None:
    topic, bus = await world.topic(8), await world.client()
    producer, other = await bus.producer(), await (await world.client()).producer()
    receipts = [await (await each.send(topic, b"x", key=b"pool-a")) for each in (producer, other, producer)]
    assert len({each.partition for each in receipts}) == 1


async def test_an_explicit_partition_is_obeyed(world: World) -> None:
    topic, bus = await world.topic(3), await world.client()
    receipts = [await send(bus, topic, b"x", partition=partition) for partition in (2, 0, 1, 2)]
    assert [each.partition for (each,) in receipts] == [2, 0, 1, 2]
    assert await bus.spans(topic) == {0: Span(0, 1), 1: Span(0, 1), 2: Span(0, 2)}


async def test_two_producers_interleave_each_in_its_own_order(world: World) -> None:
    topic, bus = await world.topic(1), await world.client()
    one, two = await bus.producer(), await (await world.client()).producer()
    sent = []
    for number in range(50):
        sent += [await one.send(topic, b"one %d" % number), await two.send(topic, b"two %d" % number)]
    offsets = sorted([(await each).offset or 0 for each in sent])
    found = await read(await bus.reader([(topic, 0, 0)]), 100)
    assert offsets == list(range(100)) == [each.offset for each in found]
    for name in (b"one", b"two"):
        assert [each.value for each in found if each.value.startswith(name)] == [b"%s %d" % (name, n) for n in range(50)]


async def test_a_message_above_the_limit_is_refused_and_the_producer_continues(world: World) -> None:
    topic, bus = await world.topic(1), await world.client()
    producer = await bus.producer()
    with pytest.raises(ValueError, match="exceeds the limit"):
        await producer.send(topic, bytes(topics.DEAD_LETTER_LIMIT + 1))
    assert (await (await producer.send(topic, b"small"))).offset == 0


async def test_what_is_sent_together_is_as_if_sent_one_by_one(world: World) -> None:
    """More than fits into one batch, headers and all."""
    topic, bus = await world.topic(1), await world.client()
    producer = await bus.producer()
    sent = [(None if n % 3 else b"key %d" % n, (("n", b"%d" % n),), b"%d " % n * 5000) for n in range(100)]
    batches = await producer.send_many(topic, sent)
    after = await producer.send(topic, b"after")
    begins = [(await batch.first).offset or 0 for batch in batches]
    assert len(batches) > 1
    assert begins == list(itertools.accumulate([0, *(batch.count for batch in batches)]))[:-1]
    assert (await after).offset == 100 == sum(batch.count for batch in batches)
    found = await read(await bus.reader([(topic, 0, 0)]), 101)
    assert [(each.key, each.headers, each.value) for each in found[:-1]] == sent
    assert await producer.send_many(topic, []) == []


async def test_what_is_sent_together_goes_by_its_keys(world: World) -> None:
    topic, bus = await world.topic(5), await world.client()
    producer = await bus.producer()
    keys = [b"node-%d" % n for n in range(12)]
    for batch in await producer.send_many(topic, [(key, (), b"1") for key in keys] + [(key, (), b"2") for key in keys]):
        await batch.first
    alone = {key: (await (await producer.send(topic, b"3", key=key))).partition for key in keys}
    found = await read(await bus.reader([(topic, partition, 0) for partition in range(5)]), 36)
    assert {(each.key, each.partition) for each in found} == set(alone.items())
    assert all([each.value for each in found if each.key == key] == [b"1", b"2", b"3"] for key in keys)


async def test_of_what_is_sent_together_nothing_is_sent_if_one_is_too_large(world: World) -> None:
    topic, bus = await world.topic(1), await world.client()
    producer = await bus.producer()
    with pytest.raises(ValueError, match="exceeds the limit"):
        await producer.send_many(topic, [(None, (), b"small"), (None, (), bytes(topics.DEAD_LETTER_LIMIT + 1))])
    assert (await (await producer.send(topic, b"small"))).offset == 0


# --- reading


async def test_limit_and_position(world: World) -> None:
    topic, bus = await world.topic(1), await world.client()
    await send(bus, topic, *(b"%d" % n for n in range(5)))
    reader = await bus.reader([(topic, 0, 1)])
    assert [each.offset for each in await reader.read(limit=2, wait=5)] == [1, 2]
    assert reader.position(topic, 0) == 3
    assert [each.offset for each in await read(reader, 2)] == [3, 4]
    assert await reader.read(wait=0) == []


async def test_a_reader_of_many_messages_yields_to_other_tasks(world: World) -> None:
    topic, bus = await world.topic(1), await world.client()
    await send(bus, topic, *(b"%d" % n for n in range(50)))
    reader = await bus.reader([(topic, 0, 0)])
    await reader.read(limit=10, wait=5)
    cycles = 0

    async def other() -> None:
        nonlocal cycles
        while True:
            cycles += 1
            await asyncio.sleep(0)

    another = asyncio.create_task(other())
    for number in range(4):
        assert len(await reader.read(limit=10, wait=5)) == 10
        assert cycles > number
    another.cancel()


async def test_a_waiting_read_wakes(world: World) -> None:
    topic, bus = await world.topic(2), await world.client()
    reader = await bus.reader([(topic, 0, 0), (topic, 1, 0)])
    waiting = asyncio.create_task(reader.read(wait=60))
    await send(await world.client(), topic, b"x", partition=1)
    assert [each.value for each in await waiting] == [b"x"]


async def test_a_reader_may_move_and_follow_a_partition_added_later(world: World) -> None:
    topic, bus = await world.topic(1), await world.client()
    await send(bus, topic, b"a", b"b")
    reader = await bus.reader([(topic, 0, 0)])
    await read(reader, 2)
    await world.add_partitions(topic, 2)
    assert await bus.spans(topic) == {0: Span(0, 2), 1: Span(0, 0)}
    await send(await world.client(), topic, b"new", partition=1)
    reader.follow(topic, 1, 0)
    assert [each.value for each in await read(reader, 1)] == [b"new"]
    reader.follow(topic, 0, 1)
    assert [each.value for each in await read(reader, 1)] == [b"b"]


async def test_a_producer_finds_a_partition_added_later(world: World) -> None:
    topic, bus = await world.topic(1), await world.client()
    producer = await bus.producer()
    await (await producer.send(topic, b"x", partition=0))
    await world.add_partitions(topic, 2)
    assert (await (await producer.send(topic, b"x", partition=1))).partition == 1


@pytest.mark.parametrize("asked", [1, 5])
async def test_a_position_outside_is_an_error_that_names_the_span(world: World, asked: int) -> None:
    topic, bus = await world.topic(1), await world.client()
    await send(bus, topic, *(b"%d" % n for n in range(4)))
    await world.trim(topic, 0, 2)
    assert await bus.spans(topic) == {0: Span(2, 4)}
    reader = await bus.reader([(topic, 0, asked)])
    with pytest.raises(OffsetOutOfRange) as gone:
        await read(reader, 1)
    assert (gone.value.topic, gone.value.partition, gone.value.offset, gone.value.span) == (topic, 0, asked, Span(2, 4))
    reader.follow(topic, 0, 2)
    assert [each.offset for each in await read(reader, 2)] == [2, 3]


async def test_a_topic_keeps_its_id_until_it_is_made_anew(world: World) -> None:
    topic, bus = await world.topic(2), await world.client()

    async def topic_id() -> str:
        (found,) = {span.topic_id for span in (await bus.spans(topic)).values()}
        return found

    first = await topic_id()
    await send(bus, topic, b"a", b"b", b"c", partition=1)
    await world.trim(topic, 1, 2)
    await world.add_partitions(topic, 3)
    assert await topic_id() == first
    await world.make_anew(topic, 2)
    assert await topic_id() != first


async def test_a_reader_learns_once_that_its_topic_was_made_anew_also_where_the_new_one_holds_its_position(world: World) -> None:
    topic, bus = await world.topic(2), await world.client()
    await send(bus, topic, b"a", b"b")
    await send(bus, topic, b"a", partition=1)
    reader = await bus.reader([(topic, 0, 0), (topic, 1, 0)])
    await read(reader, 3)
    await bus.spans(topic)
    await world.make_anew(topic, 2)
    await send(await world.client(), topic, *(b"%d" % n for n in range(5)))
    gone, values = list[tuple[int, Span]](), list[bytes]()
    async with asyncio.timeout(PATIENCE_S):
        while len(gone) < 2 or values[-5:] != [b"%d" % n for n in range(5)]:
            try:
                values += [each.value for each in await reader.read(wait=0.1)]
            except OffsetOutOfRange as error:
                gone.append((error.partition, error.span))
                reader.follow(topic, error.partition, error.span.begin)
    assert len(gone) == 2
    assert dict(gone) == {0: Span(0, 5), 1: Span(0, 0)}
    assert await reader.read(wait=0.1) == []


async def test_the_end_is_a_position(world: World) -> None:
    topic, bus = await world.topic(1), await world.client()
    await send(bus, topic, b"a", b"b")
    reader = await bus.reader([(topic, 0, 2)])
    assert await reader.read(wait=0.1) == []
    await send(bus, topic, b"c")
    assert [each.value for each in await read(reader, 1)] == [b"c"]


async def test_the_position_passes_over_offsets_without_a_message(world: World) -> None:
    topic, bus = await world.topic(1), await world.client()
    await send(bus, topic, b"a")
    await world.use_up_offset(topic, 0)
    end = (await bus.spans(topic))[0].end
    reader = await bus.reader([(topic, 0, 0)])
    while reader.position(topic, 0) < end:
        await reader.read(wait=0.1)
    assert reader.position(topic, 0) == end


async def test_readers_of_one_partition_read_on_their_own(world: World) -> None:
    topic, bus = await world.topic(1), await world.client()
    await send(bus, topic, *(b"%d" % n for n in range(5)))
    first, second = await bus.reader([(topic, 0, 0)]), await bus.reader([(topic, 0, 3)])
    assert [each.offset for each in await read(second, 2)] == [3, 4]
    assert [each.offset for each in await read(first, 5)] == [0, 1, 2, 3, 4]
    waiting = [asyncio.create_task(read(each, 1)) for each in (first, second)]
    await send(bus, topic, b"5")
    assert [[each.offset for each in await task] for task in waiting] == [[5], [5]]
    first.follow(topic, 0, 2)
    assert [each.offset for each in await read(first, 4)] == [2, 3, 4, 5]
    assert await second.read(wait=0) == []


async def test_a_reader_that_does_not_read_keeps_no_other_from_reading(world: World) -> None:
    """It has more to read than is fetched for it at once."""
    topic, bus = await world.topic(2), await world.client()
    slow, other = await bus.reader([(topic, 0, 0)]), await bus.reader([(topic, 0, 0), (topic, 1, 0)])
    large = [b"%d" % n * 20_000 for n in range(300)]
    for number in range(0, len(large), 30):
        await send(bus, topic, *large[number : number + 30])
        await send(bus, topic, b"small", partition=1)
        assert len(await read(other, 31)) == 31
    assert [each.value for each in await read(slow, len(large))] == large
    await send(bus, topic, b"the end")
    assert [each.value for each in await read(slow, 1)] == [b"the end"]


async def test_unwanted_messages_are_passed_over(world: World) -> None:
    topic, bus = await world.topic(1), await world.client()
    await send(bus, topic, b"a", b"b", b"a", b"b")
    reader = await bus.reader([(topic, 0, 0)], lambda message: message.value == b"a")
    everything = await bus.reader([(topic, 0, 0)])
    assert [each.offset for each in await read(reader, 2)] == [0, 2]
    waiting = asyncio.create_task(read(reader, 1))
    await send(bus, topic, b"b", b"b", b"a", b"b")
    assert [each.offset for each in await waiting] == [6]
    assert [each.offset for each in await read(everything, 8)] == list(range(8))
    while reader.position(topic, 0) < 8:
        await reader.read(wait=0.1)
    assert reader.position(topic, 0) == 8


async def test_a_reader_is_woken(world: World) -> None:
    topic, bus = await world.topic(1), await world.client()
    reader = await bus.reader([(topic, 0, 0)])
    waiting = asyncio.create_task(reader.read(wait=3600))
    await asyncio.sleep(0)
    reader.wake()
    assert await waiting == []
    reader.wake()
    assert await reader.read(wait=3600) == []
    await send(bus, topic, b"x")
    assert [each.value for each in await reader.read(wait=3600)] == [b"x"]


@pytest.mark.parametrize("seed", range(3))
async def test_readers_that_come_go_and_move_read_what_is_stored(world: World, seed: int) -> None:
    """Each reads each message once, in order, from where it stands, whatever the others do."""
    topic, bus, random = await world.topic(3), await world.client(), Random(seed)
    producer = await bus.producer()
    stored: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    readers: dict[Reader, dict[int, int]] = {}

    async def check(reader: Reader, limit: int, wait: float) -> None:
        at = readers[reader]
        for message in await reader.read(limit, wait):
            assert (message.offset, message.value) == (at[message.partition], stored[message.partition][message.offset])
            at[message.partition] += 1

    for number in range(150):
        match random.randrange(6):
            case 0 if len(readers) < 6:
                at = {partition: random.randint(0, len(stored[partition])) for partition in random.sample(range(3), 2)}
                readers[await bus.reader([(topic, *each) for each in at.items()])] = at
            case 1 if len(readers) > 3:
                reader = random.choice(list(readers))
                await reader.close()
                del readers[reader]
            case 2 if readers:
                reader = random.choice(list(readers))
                partition = random.randrange(3)
                readers[reader][partition] = random.randint(0, len(stored[partition]))
                reader.follow(topic, partition, readers[reader][partition])
            case 3 | 4:
                partition = random.randrange(3)
                values = [b"%d" % number * random.choice([1, 1, 30_000]) for _ in range(random.randint(1, 5))]
                await asyncio.gather(*[await producer.send(topic, value, partition=partition) for value in values])
                stored[partition] += values
            case _ if readers:
                await check(random.choice(list(readers)), random.choice([1, 3, 100]), random.choice([0, 0.01]))
    for reader, at in readers.items():
        while any(offset < len(stored[partition]) for partition, offset in at.items()):
            await check(reader, 100, 5)
        assert all(reader.position(topic, partition) == offset for partition, offset in at.items())


async def test_no_such_topic(world: World) -> None:
    bus = await world.client()
    with pytest.raises(TopicMissing, match="topic there-is-none does not exist"):
        await bus.spans("there-is-none")


# --- groups


async def settle(seats: Sequence[Any], wanted: Callable[[], bool]) -> None:
    """Wait for changes of any seat until it is as wanted."""
    while not wanted():
        waiting = [asyncio.create_task(seat.changed()) for seat in seats]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_group_splits_and_takes_over_after_a_leave(world: World) -> None:
    topic = await world.topic(4)
    first = await (await world.client()).join(f"group-{topic}", topic, None)
    assert first.assigned.owned == {0, 1, 2, 3}
    second = await (await world.client()).join(f"group-{topic}", topic, None)
    await settle([first, second], lambda: len(first.assigned.owned) == len(second.assigned.owned) == 2)
    assert first.assigned.owned | second.assigned.owned == {0, 1, 2, 3}
    await settle([first, second], lambda: first.assigned.standby == second.assigned.owned)
    assert second.assigned.standby == first.assigned.owned
    await first.leave()
    assert first.assigned.owned == frozenset()
    await settle([second], lambda: second.assigned.owned == {0, 1, 2, 3})


async def test_of_four_members_the_one_that_stood_by_takes_over(world: World) -> None:
    topic = await world.topic(4)
    members = [await (await world.client()).join(f"group-{topic}", topic, None) for _ in range(4)]
    held = lambda: [sorted(map(len, each.assigned)) for each in members]  # noqa: E731
    await settle(members, lambda: held() == [[1, 1]] * 4)
    (lost,) = members[0].assigned.owned
    (standby,) = [each for each in members if lost in each.assigned.standby]
    kept = {each: each.assigned.owned for each in members[1:]}
    await members[0].leave()
    await settle(members[1:], lambda: sum(len(each.assigned.owned) for each in members[1:]) == 4)
    assert standby.assigned.owned == kept[standby] | {lost}
    assert all(each.assigned.owned == owned for each, owned in kept.items() if each is not standby)


async def test_whoever_asks_sees_the_living_members_of_a_group_and_what_each_owns(world: World) -> None:
    topic = await world.topic(2)
    onlooker = await world.client()
    assert await onlooker.members(f"group-{topic}") == {}
    first = await (await world.client()).join(f"group-{topic}", topic, None)
    (alone,) = (await onlooker.members(f"group-{topic}")).values()
    assert alone.owned == {0, 1}
    second = await (await world.client()).join(f"group-{topic}", topic, None)
    await settle([first, second], lambda: len(first.assigned.owned) == len(second.assigned.owned) == 1)
    both = await onlooker.members(f"group-{topic}")
    assert sorted(sorted(each.owned) for each in both.values()) == [[0], [1]]
    await first.leave()
    await settle([second], lambda: second.assigned.owned == {0, 1})
    (left,) = (await onlooker.members(f"group-{topic}")).values()
    assert left.owned == {0, 1}


async def test_a_static_member_releases_its_partitions_when_it_leaves(world: World) -> None:
    topic = await world.topic(2)
    first = await (await world.client()).join(f"group-{topic}", topic, "one")
    second = await (await world.client()).join(f"group-{topic}", topic, "two")
    await settle([first, second], lambda: len(first.assigned.owned) == len(second.assigned.owned) == 1)
    await first.leave()
    await settle([second], lambda: second.assigned.owned == {0, 1})


async def test_a_restarted_static_member_gets_its_partitions_at_once(world: World) -> None:
    topic = await world.topic(2)
    bus = await world.client()
    first = await bus.join(f"group-{topic}", topic, "one")
    second = await (await world.client()).join(f"group-{topic}", topic, "two")
    await settle([first, second], lambda: len(first.assigned.owned) == len(second.assigned.owned) == 1)
    had, change = first.assigned.owned, asyncio.create_task(second.changed())
    await bus.close()  # without leaving: as a process that ends and is started again
    again = await (await world.client()).join(f"group-{topic}", topic, "one")
    assert again.assigned.owned == had
    assert not change.done()
    change.cancel()


async def test_a_group_is_assigned_new_partitions(world: World) -> None:
    if isinstance(world, KafkaWorld):
        pytest.skip("aiokafka looks for new partitions every 30 s only")
    topic = await world.topic(1)
    seat = await (await world.client()).join(f"group-{topic}", topic, None)
    await world.add_partitions(topic, 2)
    assert (await seat.changed()).owned == {0, 1}


# --- the audit log

START = 1_700_000_000_000_000


class Service:
    """A writer as a service has one, with what it has folded: the records of the log, in order."""

    def __init__(self, bus: Bus, name: str, window: int = 200) -> None:
        self.bus, self.name = bus, name
        self.reader = AuditReader(bus, "pool-a", 0)
        self.folded: list[Entry] = []
        self.window = window
        self.writer = AuditWriter(bus, self.reader, window)

    async def fold(self, entries: Sequence[Entry]) -> None:
        self.folded += entries

    async def begin(self) -> Entry:
        self.writer = AuditWriter(self.bus, self.reader, self.window)
        return await self.writer.begin(self.first, self.fold)

    def first(self, head: ChainHead) -> list[Record]:
        records = []
        seq, epoch = head.next_seq, head.epoch + 1
        if seq == 0:
            records.append(self.record(0, 0, PoolCreated(pool="pool-a", partition=0, nonce="n")))
            seq, epoch = 1, 1
        started = WriterStarted(writer=self.name, release="0", digest="0", logic=1, state_schema=1)
        return [*records, self.record(seq, epoch, started)]

    def record(self, seq: int, epoch: int, data: Any) -> Record:
        return Record(
            pool="pool-a",
            seq=seq,
            epoch=epoch,
            cycle=seq,
            cycle_end=True,
            time=START + seq,
            prev="",
            writer=self.name,
            engine="0",
            policy=0,
            type=data.type_name(),
            data=data,
        )

    def next(self, count: int = 1) -> list[Record]:
        head = self.writer.next_head
        return [self.record(head.next_seq + n, head.epoch, ClockAdvanced()) for n in range(count)]

    async def append(self, count: int = 1) -> Awaitable[Committed]:
        return await self.writer.append(self.next(count))

    async def restart(self) -> Entry:
        """After it stepped down: read what is there, begin again."""
        await self.writer.close()
        return await self.begin()


@pytest.fixture
async def audit(world: World, monkeypatch: pytest.MonkeyPatch) -> str:
    """An audit topic of the test's own."""
    name = await world.topic(1)
    own = replace(topics.AUDIT, name=name)
    monkeypatch.setattr(log_reader, "AUDIT", own)
    monkeypatch.setattr(log_writer, "AUDIT", own)
    monkeypatch.setattr(AuditReader, "topic", name)
    return name


async def whole_log(bus: Bus) -> AuditReader:
    """A reader that has read all; it would have raised if the chain could not be followed."""
    reader = AuditReader(bus, "pool-a", 0)
    found: list[Entry] = []

    async def keep(entries: Sequence[Entry]) -> None:
        found.extend(entries)

    await reader.catch_up(keep)
    assert [entry.record.seq for entry in found] == list(range(reader.head.next_seq))
    assert [record_hash(entry.wire) for entry in found] == [entry.hash for entry in found]
    return reader


async def test_a_writer_begins_appends_and_is_read(world: World, audit: str) -> None:
    service = Service(await world.client(), "w1")
    started = await service.begin()
    assert [entry.record.seq for entry in service.folded] == [0, 1]
    assert started == service.folded[-1]
    committed = [await service.append(3) for _ in range(20)]
    entries = [entry for each in committed for entry in (await each).entries]
    assert [entry.record.seq for entry in entries] == list(range(2, 62))
    assert service.writer.head == service.writer.next_head
    assert service.writer.last_append_time == entries[-1].append_time
    reader = await whole_log(await world.client())
    assert (reader.head, reader.offset, reader.orphans) == (service.writer.head, service.writer.offset, 0)


async def test_what_append_returns_is_what_a_reader_finds(world: World, audit: str) -> None:
    service = Service(await world.client(), "w1")
    started = await service.begin()
    entries = (await (await service.append(5))).entries
    reader = AuditReader(await world.client(), "pool-a", 0)
    found: list[Entry] = []
    while len(found) < 7:
        found += await reader.read()
    assert found[1] == started
    assert tuple(found[2:]) == entries


async def test_reading_may_start_at_a_snapshot(world: World, audit: str) -> None:
    service = Service(await world.client(), "w1")
    await service.begin()
    await (await service.append(4))
    head, offset = service.writer.head, service.writer.offset
    (last,) = (await (await service.append())).entries
    reader = AuditReader(await world.client(), "pool-a", 0, head, offset)
    assert await reader.read(wait=30) == [last]


async def test_a_small_window_makes_append_wait_and_loses_nothing(world: World, audit: str) -> None:
    service = Service(await world.client(), "w1", window=2)
    await service.begin()
    entries = (await (await service.append(50))).entries
    assert [entry.record.seq for entry in entries] == list(range(2, 52))


async def test_a_record_that_does_not_fit_is_refused_before_anything_is_sent(world: World, audit: str) -> None:
    service = Service(await world.client(), "w1")
    await service.begin()
    first, second = service.next(2)
    for wrong in (
        [first, service.record(7, 1, ClockAdvanced())],
        [first, service.record(second.seq, 2, ClockAdvanced())],
        [first, service.record(second.seq, 1, PoolCreated(pool="pool-a", partition=0, nonce="x" * 950 * 1024))],
        [],
    ):
        with pytest.raises(ValueError):
            await service.writer.append(wrong)
    await (await service.writer.append([first, second]))
    assert (await whole_log(service.bus)).head == service.writer.head


async def test_two_writers_at_once_make_one_chain(world: World, audit: str) -> None:
    """Both start on the same log, again and again; what one loses becomes orphans, and the log stays one chain."""
    services = [Service(await world.client(), f"w{n}") for n in range(2)]

    async def work(service: Service) -> int:
        written = 0
        while written < 20:
            try:
                await service.restart()
                while written < 20:
                    written += len((await (await service.append(2))).entries)
            except SteppedDown:
                continue
        return written

    await asyncio.gather(*map(work, services))
    reader = await whole_log(await world.client())
    messages = (await services[0].bus.spans(audit))[0].end
    assert reader.orphans == messages - reader.head.next_seq
    writers = {entry.record.writer for service in services for entry in service.folded}
    assert writers == {"w0", "w1"}


async def test_a_stale_writer_steps_down(world: World, audit: str) -> None:
    old, new = Service(await world.client(), "old"), Service(await world.client(), "new")
    await old.begin()
    await (await old.append())
    await new.begin()
    committed = await old.append(3)
    with pytest.raises(SteppedDown, match=r"writer new wrote .*WriterStarted.* epoch 2"):
        await committed
    with pytest.raises(SteppedDown):
        await old.append()
    await (await new.append())
    reader = await whole_log(await world.client())
    assert reader.head == new.writer.head
    assert reader.orphans == 3
    assert [orphan.reason.split()[0] for orphan in reader.latest_orphans] == ["seq", "prev", "seq"]
    assert (await old.restart()).record.epoch == 3  # and it read on from where it stood
    assert [entry.record.seq for entry in old.folded] == [0, 1, 3, 4, 5]


async def test_an_idle_writer_can_ask_whether_the_log_is_still_its_own(world: World, audit: str) -> None:
    old, new = Service(await world.client(), "old"), Service(await world.client(), "new")
    await old.begin()
    await old.writer.check()
    await (await old.append())
    await old.writer.check()
    await new.begin()
    with pytest.raises(SteppedDown, match="writer new"):
        await old.writer.check()


async def test_junk_and_missing_offsets_do_not_stop_the_writer(world: World, audit: str) -> None:
    service = Service(await world.client(), "w1")
    await service.begin()
    stranger = await world.client()
    foreign = encode(service.record(2, 1, ClockAdvanced()))
    producer = await stranger.producer()
    for _ in range(3):
        await (await producer.send(audit, b"junk", partition=0))
        await (await producer.send(audit, b"\xff", headers=(("ce_pool", b"\xff"),), partition=0))
        other = Wire(tuple((n, b"pool-b" if n == "ce_pool" else v) for n, v in foreign.headers), foreign.value)
        await (await producer.send(audit, other.value, headers=other.headers, partition=0))
        await world.use_up_offset(audit, 0)
        await (await service.append(4))
        await service.writer.check()
    reader = await whole_log(await world.client())
    assert reader.head == service.writer.head
    assert reader.head.next_seq == 2 + 12
    assert reader.orphans >= 9
    assert len(reader.latest_orphans) <= log_reader.MAX_LATEST_ORPHANS


async def test_many_pipelined_appends_survive_junk_in_between(world: World, audit: str) -> None:
    service = Service(await world.client(), "w1", window=10)
    await service.begin()
    producer = await (await world.client()).producer()
    committed = []
    for number in range(100):
        committed.append(await service.append())
        if number % 10 == 0:
            await (await producer.send(audit, b"junk", partition=0))
    entries = [entry for each in committed for entry in (await each).entries]
    assert [entry.record.seq for entry in entries] == list(range(2, 102))
    reader = await whole_log(await world.client())
    assert (reader.head, reader.orphans) == (service.writer.head, 10)
