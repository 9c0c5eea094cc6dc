"""What is fetched from one broker: by one long request for all that is idle, and by short ones for the rest.

A broker answers the requests of a connection in turn, and one for new messages may wait two seconds. So a reader that begins, or
reads elsewhere, is served over other connections, until the long request is answered and can take its partition along.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    CorruptRecordException,
    KafkaError,
    NoError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    for_code,
)

from bailiff_bus.kafka_settings import KafkaSettings

from .cursor import Batches, Cursor
from .fetch_session import FetchSession, single_request

IDLE_FETCH_MS = 2_000
"""How long the broker holds the request for all idle partitions when there are no messages."""
CATCH_UP_MS = 100
CATCH_UP_CONNECTIONS = 4
RETRY_S = 0.05

Lose = Callable[[Iterable[Cursor], float, Exception | None], None]
Broken = Callable[[Exception], None]


class BrokerFetches:
    """The cursors that one broker serves. lose: called with those that it does not serve any more, or not now."""

    def __init__(self, node: int, settings: KafkaSettings, client: AIOKafkaClient, lose: Lose, broken: Broken) -> None:
        self.node, self.client, self.lose, self.broken = node, client, lose, broken
        self.cursors: dict[TopicPartition, dict[Cursor, None]] = {}
        self._long = LongFetch(self, min(IDLE_FETCH_MS, settings.request_timeout_ms // 2))
        self._short: list[ShortFetch] = []
        self._lane: dict[Cursor, LongFetch | ShortFetch] = {}

    def place(self, cursor: Cursor) -> None:
        """Serve this cursor."""
        self.cursors.setdefault(cursor.at, {})[cursor] = None
        self._catch_up(cursor)

    def remove(self, cursor: Cursor) -> None:
        """Serve it no more."""
        lane = self._lane.pop(cursor, None)
        if lane is not None:
            lane.remove(cursor)
        others = self.cursors.get(cursor.at, {})
        others.pop(cursor, None)
        if not others:
            self.cursors.pop(cursor.at, None)

    def drained(self, cursor: Cursor) -> None:
        """Its reader has room again."""
        lane = self._lane.get(cursor)
        if isinstance(lane, ShortFetch):
            lane.wake()

    async def stop(self) -> None:
        """End all requests; does not wait for their answers."""
        await asyncio.gather(*(lane.stop() for lane in (self._long, *self._short)))

    async def fetch(self, connection: int, request: Any) -> Any:
        """Send the request over this connection."""
        return await self.client.send(self.node, request, group=("fetch", connection))

    def take(self, response: Any, asked: dict[TopicPartition, int]) -> None:
        """Hand the messages of a response on. asked: the offsets that it is about."""
        for topic, partitions in response.topics:
            for partition, code, end, _, _, _, _, stored in partitions:
                at = TopicPartition(topic, partition)
                offset = asked.get(at, -1)
                waiting = [cursor for cursor in self.cursors.get(at, ()) if cursor.fetch_at == offset]
                if not waiting:
                    continue  # they have moved, or have got these messages from another request
                if code != NoError.errno:
                    self._failed(waiting, for_code(code), offset)
                    continue
                for cursor in waiting:
                    cursor.answered()
                if stored:
                    self._deliver(waiting, at, offset, stored)
                if waiting[0].fetch_at >= end:
                    self._offer(waiting)

    def _deliver(self, waiting: list[Cursor], at: TopicPartition, offset: int, stored: bytes) -> None:
        try:
            batches = Batches(at, offset, stored)
        except CorruptRecordException as error:
            self._fail(waiting, error)
            return
        if batches.end == offset:
            return  # only a part of a message
        if len(waiting) == 1:
            waiting[0].deliver(iter(batches), batches.end, batches.size)
        else:
            messages = list(batches)
            for cursor in waiting:
                cursor.deliver(iter(messages), batches.end, batches.size)
        if self._long.moved(at, batches.end):
            for cursor in waiting:
                if cursor.is_full and self._lane.get(cursor) is self._long:
                    self._long.remove(cursor)
                    self._catch_up(cursor)

    def _failed(self, waiting: list[Cursor], error: type[KafkaError], offset: int) -> None:
        at = waiting[0].at
        if error is OffsetOutOfRangeError:
            self._fail(waiting, OffsetOutOfRangeError({at: offset}))
        elif error is TopicAuthorizationFailedError:
            self._fail(waiting, TopicAuthorizationFailedError(at.topic))
        else:  # another broker leads it now, or soon
            self.lose(waiting, asyncio.get_running_loop().time(), None)

    def _fail(self, waiting: list[Cursor], error: Exception) -> None:
        """These are served again once their reader has raised the error."""
        for cursor in waiting:
            self.remove(cursor)
            cursor.fail(error)

    def _catch_up(self, cursor: Cursor) -> None:
        """Serve it by the short requests of a connection: one that has none open, else the one with the fewest cursors."""
        lane = min(self._short, key=lambda each: (each.is_waiting, len(each.cursors)), default=None)
        if lane is None or (lane.is_waiting and len(self._short) < CATCH_UP_CONNECTIONS):
            lane = ShortFetch(self, len(self._short) + 1)
            self._short.append(lane)
        self._lane[cursor] = lane
        lane.add(cursor)

    def _offer(self, waiting: list[Cursor]) -> None:
        """These have read all that there is: the next long request takes them along."""
        for cursor in waiting:
            if isinstance(self._lane.get(cursor), ShortFetch):
                self._long.offer(cursor)

    def take_along(self, cursor: Cursor) -> bool:
        """Whether the long request takes this cursor over; not if it was moved meanwhile, or has enough to read."""
        lane = self._lane.get(cursor)
        if not isinstance(lane, ShortFetch) or cursor.is_full:
            return False
        lane.remove(cursor)
        self._lane[cursor] = self._long
        return True


class _Fetch:
    """Sends one request after another over one connection, for as long as there is something to fetch."""

    def __init__(self, broker: BrokerFetches, connection: int) -> None:
        self._broker, self._connection = broker, connection
        self._changed = asyncio.Event()
        self.is_waiting = False
        self.answered_at = asyncio.get_running_loop().time()
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """There may be something to fetch."""
        self._changed.set()

    async def stop(self) -> None:
        """End it."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while True:
                self._changed.clear()
                if not await self._once():
                    self.is_waiting = False
                    await self._changed.wait()
        except Exception as error:  # noqa: BLE001 - its readers would wait for ever
            self._broker.broken(error)

    async def _once(self) -> bool:
        """Send a request and hand on its answer. Returns False if there is nothing to fetch."""
        raise NotImplementedError

    async def _send(self, request: Any) -> Any:
        """The answer; None if there was none: then all cursors of this connection are lost."""
        self.is_waiting = True
        try:
            response = await self._broker.fetch(self._connection, request)
        except (KafkaError, OSError) as error:
            self._broker.lose(self._cursors(), self.answered_at, error)
            return None
        self.answered_at = asyncio.get_running_loop().time()
        return response

    def _cursors(self) -> list[Cursor]:
        raise NotImplementedError


