"""Reads partitions by offset, without a consumer group."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from aiokafka import TopicPartition
from aiokafka.errors import OffsetOutOfRangeError

from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_bus.port import READ_LIMIT, Message, OffsetOutOfRange, Span, Wanted

from .cursor import Cursor, NoAnswer, TopicMadeAnew
from .errors import broker_call
from .fetcher import Fetcher

Spans = Callable[[str], Awaitable[Mapping[int, Span]]]


class KafkaReader:
    """Reads partitions by offset, outside any consumer group. All readers of a bus share its fetcher.

    During an outage there are no messages; once no broker has answered for `request_timeout`, a read queries the brokers, and
    raises if they do not answer.
    """

    def __init__(self, settings: KafkaSettings, fetcher: Fetcher, spans: Spans, wanted: Wanted | None = None) -> None:
        self._settings, self._fetcher, self._spans, self._wanted = settings, fetcher, spans, wanted
        self._cursors: dict[TopicPartition, Cursor] = {}
        self._ready: dict[Cursor, None] = {}  # in the order in which they are read
        self._woken = False
        self._waiting: asyncio.Future[None] | None = None
        self.closed = False

    async def read(self, limit: int = READ_LIMIT, wait: float = 0.5) -> list[Message]:
        """The next messages, at most `limit`; waits up to `wait` seconds for a first one."""
        await asyncio.sleep(0)  # otherwise a reader of many messages would not let others run
        if not self._ready and not self._woken and wait > 0:
            await self._wait(wait)
        self._woken = False
        try:
            async with broker_call(self._settings, "return messages", with_timeout=False):
                return self._take(limit)
        except OffsetOutOfRangeError as error:
            ((at, offset),) = error.args[0].items()
            await self._raise_if_gone(at, offset)
            return []
        except TopicMadeAnew as error:
            raise await self._made_anew(error) from None
        except NoAnswer as error:
            await self._spans(error.at.topic)
            return []

    def follow(self, topic: str, partition: int, offset: int) -> None:
        """Add this partition at `offset`, or seek to `offset` if it is read already."""
        at = TopicPartition(topic, partition)
        cursor = self._cursors.get(at)
        if cursor is None:
            cursor = self._cursors[at] = Cursor(at, offset, self._on_ready, self._wanted)
        else:
            cursor.move(offset)
            self._ready.pop(cursor, None)
        self._fetcher.place(cursor)

    def position(self, topic: str, partition: int) -> int:
        """The next offset to read."""
        return self._cursors[TopicPartition(topic, partition)].position

    def wake(self) -> None:
        """A waiting read returns at once; if none waits, the next one does not wait."""
        self._woken = True
        self._notify()

    async def close(self) -> None:
        """Stop reading. The connections are the bus's."""
        self.closed = True
        for cursor in self._cursors.values():
            self._fetcher.remove(cursor)

    async def _wait(self, seconds: float) -> None:
        """Until a cursor is ready, this reader is woken, or the time is over."""
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        timer = loop.call_later(seconds, self._notify)
        try:
            await self._waiting
        finally:
            timer.cancel()
            self._waiting = None

    def _notify(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _on_ready(self, cursor: Cursor) -> None:
        self._ready[cursor] = None
        self._notify()

    def _take(self, limit: int) -> list[Message]:
        """Messages that were fetched, from one partition after the other; without any, the first error is raised."""
        found: list[Message] = []
        for cursor in list(self._ready):
            if len(found) == limit:
                break
            was_full = cursor.is_full
            del self._ready[cursor]
            try:
                found += cursor.take(limit - len(found))
            except Exception:
                self.follow(cursor.at.topic, cursor.at.partition, cursor.position)  # fetch again what cannot be decoded
                raise
            if cursor.is_ready:
                self._ready[cursor] = None  # behind the others
            if was_full and not cursor.is_full:
                self._fetcher.drained(cursor)
        if not found:
            self._raise_error()
        return found

    def _raise_error(self) -> None:
        if self._fetcher.failure is not None:
            raise self._fetcher.failure
        for cursor in self._ready:
            if cursor.error is not None:
                error, cursor.error = cursor.error, None
                del self._ready[cursor]
                self._fetcher.place(cursor)
                raise error

    async def _made_anew(self, error: TopicMadeAnew) -> OffsetOutOfRange:
        at, cursor = error.at, self._cursors[error.at]
        try:
            span = (await self._spans(at.topic))[at.partition]
        except Exception:
            self._fetcher.remove(cursor)
            cursor.fail(error)  # until it can be said what the new topic holds
            raise
        return OffsetOutOfRange(at.topic, at.partition, cursor.position, span)

    async def _raise_if_gone(self, at: TopicPartition, offset: int) -> None:
        """Raise only if the error still holds: a seek or an append may have made it obsolete."""
        span = (await self._spans(at.topic))[at.partition]
        if self._cursors[at].position == offset and not span.begin <= offset <= span.end:
            raise OffsetOutOfRange(at.topic, at.partition, offset, span)
