"""Readers of one bus share its connections, and producers give theirs up: nothing is lost, repeated or delayed by it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from tests.kits.kafka import TestKafka, impatient, make_topic

from bailiff_bus.kafka import KafkaBus, broker_fetches, producer
from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_bus.port import BusUnavailable, Producer, Reader
from bailiff_devstack.kafka import EmbeddedKafka

pytestmark = pytest.mark.kafka


@pytest.fixture
async def patient_bus(kafka: TestKafka, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KafkaBus]:
    """Its request for idle partitions lasts longer than any test: whoever waits for it fails."""
    monkeypatch.setattr(broker_fetches, "IDLE_FETCH_MS", 3_600_000)
    bus = KafkaBus(KafkaSettings(bootstrap=kafka.bootstrap, request_timeout_ms=7_200_000))
    yield bus
    await bus.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until it is so."""
    while not condition():  # noqa: ASYNC110 - the connections have no event for it
        await asyncio.sleep(0.01)


async def idle_reader(bus: KafkaBus, topic: str) -> Reader:
    """A reader whose partition is fetched by the long request."""
    reader = await bus.reader([(topic, 0, 0)])
    await until(lambda: all_idle(bus))
    return reader


def all_idle(bus: KafkaBus) -> bool:
    """Whether the long request fetches for all readers."""
    assert bus._fetcher is not None
    (broker,) = bus._fetcher._brokers.values()
    return broker._long.is_waiting and not any(lane.cursors for lane in broker._short)


async def send(bus: KafkaBus, topic: str, *values: bytes) -> None:
    producer = await bus.producer()
    for each in [await producer.send(topic, value) for value in values]:
        await each


