"""Reads partitions by offset, without a consumer group."""

import asyncio
from collections.abc import Iterable, Sequence
from operator import itemgetter

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import OffsetOutOfRangeError

from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_bus.port import READ_LIMIT, Headers, Message, OffsetOutOfRange, Span

from .errors import MIB, broker_call, client_arguments, finish_within, start_or_close

IDLE_FETCH_MS = 2_000
"""How long the broker holds a request for messages when there are none. An idle reader asks once in this time."""

_CONTENT = itemgetter(1)


class KafkaReader:
    """Reads partitions by offset, outside any consumer group.

    aiokafka returns no messages during an outage; after `request_timeout` without any the reader queries the brokers, and raises
    if they do not answer.
    """

    def __init__(self, settings: KafkaSettings, positions: Sequence[tuple[str, int, int]]) -> None:
        self._settings = settings
        self._positions = {TopicPartition(topic, partition): offset for topic, partition, offset in positions}
        self._consumer = self._new_consumer()
        self._reads_elsewhere, self._fetches = bool(positions), False
        self._last_contact = 0.0
        self.closed = False

    async def start(self) -> None:
        """Connect."""
        async with broker_call(self._settings, "accept a connection"):
            await start_or_close(self._consumer, self._consumer.stop)
        self._last_contact = asyncio.get_running_loop().time()

    async def read(self, limit: int = READ_LIMIT, wait: float = 0.5) -> list[Message]:
        """The next messages, at most `limit`; waits up to `wait` seconds for a first one."""
        if not self._positions:
            await asyncio.sleep(wait)
            return []
        if self._reads_elsewhere:
            await self._move()
        await asyncio.sleep(0)  # aiokafka returns buffered messages without yielding to the event loop
        try:
            async with broker_call(self._settings, "return messages", with_timeout=False):
                found = await self._consumer.getmany(timeout_ms=round(wait * 1000), max_records=limit)
                for at, records in found.items():
                    self._positions[at] = records[-1].offset + 1
                for at in () if found else self._positions:  # offsets without messages may have been skipped
                    self._positions[at] = await self._consumer.position(at)
        except OffsetOutOfRangeError as error:
            ((at, offset),) = error.args[0].items()
            await self._raise_if_gone(at, offset)
            return []
        now = asyncio.get_running_loop().time()
        if not found and now - self._last_contact > self._settings.request_timeout:
            await self._spans(self._positions)
        if found or now - self._last_contact > self._settings.request_timeout:
            self._last_contact = now
        return [
            Message(
                at.topic,
                at.partition,
                record.offset,
                record.timestamp * 1000,
                record.key,
                _headers(record.headers),
                record.value or b"",
            )
            for at, records in found.items()
            for record in records
        ]

    def follow(self, topic: str, partition: int, offset: int) -> None:
        """Add this partition at `offset`, or seek to `offset` if it is read already."""
        self._positions[TopicPartition(topic, partition)] = offset
        self._reads_elsewhere = True

    def position(self, topic: str, partition: int) -> int:
        """The next offset to read."""
        return self._positions[TopicPartition(topic, partition)]

    async def close(self) -> None:
        """Close the connection."""
        self.closed = True
        await finish_within(self._consumer.stop(), self._settings.request_timeout)

    def _new_consumer(self) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            **client_arguments(self._settings),
            auto_offset_reset="none",
            enable_auto_commit=False,
            fetch_max_wait_ms=min(IDLE_FETCH_MS, self._settings.request_timeout_ms // 2),
            max_partition_fetch_bytes=4 * MIB,
            consumer_timeout_ms=IDLE_FETCH_MS,
        )

    async def _move(self) -> None:
        """Fetch from the positions, by a new connection if this one has a fetch open: the broker would answer that one first."""
        if self._fetches:
            await finish_within(self._consumer.stop(), self._settings.request_timeout)
            self._consumer = self._new_consumer()
            await self.start()
        self._consumer.assign(list(self._positions))
        for at, offset in self._positions.items():
            self._consumer.seek(at, offset)
        self._reads_elsewhere, self._fetches = False, True

    async def _raise_if_gone(self, at: TopicPartition, offset: int) -> None:
        """Raise only if the error still holds: a seek or an append may have made it obsolete."""
        span = (await self._spans([at]))[at]
        if self._positions.get(at) == offset and not span.begin <= offset <= span.end:
            raise OffsetOutOfRange(at.topic, at.partition, offset, span)

    async def _spans(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Span]:
        wanted = list(partitions)
        async with broker_call(self._settings, "return offsets"):
            begins = await self._consumer.beginning_offsets(wanted)
            ends = await self._consumer.end_offsets(wanted)
        return {at: Span(begins[at], ends[at]) for at in wanted}


def _headers(found: Sequence[tuple[str, bytes | None]]) -> Headers:
    """The headers; null values as empty ones."""
    if None in map(_CONTENT, found):
        return tuple([(name, content or b"") for name, content in found])
    return tuple(found)  # type: ignore[arg-type]
