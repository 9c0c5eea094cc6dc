"""Queries the offsets that the partitions of a topic hold."""

import asyncio
from collections.abc import Mapping

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    KafkaError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    NoError,
    TopicAuthorizationFailedError,
    for_code,
)
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest

from bailiff_bus.port import Span, TopicMissing

RETRY_S = 0.1
BEGIN, END = -2, -1  # timestamps that stand for them
_CONSUMER, _READ_UNCOMMITTED = -1, 0


async def query_spans(client: AIOKafkaClient, topic: str) -> Mapping[int, Span]:
    """The offset range of each partition. Tries again while a broker does not answer, without end.

    Raises `TopicMissing`.
    """
    while True:
        try:
            leaders = await _leaders(client, topic)
            client.add_topic(topic)  # without any, the client would refresh its metadata of all topics
            begins, ends = await asyncio.gather(*(_offsets(client, topic, leaders, which) for which in (BEGIN, END)))
            return {partition: Span(begins[partition], ends[partition]) for partition in sorted(leaders)}
        except KafkaError as error:
            if not error.retriable:
                raise
            await asyncio.sleep(RETRY_S)
            await client.force_metadata_update()


async def _leaders(client: AIOKafkaClient, topic: str) -> Mapping[int, int]:
    """The leader of each partition, by a query: there may be new partitions."""
    node = client.get_random_node()
    if node is None:
        raise NodeNotReadyError("no broker is known")
    response = await client.send(node, MetadataRequest([topic], allow_auto_topic_creation=False))
    ((code, _, _, partitions),) = response.topics
    if code == TopicAuthorizationFailedError.errno:
        raise TopicAuthorizationFailedError(topic)
    if not partitions:
        raise TopicMissing(topic)
    leaders = {partition: leader for _, partition, leader, *_ in partitions}
    if min(leaders.values()) < 0:
        raise LeaderNotAvailableError(topic)
    return leaders


async def _offsets(client: AIOKafkaClient, topic: str, leaders: Mapping[int, int], which: int) -> Mapping[int, int]:
    """The first offset of each partition, or the one after the last."""
    found: dict[int, int] = {}
    for node in sorted(set(leaders.values())):
        asked = [(partition, which) for partition, leader in leaders.items() if leader == node]
        response = await client.send(node, OffsetRequest(_CONSUMER, _READ_UNCOMMITTED, [(topic, asked)]))
        for _, partitions in response.topics:
            for partition, code, _, offset in partitions:
                if code != NoError.errno:
                    raise for_code(code)(f"{topic}/{partition}")
                found[partition] = offset
    return found
