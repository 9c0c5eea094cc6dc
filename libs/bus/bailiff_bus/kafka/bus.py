"""Implements the bus port on Kafka."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAuthorizationFailedError

from bailiff_bus.assignment import Assigned
from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_bus.port import GroupMembership, Producer, Reader, Span, TopicMissing, Wanted

from .admin import connected_admin, raise_for_error
from .client_logging import redirect_client_logs
from .errors import broker_call, start_or_close
from .fetcher import Fetcher
from .group_membership import KafkaGroupMembership, group_members
from .offsets import query_spans
from .producer import KafkaProducer, ProducerConnections
from .reader import KafkaReader
from .shared_query import SharedQuery

MIN_PRUNED = 16  # from so many on, those that were closed are forgotten now and then


class KafkaBus:
    """A log of topics in Kafka. Connects on first use."""

    def __init__(self, settings: KafkaSettings | str) -> None:
        self.settings = KafkaSettings(bootstrap=settings) if isinstance(settings, str) else settings
        self._fetcher: Fetcher | None = None
        self._producers = ProducerConnections()
        self._connecting = asyncio.Lock()
        self._spans = SharedQuery(self._query_spans)
        self._open: list[KafkaReader | KafkaProducer | KafkaGroupMembership] = []
        self._prune_at = MIN_PRUNED
        redirect_client_logs()

    async def spans(self, topic: str) -> Mapping[int, Span]:
        """The offset range of each partition of the topic."""
        return await self._spans(topic)

    async def _query_spans(self, topic: str) -> Mapping[int, Span]:
        fetcher = await self._connected_fetcher()
        async with broker_call(self.settings, f"return the offsets of {topic}"):
            spans = await query_spans(fetcher.client, topic)
        for span in spans.values():
            fetcher.note_id(topic, span.topic_id)
        return spans

    async def reader(self, positions: Sequence[tuple[str, int, int]], wanted: Wanted | None = None) -> Reader:
        """A reader of (topic, partition, offset) positions. wanted: it passes over all other messages."""
        fetcher = await self._connected_fetcher()
        await fetcher.look_up({topic for topic, _, _ in positions})
        reader = KafkaReader(self.settings, fetcher, self.spans, wanted)
        for position in positions:
            reader.follow(*position)
        self._track(reader)
        return reader

    async def producer(self) -> Producer:
        """A new producer."""
        producer = KafkaProducer(self.settings, self._producers)
        await producer.start()
        self._track(producer)
        return producer

    async def join(self, group: str, topic: str, instance: str | None) -> GroupMembership:
        """Join the group; returns after the first assignment of partitions."""
        membership = KafkaGroupMembership(self.settings, group, topic, instance)
        await membership.start()
        self._track(membership)
        return membership

    async def members(self, group: str) -> Mapping[str, Assigned]:
        """The group's living members by their ids, and what each owns."""
        async with connected_admin(self.settings, f"describe group {group}") as admin:
            return await group_members(admin, group)

    async def topic_settings(self, topic: str) -> Mapping[str, str]:
        """The topic's settings by Kafka's names, and the counts `replication` and `brokers`."""
        async with connected_admin(self.settings, f"describe {topic}") as admin:
            (described,) = await admin.describe_topics([topic])
            _check_described(described, topic)
            cluster = await admin.describe_cluster()
            answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            ((code, text, _, _, entries),) = answers[0].resources
            raise_for_error([(topic, code, text)])
        return {
            **{name: value for name, value, *_ in entries if value is not None},
            "replication": str(min(len(each["replicas"]) for each in described["partitions"])),
            "brokers": str(len(cluster["brokers"])),
        }

    async def close(self) -> None:
        """Close everything that was opened."""
        for each in reversed(self._open):
            await each.close()
        self._open.clear()
        if self._fetcher is not None:
            await self._fetcher.close()
            self._fetcher = None

    def _track(self, opened: "KafkaReader | KafkaProducer | KafkaGroupMembership") -> None:
        self._open.append(opened)
        if len(self._open) >= self._prune_at:
            self._open = [each for each in self._open if not each.closed]
            self._prune_at = max(2 * len(self._open), MIN_PRUNED)

    async def _connected_fetcher(self) -> Fetcher:
        async with self._connecting:
            if self._fetcher is None:
                fetcher = Fetcher(self.settings)
                self._fetcher = await start_or_close(fetcher, fetcher.close)
            return self._fetcher


def _check_described(described: Mapping[str, Any], topic: str) -> None:
    """Raise `TopicMissing`; Kafka's error where it may not be described."""
    if described["error_code"] == TopicAuthorizationFailedError.errno:
        raise TopicAuthorizationFailedError(topic)
    if not described["partitions"]:
        raise TopicMissing(topic)
