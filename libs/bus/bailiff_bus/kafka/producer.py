"""Sending, one message or many, and what becomes of each."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.producer.message_accumulator import BatchBuilder

from bailiff_bus.port import Batch, BusUnavailable, Headers, Parcel, Receipt
from bailiff_bus.settings import KafkaSettings
from bailiff_bus.topics import INPUT_LIMIT, TOPICS, check_size

from .calls import MIB, bounded, calling, client_arguments, started

log = structlog.get_logger()

LOG_APPEND_TIME = 1


class KafkaProducer:
    """Idempotent, acknowledged by all in-sync replicas. One failure, and it sends nothing more."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._producer = AIOKafkaProducer(
            **client_arguments(settings),
            enable_idempotence=True,
            acks="all",
            linger_ms=0,
            max_batch_size=MIB // 8,  # a batch, too, must be within the smallest topic's max.message.bytes
            max_request_size=4 * MIB,
        )
        self._unacknowledged: dict[asyncio.Future[Receipt], float] = {}  # until when each may take; the oldest first
        self._timer: asyncio.TimerHandle | None = None
        self._failure: str | None = None
        self.closed = False

    async def start(self) -> None:
        """Connect and be given a producer id."""
        async with calling(self._settings, "be reached"):
            await started(self._producer, self._producer.stop)

    async def send(
        self, topic: str, value: bytes, *, key: bytes | None = None, headers: Headers = (), partition: int | None = None
    ) -> "asyncio.Future[Receipt]":
        """Hand over one message; the result is its acknowledgement."""
        check_size(topic, key, headers, value)
        if self._failure is not None:
            raise BusUnavailable(f"this producer sends nothing more: {self._failure}")
        try:
            known = self._known(topic, partition)
            async with calling(self._settings, f"take a message for {topic}", bounded=not known):
                known = known or await self._look_up(topic, partition)
                at = _partition_of(key, known) if partition is None else partition
                stored = await self._producer.send(topic, value, key=key, headers=list(headers), partition=at)
        except (BusUnavailable, asyncio.CancelledError) as error:
            self._fail(str(error) or "a send was cancelled")
            raise
        return self._receipt(stored)

    async def send_many(self, topic: str, parcels: Sequence[Parcel], *, partition: int | None = None) -> list[Batch]:
        """Hand over several in batches that are built here: one acknowledgement for each, not for every message."""
        for key, headers, value in parcels:
            check_size(topic, key, headers, value)
        if self._failure is not None:
            raise BusUnavailable(f"this producer sends nothing more: {self._failure}")
        sent: list[Batch] = []
        try:
            known = self._known(topic, partition)
            async with calling(self._settings, f"take messages for {topic}", bounded=not known):
                known = known or await self._look_up(topic, partition)
                groups: dict[int, list[Parcel]] = {}
                for parcel in parcels:
                    at = _partition_of(parcel[0], known) if partition is None else partition
                    groups.setdefault(at, []).append(parcel)
                for at, group in groups.items():
                    for builder in _batches(topic, group):
                        stored = await self._producer.send_batch(builder, topic, partition=at)
                        sent.append(Batch(builder.record_count(), self._receipt(stored)))
        except (BusUnavailable, asyncio.CancelledError) as error:
            self._fail(str(error) or "a send was cancelled")
            raise
        return sent

    async def close(self, timeout: float = 5.0) -> None:
        """Flush for at most `timeout` seconds, then let go. After a failed send nothing is flushed."""
        self.closed = True
        if not await bounded(self._producer.stop(), timeout):
            log.warning("kafka producer did not end in time", seconds=timeout)
            await bounded(self._producer.client.close(), timeout)
        self._fail("the producer was closed")

    def _known(self, topic: str, partition: int | None) -> frozenset[int]:
        """The topic's partitions, if this one is among them; else nothing."""
        found = self._producer.client.cluster.partitions_for_topic(topic) or frozenset()
        return found if partition is None or partition in found else frozenset()

    async def _look_up(self, topic: str, partition: int | None) -> frozenset[int]:
        """As `_known`, once it is."""
        found: frozenset[int] = await self._producer.partitions_for(topic)
        while partition is not None and partition not in found:
            await self._producer.client.force_metadata_update()
            await asyncio.sleep(0.1)
            found = await self._producer.partitions_for(topic)
        return found

    def _receipt(self, stored: "asyncio.Future[Any]") -> "asyncio.Future[Receipt]":
        """An acknowledgement that comes within `request_timeout` or fails."""
        loop = asyncio.get_running_loop()
        receipt: asyncio.Future[Receipt] = loop.create_future()
        receipt.add_done_callback(_look)
        self._unacknowledged[receipt] = loop.time() + self._settings.request_timeout
        if self._timer is None:
            self._timer = loop.call_later(self._settings.request_timeout, self._fail_if_late)

        def acknowledged(done: "asyncio.Future[Any]") -> None:
            if done.cancelled() or done.exception() is not None:
                cause = "the send was cancelled" if done.cancelled() else done.exception()
                self._fail(f"Kafka at {self._settings.bootstrap} did not store a message: {cause}")
                return
            self._unacknowledged.pop(receipt, None)
            if not receipt.done():
                where = done.result()
                # A duplicate-sequence answer has no offset, and aiokafka adds the place within the batch to that -1.
                # It has no append time either, so that shows it.
                told = where.timestamp_type == LOG_APPEND_TIME and where.offset >= 0
                receipt.set_result(Receipt(where.partition, where.offset if told else None, where.timestamp * 1000))

        stored.add_done_callback(acknowledged)
        return receipt

    def _fail_if_late(self) -> None:
        """One timer for all: it looks at the oldest send, and sleeps until that one would be late."""
        self._timer = None
        until = next(iter(self._unacknowledged.values()), None)
        if until is None:
            return
        loop = asyncio.get_running_loop()
        if until > loop.time():
            self._timer = loop.call_at(until, self._fail_if_late)
            return
        seconds = self._settings.request_timeout
        self._fail(f"Kafka at {self._settings.bootstrap} did not acknowledge within {seconds:g} s")

    def _fail(self, reason: str) -> None:
        self._failure = self._failure or reason
        unacknowledged, self._unacknowledged = self._unacknowledged, {}
        if self._timer is not None:
            self._timer.cancel()
        for receipt in unacknowledged:
            if not receipt.done():
                receipt.set_exception(BusUnavailable(self._failure))
        sending = self._producer._sender.sender_task
        if sending is not None:
            sending.cancel()  # or else aiokafka would go on to deliver what nobody waits for


