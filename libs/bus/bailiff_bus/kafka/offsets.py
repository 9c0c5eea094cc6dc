"""Queries the offsets that the partitions of a topic hold."""

import asyncio
from collections.abc import Mapping, Sequence

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

from bailiff_bus.port import Oldest, Span, TopicMissing

RETRY_S = 0.1
BEGIN, END = -2, -1  # timestamps that stand for them
ANY_TIME = 0
_CONSUMER, _READ_UNCOMMITTED = -1, 0


async def query_spans(client: AIOKafkaClient, topic: str) -> Mapping[int, Span]:
    """The offset range of each partition. Tries again while a broker does not answer, without end.

    Raises `TopicMissing`.
    """
    begins, ends = await _query(client, topic, BEGIN, END)
    return {partition: Span(found.offset, ends[partition].offset) for partition, found in begins.items()}


async def query_oldest(client: AIOKafkaClient, topic: str) -> Mapping[int, Oldest]:
    """The oldest message of each partition that holds one; as `query_spans`."""
    (found,) = await _query(client, topic, ANY_TIME)
    return {partition: oldest for partition, oldest in found.items() if oldest.offset >= 0}


async def _query(client: AIOKafkaClient, topic: str, *times: int) -> Sequence[Mapping[int, Oldest]]:
    while True:
        try:
            leaders = await _leaders(client, topic)
            client.add_topic(topic)  # without any, the client would refresh its metadata of all topics
            return await asyncio.gather(*(_offsets(client, topic, leaders, time) for time in times))
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


async def _offsets(client: AIOKafkaClient, topic: str, leaders: Mapping[int, int], since: int) -> Mapping[int, Oldest]:
    """The oldest message of each partition since then, or where it begins or ends."""
    found: dict[int, Oldest] = {}
    for node in sorted(set(leaders.values())):
        asked = [(partition, since) for partition, leader in leaders.items() if leader == node]
        response = await client.send(node, OffsetRequest(_CONSUMER, _READ_UNCOMMITTED, [(topic, asked)]))
        for _, partitions in response.topics:
            for partition, code, time, offset in partitions:
                if code != NoError.errno:
                    raise for_code(code)(f"{topic}/{partition}")
                found[partition] = Oldest(offset, time * 1000)
    return dict(sorted(found.items()))
