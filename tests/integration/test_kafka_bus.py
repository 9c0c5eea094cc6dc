"""The bus on a real Kafka: topics, wrong settings, and a broker that is unreachable, paused or killed."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.kits.kafka import TestKafka, impatient, kafka, make_topic, private_kafka  # noqa: F401 - fixtures

from bailiff_bus import topics
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.port import BusUnavailable, Message, Reader, TopicMissing
from bailiff_bus.topic_admin import create_topics
from bailiff_core.records import ChainHead, Record
from bailiff_core.records.facts import ClockAdvanced, PoolCreated, WriterStarted
from bailiff_devstack.kafka import EmbeddedKafka
from bailiff_devstack.ports import free_port
from bailiff_log.reader import AuditReader, Entry
from bailiff_log.writer import AuditWriter, OutcomeUnknown

pytestmark = pytest.mark.kafka

PrivateKafka = Callable[[], EmbeddedKafka]


async def read_for_ever(reader: Reader) -> None:
    while True:
        await reader.read()


# --- topics


async def test_topics_are_created_once_grow_with_the_pools_and_pass_the_check(kafka: TestKafka) -> None:  # noqa: F811
    bus = KafkaBus(kafka.bootstrap)
    try:
        await create_topics(kafka.bootstrap, pools=1)
        had = len(await bus.spans(topics.AUDIT.name))
        assert await create_topics(kafka.bootstrap, pools=had) == []
        grown = [f"{name}: partitions increased from {had} to {had + 1}" for name in ("bailiff.audit", "bailiff.rollup-state")]
        assert await create_topics(kafka.bootstrap, pools=had + 1) == grown
        assert await create_topics(kafka.bootstrap, pools=1) == []  # partitions are never removed
        assert len(await bus.spans(topics.AUDIT.name)) == had + 1
        for topic in topics.TOPICS.values():
            found = await bus.topic_settings(topic.name)
            selected = topic.settings_for(brokers=1)
            assert {name: found[name] for name in selected} == selected
            assert len(await bus.spans(topic.name)) == topic.partition_count(had + 1)
        found = await bus.topic_settings(topics.AUDIT.name)
        assert (found["replication"], found["brokers"]) == ("1", "1")
        assert topics.check_audit_settings(found, brokers=1) == []
    finally:
        await bus.close()


async def test_a_topic_with_kafkas_defaults_is_refused(kafka: TestKafka) -> None:  # noqa: F811
    bus = KafkaBus(kafka.bootstrap)
    try:
        found = await bus.topic_settings(await make_topic(kafka.bootstrap, {}))
    finally:
        await bus.close()
    wrong = topics.check_audit_settings(found, brokers=1)
    assert "bailiff.audit: retention.ms is 604800000, expected -1." in wrong
    assert "bailiff.audit: message.timestamp.type is CreateTime, expected LogAppendTime." in wrong


async def test_without_append_times_no_offset_is_trusted(kafka: TestKafka) -> None:  # noqa: F811
    """A missing append time marks a duplicate-sequence response; on such a topic the writer reads every record back."""
    bus = KafkaBus(kafka.bootstrap)
    try:
        producer = await bus.producer()
        receipt = await (await producer.send(await make_topic(kafka.bootstrap, {}), b"x"))
        assert receipt.offset is None
    finally:
        await bus.close()


async def test_the_largest_audit_record_and_dead_letter_fit(kafka: TestKafka) -> None:  # noqa: F811
    await create_topics(kafka.bootstrap, pools=1)
    bus = KafkaBus(kafka.bootstrap)
    try:
        producer = await bus.producer()
        ends = await bus.spans(topics.ALARMS.name)
        for topic in (topics.DEAD_LETTERS, topics.ALARMS):
            for _ in range(3):  # also while another one is in flight
                receipt = await producer.send(topic.name, bytes(topic.max_message_bytes))
            await receipt
        reader = await bus.reader([(topics.ALARMS.name, 0, ends[0].end)])
        found: list[Message] = []
        while len(found) < 3:
            found += await reader.read(wait=10)
        assert {len(each.value) for each in found} == {topics.ALARMS.max_message_bytes}
    finally:
        await bus.close()


async def test_topics_are_created_once_by_several_at_once_and_never_with_fewer_replicas_than_configured(tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path / "one-of-three", properties={"offsets.topic.replication.factor": "3"}) as broker:
        refusal = r"configured for replication factor 3 .* but only 1 of its brokers answered: start the others"
        with pytest.raises(BusUnavailable, match=refusal):
            await create_topics(broker.bootstrap, pools=1)
        bus = KafkaBus(broker.bootstrap)
        with pytest.raises(TopicMissing):
            await bus.spans(topics.AUDIT.name)
        await bus.close()
        made = await asyncio.gather(*(create_topics(broker.bootstrap, pools=2, replication=1) for _ in range(3)))
        assert any(f"created {topics.AUDIT.name}" in done for done in made)
        assert await create_topics(broker.bootstrap, pools=2, replication=1) == []


# --- Kafka unavailable


async def test_an_unreachable_kafka_is_reported_in_one_sentence(private_kafka: PrivateKafka) -> None:  # noqa: F811
    address = f"127.0.0.1:{free_port()}"
    bus = KafkaBus(impatient(address))
    calls: list[Callable[[], Any]] = [
        lambda: bus.spans("t"),
        lambda: bus.reader([("t", 0, 0)]),
        lambda: bus.producer(),
        lambda: bus.join("g", "t", None),
        lambda: bus.topic_settings("t"),
        lambda: create_topics(impatient(address), pools=1),
    ]
    with capture_logs() as logs:
        for call in calls:
            with pytest.raises(BusUnavailable, match=f"Kafka at {address}"):
                await call()
        await bus.close()
    assert logs
    assert all("Traceback" not in str(line) for line in logs)


async def test_a_killed_broker_ends_producers_raises_in_readers_and_may_restart(private_kafka: PrivateKafka) -> None:  # noqa: F811
    broker = private_kafka()
    topic = await make_topic(broker.bootstrap)
    bus = KafkaBus(impatient(broker.bootstrap))
    try:
        producer = await bus.producer()
        await (await producer.send(topic, b"before"))
        reader = await bus.reader([(topic, 0, 0)])
        assert [each.value for each in await reader.read(wait=10)] == [b"before"]
        await asyncio.to_thread(broker.kill)
        with pytest.raises(BusUnavailable):
            await (await producer.send(topic, b"lost"))
        with pytest.raises(BusUnavailable, match="has stopped"):
            await producer.send(topic, b"more")
        await producer.close(1)
        with pytest.raises(BusUnavailable):
            await read_for_ever(reader)
        with pytest.raises(BusUnavailable):
            await bus.spans(topic)
        await asyncio.to_thread(broker.start)
        again = await bus.producer()
        await (await again.send(topic, b"after"))
        found: list[bytes] = []
        while b"after" not in found:
            found += [each.value for each in await reader.read(wait=10)]
        assert found in ([b"after"], [b"lost", b"after"])
        assert (await bus.spans(topic))[0].end == 1 + len(found)
    finally:
        await bus.close()


async def test_a_paused_broker_leaves_the_outcome_unknown(private_kafka: PrivateKafka) -> None:  # noqa: F811
    broker = private_kafka()
    topic = await make_topic(broker.bootstrap)
    bus = KafkaBus(impatient(broker.bootstrap))
    try:
        producer = await bus.producer()
        await (await producer.send(topic, b"before"))
        broker.pause()
        sent = [await producer.send(topic, b"one"), await producer.send(topic, b"two")]
        for each in sent:
            with pytest.raises(BusUnavailable, match="did not acknowledge within 2 s"):
                await each
        broker.resume()
        with pytest.raises(BusUnavailable):
            await producer.send(topic, b"three")
        await (await (await bus.producer()).send(topic, b"after"))
    finally:
        broker.resume()
        await bus.close()


async def test_the_audit_log_continues_after_the_broker_was_killed(private_kafka: PrivateKafka) -> None:  # noqa: F811
    """With `flush.messages=1` no acknowledged record is lost; records in flight are in the chain or not."""
    broker = private_kafka()
    await create_topics(broker.bootstrap, pools=1)
    bus = KafkaBus(impatient(broker.bootstrap))
    reader = AuditReader(bus, "pool-a", 0)
    committed: list[Entry] = []
    names = (f"w{number}" for number in itertools.count())

    async def fold(entries: Sequence[Entry]) -> None:
        committed.extend(entries)

    def record(seq: int, epoch: int, data: Any, writer: str) -> Record:
        return Record(
            pool="pool-a",
            seq=seq,
            epoch=epoch,
            cycle=seq,
            cycle_end=True,
            time=seq,
            prev="",
            writer=writer,
            engine="0",
            policy=0,
            type=data.type_name(),
            data=data,
        )

    def first(head: ChainHead) -> list[Record]:
        name = next(names)
        started = WriterStarted(writer=name, release="0", digest="0", logic=1, state_schema=1)
        if head.next_seq > 0:
            return [record(head.next_seq, head.epoch + 1, started, name)]
        created = PoolCreated(pool="pool-a", partition=0, nonce="n")
        return [record(0, 0, created, name), record(1, 1, started, name)]

    async def write(writer: AuditWriter, count: int) -> None:
        for _ in range(count):
            head = writer.next_head
            data = record(head.next_seq, head.epoch, ClockAdvanced(), "w")
            committed.extend((await (await writer.append([data]))).entries)

    try:
        writer = AuditWriter(bus, reader)
        await writer.begin(first, fold)
        await write(writer, 20)
        writing = asyncio.create_task(write(writer, 1_000_000))
        await asyncio.to_thread(broker.kill)
        with pytest.raises(OutcomeUnknown):
            await writing
        await writer.close(1)
        await asyncio.to_thread(broker.start)
        again = AuditWriter(bus, reader)
        await again.begin(first, fold)
        await write(again, 5)
        assert [entry.record.seq for entry in committed] == list(range(again.head.next_seq))
        whole: list[Entry] = []
        auditor = AuditReader(bus, "pool-a", 0)
        while auditor.head != again.head:
            whole += await auditor.read()
        assert whole == committed
    finally:
        await bus.close()
