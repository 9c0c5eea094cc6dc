"""Queries the offsets that the partitions of a topic hold."""

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Collection, Mapping
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    KafkaError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    NoError,
    TopicAuthorizationFailedError,
    for_code,
)
from aiokafka.protocol.offset import OffsetRequest

from bailiff_bus.port import Span, TopicMissing

from .access_protocol import MetadataRequest_v10, named_topics, request

RETRY_S = 0.1
BEGIN, END = -2, -1  # timestamps that stand for them
_CONSUMER, _READ_UNCOMMITTED = -1, 0


async def query_spans(client: AIOKafkaClient, topic: str) -> Mapping[int, Span]:
    """The offset range of each partition. Tries again while a broker does not answer, without end.

    Raises `TopicMissing`.
    """
    while True:
        try:
            topic_id, leaders = await _leaders(client, topic)
            client.add_topic(topic)  # without any, the client would refresh its metadata of all topics
            begins, ends = await asyncio.gather(*(_offsets(client, topic, leaders, time) for time in (BEGIN, END)))
        except KafkaError as error:
            if not error.retriable:
                raise
            await asyncio.sleep(RETRY_S)
            await client.force_metadata_update()
        else:
            return {partition: Span(begin, ends[partition], topic_id) for partition, begin in begins.items()}


async def query_ids(client: AIOKafkaClient, topics: Collection[str]) -> Mapping[str, str]:
    """The ids of those topics that exist and may be described."""
    found = await _described(client, topics)
    return {topic: _text_of(topic_id) for code, topic, topic_id, *_ in found if code == NoError.errno}


async def _described(client: AIOKafkaClient, topics: Collection[str]) -> list[Any]:
    node = client.get_random_node()
    if node is None:
        raise NodeNotReadyError("no broker is known")
    response = await client.send(node, request(MetadataRequest_v10, named_topics(topics), False, False, False, {}))
    found: list[Any] = response.topics
    return found


def _text_of(topic_id: bytes) -> str:
    """As Kafka's tools show it."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


async def _leaders(client: AIOKafkaClient, topic: str) -> tuple[str, Mapping[int, int]]:
    """The topic's id, and the leader of each partition, by a query: there may be new partitions."""
    ((code, _, topic_id, _, partitions, _, _),) = await _described(client, [topic])
    if code == TopicAuthorizationFailedError.errno:
        raise TopicAuthorizationFailedError(topic)
    if not partitions:
        raise TopicMissing(topic)
    leaders = {partition: leader for _, partition, leader, *_ in partitions}
    if min(leaders.values()) < 0:
        raise LeaderNotAvailableError(topic)
    return _text_of(topic_id), leaders


async def _offsets(client: AIOKafkaClient, topic: str, leaders: Mapping[int, int], at: int) -> Mapping[int, int]:
    """Where each partition begins or ends."""
    found: dict[int, int] = {}
    for node in sorted(set(leaders.values())):
        asked = [(partition, at) for partition, leader in leaders.items() if leader == node]
        response = await client.send(node, OffsetRequest(_CONSUMER, _READ_UNCOMMITTED, [(topic, asked)]))
        for _, partitions in response.topics:
            for partition, code, _, offset in partitions:
                if code != NoError.errno:
                    raise for_code(code)(f"{topic}/{partition}")
                found[partition] = offset
    return dict(sorted(found.items()))