async def read(reader: Reader, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        found += [message.value for message in await reader.read(wait=60)]
    return found


async def test_a_new_reader_and_a_seek_do_not_wait_for_the_long_request(patient_bus: KafkaBus, kafka: TestKafka) -> None:
    first, second = await make_topic(kafka.bootstrap), await make_topic(kafka.bootstrap)
    reader = await idle_reader(patient_bus, first)
    new = await patient_bus.reader([(second, 0, 0)])
    await send(patient_bus, second, b"a", b"b")
    assert await read(new, 2) == [b"a", b"b"]
    await send(patient_bus, second, b"c")
    assert await read(new, 1) == [b"c"]
    new.follow(second, 0, 1)
    assert await read(new, 2) == [b"b", b"c"]
    await send(patient_bus, first, b"x")
    assert await read(reader, 1) == [b"x"]


async def test_a_stop_does_not_wait_for_the_long_request(patient_bus: KafkaBus, kafka: TestKafka) -> None:
    await idle_reader(patient_bus, await make_topic(kafka.bootstrap))
    await patient_bus.close()


async def test_a_reader_that_had_enough_is_fetched_for_again(patient_bus: KafkaBus, kafka: TestKafka) -> None:
    """While the long request of another partition is open."""
    idle, busy = await make_topic(kafka.bootstrap), await make_topic(kafka.bootstrap)
    await idle_reader(patient_bus, idle)
    slow, large = await patient_bus.reader([(busy, 0, 0)]), [b"%d" % n * 100_000 for n in range(60)]
    await send(patient_bus, busy, *large)
    (cursor,) = slow._cursors.values()  # type: ignore[attr-defined]
    await until(lambda: cursor.is_full)
    assert cursor._bytes < sum(map(len, large))
    assert await read(slow, len(large)) == large


async def test_an_idle_partition_costs_no_byte(kafka: TestKafka) -> None:
    """The long request names what has changed since the one before."""
    topics, bus = [await make_topic(kafka.bootstrap) for _ in range(5)], KafkaBus(kafka.bootstrap)
    try:
        readers = await asyncio.gather(*(idle_reader(bus, topic) for topic in topics))
        assert bus._fetcher is not None
        (broker,) = bus._fetcher._brokers.values()
        named: list[int] = []
        fetch = broker.fetch

        async def counting(connection: int, request: Any) -> Any:
            named.append(sum(len(partitions) for _, partitions in request._prepared.topics))
            return await fetch(connection, request)

        broker.fetch = counting  # type: ignore[method-assign]
        for number in range(3):
            await send(bus, topics[0], b"%d" % number)
            assert await read(readers[0], 1) == [b"%d" % number]
        await until(lambda: sum(named) == 3)
        assert set(named) <= {0, 1}
    finally:
        await bus.close()


async def test_after_the_broker_lost_its_sessions_every_reader_goes_on(private_kafka: Callable[[], EmbeddedKafka]) -> None:
    """It is killed and started again, with readers at the end, behind, and with messages that they have not read yet."""
    broker = private_kafka()
    topics = [await make_topic(broker.bootstrap) for _ in range(3)]
    bus = KafkaBus(impatient(broker.bootstrap))
    try:
        readers = [await bus.reader([(topic, 0, 0)]) for topic in topics]
        await until(lambda: all_idle(bus))
        for topic in topics:
            await send(bus, topic, *(b"%d" % n for n in range(50)))
        found = [await read(readers[0], 50), [each.value for each in await readers[1].read(limit=10, wait=60)], []]
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        for topic in topics:
            await send(bus, topic, *(b"%d" % n for n in range(50, 60)))
        for reader, values in zip(readers, found, strict=True):
            values += await read(reader, 60 - len(values))
        assert found == [[b"%d" % n for n in range(60)]] * 3
        await until(lambda: all_idle(bus))  # in a new session
        for topic in topics:
            await send(bus, topic, b"60")
        assert [await read(reader, 1) for reader in readers] == [[b"60"]] * 3
    finally:
        await bus.close()


async def test_idle_producers_disconnect_and_connect_again(kafka: TestKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "MAX_CONNECTED", 2)
    topic, bus = await make_topic(kafka.bootstrap), KafkaBus(kafka.bootstrap)
    try:
        producers = [await bus.producer() for _ in range(5)]
        for number in range(4):
            for at, each in enumerate(producers):
                await (await each.send(topic, b"%d by %d" % (number, at)))
            assert len([each for each in producers if _is_connected(each)]) <= 3  # one may be closing
        reader = await bus.reader([(topic, 0, 0)])
        assert await read(reader, 20) == [b"%d by %d" % (number, at) for number in range(4) for at in range(5)]
    finally:
        await bus.close()


async def test_a_producer_with_something_unacknowledged_stays_connected(
    private_kafka: Callable[[], EmbeddedKafka], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "MAX_CONNECTED", 1)
    broker = private_kafka()
    topic, bus = await make_topic(broker.bootstrap), KafkaBus(impatient(broker.bootstrap))
    try:
        first, second = await bus.producer(), await bus.producer()
        broker.pause()
        sent = await first.send(topic, b"x")
        with pytest.raises(BusUnavailable):
            await second.send(topic, b"y")
        assert _is_connected(first)
        with pytest.raises(BusUnavailable):
            await sent
    finally:
        broker.resume()
        await bus.close()


def _is_connected(producer: Producer) -> bool:
    return producer._connected is not None  # type: ignore[attr-defined]


async def test_producers_that_begin_together_connect_in_small_groups(kafka: TestKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """So none uses up its time-out waiting for the others."""
    monkeypatch.setattr(producer, "CONNECTING_AT_ONCE", 2)
    topic, bus, connecting, most = await make_topic(kafka.bootstrap), KafkaBus(kafka.bootstrap), 0, 0
    start = AIOKafkaProducer.start

    async def counting(self: Any) -> None:
        nonlocal connecting, most
        connecting += 1
        most = max(most, connecting)
        await start(self)
        connecting -= 1

    monkeypatch.setattr(AIOKafkaProducer, "start", counting)
    try:
        producers = await asyncio.gather(*(bus.producer() for _ in range(12)))
        assert most == 2
        for each in producers:
            await (await each.send(topic, b"x"))
    finally:
        await bus.close()
