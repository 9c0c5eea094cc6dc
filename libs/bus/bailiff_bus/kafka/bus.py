"""The port of the bus, on Kafka."""

import asyncio
from collections.abc import Mapping, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from bailiff_bus.port import Ownership, Producer, Reader, Span
from bailiff_bus.settings import KafkaSettings

from .admin import refusals
from .calls import bounded, calling, client_arguments, started
from .logs import take_over_logging
from .producer import KafkaProducer
from .reader import KafkaReader
from .seat import KafkaSeat


class KafkaBus:
    """A log of topics in Kafka. Connects on first use."""

    def __init__(self, settings: KafkaSettings | str) -> None:
        self.settings = KafkaSettings(bootstrap=settings) if isinstance(settings, str) else settings
        self._admin: AIOKafkaAdminClient | None = None
        self._looker: AIOKafkaConsumer | None = None
        self._connecting = asyncio.Lock()
        self._open: list[KafkaReader | KafkaProducer | KafkaSeat] = []
        take_over_logging()

    async def spans(self, topic: str) -> Mapping[int, Span]:
        """Every partition of the topic and what it holds."""
        async with calling(self.settings, f"say what {topic} holds"):
            admin, looker = await self._clients()
            (described,) = await admin.describe_topics([topic])
            if not described["partitions"]:
                raise KeyError(topic)
            partitions = [TopicPartition(topic, each["partition"]) for each in described["partitions"]]
            begins, ends = await asyncio.gather(looker.beginning_offsets(partitions), looker.end_offsets(partitions))
        return {each.partition: Span(begins[each], ends[each]) for each in sorted(partitions)}

    async def reader(self, positions: Sequence[tuple[str, int, int]]) -> Reader:
        """A reader of (topic, partition, offset) positions."""
        reader = KafkaReader(self.settings, positions)
        await reader.start()
        self._keep(reader)
        return reader

    async def producer(self) -> Producer:
        """A producer of its own incarnation."""
        producer = KafkaProducer(self.settings)
        await producer.start()
        self._keep(producer)
        return producer

    async def join(self, group: str, topic: str, instance: str | None) -> Ownership:
        """Take a seat in the group; returns once the group has given it its partitions."""
        seat = KafkaSeat(self.settings, group, topic, instance)
        await seat.start()
        self._keep(seat)
        return seat

    async def topic_settings(self, topic: str) -> Mapping[str, str]:
        """The topic's settings by Kafka's names, and the counts `replication` and `brokers`."""
        async with calling(self.settings, f"describe {topic}"):
            admin, _ = await self._clients()
            (described,) = await admin.describe_topics([topic])
            if not described["partitions"]:
                raise KeyError(topic)
            cluster = await admin.describe_cluster()
            answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            ((code, text, _, _, entries),) = answers[0].resources
            refusals([(topic, code, text)])
        return {
            **{name: value for name, value, *_ in entries if value is not None},
            "replication": str(min(len(each["replicas"]) for each in described["partitions"])),
            "brokers": str(len(cluster["brokers"])),
        }

    async def close(self) -> None:
        """Let go of everything."""
        for each in reversed(self._open):
            await each.close()
        self._open.clear()
        if self._looker is not None:
            await bounded(self._looker.stop(), self.settings.request_timeout)
        if self._admin is not None:
            await bounded(self._admin.close(), self.settings.request_timeout)
        self._admin = self._looker = None

    def _keep(self, opened: "KafkaReader | KafkaProducer | KafkaSeat") -> None:
        self._open = [*(each for each in self._open if not each.closed), opened]

    async def _clients(self) -> tuple[AIOKafkaAdminClient, AIOKafkaConsumer]:
        async with self._connecting:
            if self._admin is None:
                admin = AIOKafkaAdminClient(**client_arguments(self.settings))
                self._admin = await started(admin, admin.close)
            if self._looker is None:
                looker = AIOKafkaConsumer(**client_arguments(self.settings), enable_auto_commit=False)
                self._looker = await started(looker, looker.stop)
            return self._admin, self._looker
