"""Fetches for all readers of a bus, over connections that they share."""

import asyncio
from collections.abc import Collection, Iterable
from contextlib import suppress

from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError

from bailiff_bus.kafka_settings import KafkaSettings

from .broker_fetches import BrokerFetches
from .cursor import Cursor, NoAnswer, TopicMadeAnew
from .errors import DENIED, broker_call, client_arguments, finish_within
from .offsets import query_ids

FIRST_RETRY_S, MAX_RETRY_S = 0.05, 1.0
LOOK_UP_S = 20.0
"""How often it is looked whether a topic is still the same."""


class Fetcher:
    """Each cursor is fetched from the broker that leads its partition.

    Partitions whose broker does not answer, or that have none, are looked up again and again; their readers fail
    after `request_timeout`, each time it has passed. The readers of a topic that was made anew fail: by its name alone a broker
    would go on with their offsets.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self.client = AIOKafkaClient(**client_arguments(settings))
        self._brokers: dict[int, BrokerFetches] = {}
        self._broker_of: dict[Cursor, BrokerFetches] = {}
        self._lost: dict[Cursor, None] = {}
        self._any_lost = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._topic_ids: dict[str, str] = {}
        self.failure: Exception | None = None
        """An internal error that ended fetching; every reader raises it."""

    async def start(self) -> None:
        """Connect."""
        async with broker_call(self._settings, "answer"):
            await self.client.bootstrap()
        self._tasks = [asyncio.create_task(self._find_leaders()), asyncio.create_task(self._look_up_ids())]

    async def look_up(self, topics: Iterable[str]) -> None:
        """Look up the leaders of these topics, unless they are known."""
        async with broker_call(self._settings, "answer"):
            for topic in topics:
                await self.client.add_topic(topic)

    async def close(self) -> None:
        """Close the connections; does not wait for answers."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for broker in self._brokers.values():
            await broker.stop()
        await finish_within(self.client.close(), self._settings.request_timeout)

    def place(self, cursor: Cursor) -> None:
        """Fetch for this cursor, from its present position on."""
        self.remove(cursor)
        self.client.add_topic(cursor.at.topic)
        leader = self._leader(cursor.at)
        if leader is None:
            self._lose([cursor], asyncio.get_running_loop().time())
            return
        broker = self._brokers.get(leader)
        if broker is None:
            broker = self._brokers[leader] = BrokerFetches(leader, self._settings, self.client, self._lose, self._broken)
        self._broker_of[cursor] = broker
        broker.place(cursor)

    def remove(self, cursor: Cursor) -> None:
        """Fetch no more for this cursor."""
        self._lost.pop(cursor, None)
        broker = self._broker_of.pop(cursor, None)
        if broker is not None:
            broker.remove(cursor)

    def drained(self, cursor: Cursor) -> None:
        """The reader has read what was fetched: fetch again, if that had stopped."""
        broker = self._broker_of.get(cursor)
        if broker is not None:
            broker.drained(cursor)

    def note_id(self, topic: str, topic_id: str) -> None:
        """The topic has this id now. If it had another, the offsets of its readers are of a topic that is gone."""
        if self._topic_ids.setdefault(topic, topic_id) == topic_id:
            return
        self._topic_ids[topic] = topic_id
        for cursor in [each for each in (*self._broker_of, *self._lost) if each.at.topic == topic]:
            self.remove(cursor)
            cursor.fail(TopicMadeAnew(cursor.at))

    async def _look_up_ids(self) -> None:
        while True:
            await self._compare_ids({each.at.topic for each in (*self._broker_of, *self._lost)})
            await asyncio.sleep(LOOK_UP_S)

    async def _compare_ids(self, topics: Collection[str]) -> None:
        """Look whether these are still the same topics; not while no broker answers."""
        if topics:
            with suppress(KafkaError, OSError):
                for topic, topic_id in (await query_ids(self.client, sorted(topics))).items():
                    self.note_id(topic, topic_id)

    def _lose(self, cursors: Iterable[Cursor], since: float, error: Exception | None = None) -> None:
        """No broker has answered for these since then. error: where access was denied, readers fail at once."""
        for cursor in cursors:
            broker = self._broker_of.pop(cursor, None)
            if broker is not None:
                broker.remove(cursor)
            if cursor.lost_since is None:
                cursor.lost_since = since
            if isinstance(error, DENIED):
                cursor.fail(error)
            self._lost[cursor] = None
            self._fail_if_late(cursor)
        if self._lost:
            self._any_lost.set()

    async def _find_leaders(self) -> None:
        pause, loop = 0.0, asyncio.get_running_loop()
        while True:
            if not self._lost:
                found_at = loop.time()
                self._any_lost.clear()
                await self._any_lost.wait()
                pause = 0.0 if loop.time() - found_at > 2 * MAX_RETRY_S else pause
            await asyncio.sleep(pause)
            pause = min(max(2 * pause, FIRST_RETRY_S), MAX_RETRY_S)
            with suppress(KafkaError):
                await self.client.force_metadata_update()
            await self._compare_ids({each.at.topic for each in self._lost})
            for cursor in list(self._lost):
                self._fail_if_late(cursor)
                if self._leader(cursor.at) is not None:
                    self.place(cursor)

    def _leader(self, at: TopicPartition) -> int | None:
        leader: int | None = self.client.cluster.leader_for_partition(at)
        return None if leader is None or leader < 0 else leader

    def _fail_if_late(self, cursor: Cursor) -> None:
        """Fail the cursor that has had no answer for too long. It is fetched for all the same."""
        now, patience = asyncio.get_running_loop().time(), self._settings.request_timeout
        if cursor.at.topic in self.client.cluster.unauthorized_topics:
            cursor.fail(TopicAuthorizationFailedError(cursor.at.topic))
        elif cursor.lost_since is not None and now - cursor.lost_since > patience:
            cursor.fail(NoAnswer(cursor.at))
            cursor.lost_since = now

    def _broken(self, error: Exception) -> None:
        self.failure = error
        for cursor in [*self._broker_of, *self._lost]:
            cursor.fail(error)
