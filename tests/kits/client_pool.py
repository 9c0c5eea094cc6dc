"""A pool on a real Kafka, as a client sees it."""

import itertools
import uuid
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.kits.kafka import TestKafka
from tests.unit.client.kit import LogWriter, finished_story

from bailiff_bus import topics
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_bus.topic_admin import create_topics
from bailiff_core.records import Wire
from bailiff_log.reader import AuditReader, Entry
from bailiff_log.writer import AuditWriter

_run = uuid.uuid4().hex[:6]
_numbers = itertools.count(1)


class Pool:
    """One pool in the real Kafka, and the records of a valid log for it."""

    def __init__(self, bus: KafkaBus, partition: int) -> None:
        self.bus, self.partition = bus, partition
        self.name = f"pool-{_run}-{next(_numbers)}"
        self.log_writer = LogWriter(self.name, partition)
        finished_story(self.log_writer)

    async def write(self) -> None:
        """Append the records as one writer incarnation does."""
        records = self.log_writer.records
        writer = AuditWriter(self.bus, AuditReader(self.bus, self.name, self.partition))

        async def folded(entries: Sequence[Entry]) -> None:
            pass

        await writer.begin(lambda head: records[:3], folded)
        await (await writer.append(records[3:]))
        await writer.close()

    async def append(self, wires: Sequence[Wire]) -> None:
        """Append bytes to the partition, as any client with write access can."""
        producer = await self.bus.producer()
        for wire in wires:
            await (await producer.send(topics.AUDIT.name, wire.value, headers=wire.headers, partition=self.partition))
        await producer.close()


@pytest.fixture
async def bus(kafka: TestKafka) -> AsyncIterator[KafkaBus]:
    made = KafkaBus(KafkaSettings(bootstrap=kafka.bootstrap))
    yield made
    await made.close()


@pytest.fixture
async def pool(kafka: TestKafka, bus: KafkaBus) -> Pool:
    """A pool in an unused partition."""
    await create_topics(kafka.bootstrap, 1)
    partitions = len(await bus.spans(topics.AUDIT.name))
    await create_topics(kafka.bootstrap, partitions + 1)
    made = Pool(bus, partitions)
    await made.write()
    return made