def _partition_of(key: bytes | None, partitions: frozenset[int]) -> int:
    """Where a message with this key goes: as aiokafka chooses, whose hash is Python and takes a while."""
    return next(iter(partitions)) if len(partitions) == 1 else _hashed(key or b"", len(partitions))


@lru_cache(maxsize=1024)  # of domains and nodes there are few
def _hashed(key: bytes, count: int) -> int:
    chosen: int = DefaultPartitioner()(key, list(range(count)), [])
    return chosen


def _batches(topic: str, parcels: Iterable[Parcel]) -> Iterator[BatchBuilder]:
    """The parcels in order, as many in each batch as the topic takes."""
    largest = TOPICS[topic].max_message_bytes if topic in TOPICS else INPUT_LIMIT
    builder: BatchBuilder | None = None
    for key, headers, value in parcels:
        message = {"timestamp": None, "key": key, "value": value, "headers": list(headers)}
        if builder is None or builder.append(**message) is None:
            if builder is not None:
                yield builder
            builder = BatchBuilder(largest, 0)
            builder.append(**message)  # the first one always finds room
    if builder is not None:
        builder.close()
        yield builder


def _look(future: "asyncio.Future[Any]") -> None:
    """Mark a failure as seen: nobody has to wait for every acknowledgement."""
    if not future.cancelled():
        future.exception()