class ShortFetch(_Fetch):
    """For cursors that are not at the end of their partition, or have just got there."""

    def __init__(self, broker: BrokerFetches, connection: int) -> None:
        self.cursors: dict[Cursor, None] = {}
        super().__init__(broker, connection)

    def add(self, cursor: Cursor) -> None:
        self.cursors[cursor] = None
        self.wake()

    def remove(self, cursor: Cursor) -> None:
        """Fetch for it no more."""
        self.cursors.pop(cursor, None)

    async def _once(self) -> bool:
        asked: dict[TopicPartition, int] = {}
        for cursor in self.cursors:
            if not cursor.is_full:  # of several in one partition, the one that is behind is fetched for first
                asked[cursor.at] = min(cursor.fetch_at, asked.get(cursor.at, cursor.fetch_at))
        if not asked:
            return False
        first = next(iter(self.cursors))
        self.cursors[first] = self.cursors.pop(first)  # a response is limited in size: others come first next time
        response = await self._send(single_request(CATCH_UP_MS, asked))
        if response is not None:
            self._broker.take(response, asked)
        return True

    def _cursors(self) -> list[Cursor]:
        return list(self.cursors)


class LongFetch(_Fetch):
    """For all cursors at the end of their partitions. Those of one partition have the same position."""

    def __init__(self, broker: BrokerFetches, max_wait_ms: int) -> None:
        self._max_wait_ms = max_wait_ms
        self._session = FetchSession()
        self._served: dict[TopicPartition, dict[Cursor, None]] = {}
        self._offered: dict[Cursor, None] = {}
        super().__init__(broker, 0)

    def offer(self, cursor: Cursor) -> None:
        """Take this cursor along with the next request."""
        self._offered[cursor] = None
        self.wake()

    def remove(self, cursor: Cursor) -> None:
        """Fetch for it no more."""
        served = self._served.get(cursor.at, {})
        served.pop(cursor, None)
        if not served and self._served.pop(cursor.at, None) is not None:
            self._session.forget(cursor.at)

    def moved(self, at: TopicPartition, end: int) -> bool:
        """The cursors of this partition were fetched for, up to `end`. Returns False if none is served here."""
        served = self._served.get(at)
        if not served or next(iter(served)).fetch_at != end:
            return False
        self._session.fetch(at, end)
        return True

    async def _once(self) -> bool:
        self._take_along()
        if not self._session.positions:
            return False
        response = await self._send(self._session.request(self._max_wait_ms))
        if response is None:
            self._session.restart()
        elif self._session.answered(response):
            self._broker.take(response, self._session.sent)
        else:
            await asyncio.sleep(RETRY_S)
        return True

    def _take_along(self) -> None:
        offered, self._offered = self._offered, {}
        for cursor in offered:
            position = self._session.positions.get(cursor.at)
            if (position is None or position == cursor.fetch_at) and self._broker.take_along(cursor):
                self._served.setdefault(cursor.at, {})[cursor] = None
                if position is None:
                    self._session.fetch(cursor.at, cursor.fetch_at)

    def _cursors(self) -> list[Cursor]:
        return [cursor for served in self._served.values() for cursor in served]
