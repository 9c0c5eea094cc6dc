"""Reading partitions by position."""

import asyncio
from collections.abc import Iterable, Sequence
from operator import itemgetter

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import OffsetOutOfRangeError

from bailiff_bus.port import AT_ONCE, Headers, Message, OffsetGone, Span
from bailiff_bus.settings import KafkaSettings

from .calls import MIB, bounded, calling, client_arguments, started

_CONTENT = itemgetter(1)


class KafkaReader:
    """Follows partitions by position, outside any consumer group.

    Kafka being away looks like silence to aiokafka; a reader that heard nothing for `request_timeout` asks, and raises.
    """

    def __init__(self, settings: KafkaSettings, positions: Sequence[tuple[str, int, int]]) -> None:
        self._settings = settings
        self._positions = {TopicPartition(topic, partition): offset for topic, partition, offset in positions}
        self._consumer = AIOKafkaConsumer(
            **client_arguments(settings),
            auto_offset_reset="none",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,  # new messages are answered at once; only `follow` ever waits for this
            max_partition_fetch_bytes=4 * MIB,
        )
        self._heard = 0.0
        self.closed = False

    async def start(self) -> None:
        """Connect."""
        async with calling(self._settings, "be reached"):
            await started(self._consumer, self._consumer.stop)
        self._assign()
        self._heard = asyncio.get_running_loop().time()

    async def read(self, limit: int = AT_ONCE, wait: float = 0.5) -> list[Message]:
        """What is there, at most `limit`; waits up to `wait` seconds for a first message."""
        if not self._positions:
            await asyncio.sleep(wait)
            return []
        await asyncio.sleep(0)  # aiokafka gives what it has at once, and nobody else would come to his turn
        try:
            async with calling(self._settings, "be read", bounded=False):
                found = await self._consumer.getmany(timeout_ms=round(wait * 1000), max_records=limit)
                for at, records in found.items():
                    self._positions[at] = records[-1].offset + 1
                for at in () if found else self._positions:  # it may have passed over what holds no message
                    self._positions[at] = await self._consumer.position(at)
        except OffsetOutOfRangeError as error:
            ((at, asked),) = error.args[0].items()
            await self._raise_if_gone(at, asked)
            return []
        now = asyncio.get_running_loop().time()
        if not found and now - self._heard > self._settings.request_timeout:
            await self._spans(self._positions)
        if found or now - self._heard > self._settings.request_timeout:
            self._heard = now
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
        """Read this partition, too, from `offset` on; or move to it."""
        at = TopicPartition(topic, partition)
        known = at in self._positions
        self._positions[at] = offset
        if known:
            self._consumer.seek(at, offset)
        else:
            self._assign()

    def position(self, topic: str, partition: int) -> int:
        """The offset that is read next."""
        return self._positions[TopicPartition(topic, partition)]

    async def close(self) -> None:
        """Let go of the connection."""
        self.closed = True
        await bounded(self._consumer.stop(), self._settings.request_timeout)

    def _assign(self) -> None:
        if self._positions:
            self._consumer.assign(list(self._positions))
        for at, offset in self._positions.items():
            self._consumer.seek(at, offset)

    async def _raise_if_gone(self, at: TopicPartition, asked: int) -> None:
        """aiokafka's complaint may be older than a move, or than what was appended since."""
        span = (await self._spans([at]))[at]
        if self._positions.get(at) == asked and not span.begin <= asked <= span.end:
            raise OffsetGone(at.topic, at.partition, asked, span)

    async def _spans(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Span]:
        wanted = list(partitions)
        async with calling(self._settings, "say what it holds"):
            begins = await self._consumer.beginning_offsets(wanted)
            ends = await self._consumer.end_offsets(wanted)
        return {at: Span(begins[at], ends[at]) for at in wanted}


def _headers(found: Sequence[tuple[str, bytes | None]]) -> Headers:
    """As they are; a null one as an empty one."""
    if None in map(_CONTENT, found):
        return tuple([(name, content or b"") for name, content in found])
    return tuple(found)  # type: ignore[arg-type]
