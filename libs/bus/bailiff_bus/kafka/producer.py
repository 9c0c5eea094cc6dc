"""Sends messages to Kafka and returns their acknowledgements."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.producer.message_accumulator import BatchBuilder

from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_bus.lazy_logger import lazy_logger
from bailiff_bus.port import AccessDenied, Batch, BusUnavailable, Headers, OutgoingMessage, Receipt
from bailiff_bus.topics import INPUT_LIMIT, TOPICS, check_size

from .errors import DENIED, MIB, access_denied, broker_call, client_arguments, finish_within, mark_retrieved, start_or_close

log = lazy_logger()

LOG_APPEND_TIME = 1
MAX_CONNECTED = 16
CONNECTING_AT_ONCE = 8  # of five hundred that begin together, each has the whole time-out for its own connection
METADATA_MAX_AGE_MS = 300_000  # an unknown partition, or one that has moved, is looked up at once


class ProducerConnections:
    """The connected producers of a bus, the one that was used longest ago first. Beyond `MAX_CONNECTED` idle ones disconnect."""

    def __init__(self) -> None:
        self._connected: OrderedDict[KafkaProducer, None] = OrderedDict()
        self._closing: set[asyncio.Task[bool]] = set()
        self.slots = asyncio.Semaphore(CONNECTING_AT_ONCE)

    @property
    def are_enough(self) -> bool:
        """Whether a new producer connects when it sends only."""
        return len(self._connected) >= MAX_CONNECTED

    def used(self, producer: "KafkaProducer") -> None:
        """This one is connected, and was used just now."""
        self._connected[producer] = None
        self._connected.move_to_end(producer)

    def gone(self, producer: "KafkaProducer") -> None:
        """This one is not connected any more."""
        self._connected.pop(producer, None)

    def make_room(self) -> None:
        """Disconnect the one that has been idle longest."""
        if self.are_enough:
            idle = next((each for each in self._connected if each.is_idle), None)
            if idle is not None:
                closing = asyncio.create_task(idle.disconnect())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)


class KafkaProducer:
    """An idempotent producer with `acks=all`. After one failure it sends nothing more.

    One that is idle, with nothing unacknowledged, may be disconnected; it connects again, with a new producer id, when it sends.
    """

    def __init__(self, settings: KafkaSettings, connections: ProducerConnections) -> None:
        self._settings, self._connections = settings, connections
        self._connected: AIOKafkaProducer | None = None
        self._connecting = asyncio.Lock()
        self._sending = 0  # calls that are under way
        self._unacknowledged: dict[asyncio.Future[Receipt], float] = {}  # deadline of each, oldest first
        self._timer: asyncio.TimerHandle | None = None
        self._failure: str | None = None
        self.closed = False

    async def start(self) -> None:
        """Connect and get a producer id, unless many are connected."""
        if not self._connections.are_enough:
            await self._connection()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being sent, and everything sent is acknowledged."""
        return not self._sending and not self._unacknowledged and not self._connecting.locked()

    async def disconnect(self) -> bool:
        """Close the connection, if this producer is still idle."""
        if not self.is_idle:
            return False
        self._connections.gone(self)
        producer, self._connected = self._connected, None
        return producer is None or await finish_within(producer.stop(), self._settings.request_timeout)

    async def _connection(self) -> AIOKafkaProducer:
        async with self._connecting, self._connections.slots:
            if self._connected is None:
                self._connections.make_room()
                producer = AIOKafkaProducer(
                    **client_arguments(self._settings) | {"metadata_max_age_ms": METADATA_MAX_AGE_MS},
                    enable_idempotence=True,
                    acks="all",
                    linger_ms=0,
                    max_batch_size=MIB // 8,  # a batch counts against the smallest max.message.bytes of the topics
                    max_request_size=4 * MIB,
                )
                async with broker_call(self._settings, "accept a connection"):
                    self._connected = await start_or_close(producer, producer.stop)
        self._connections.used(self)
        return self._connected

    async def send(
        self, topic: str, value: bytes, *, key: bytes | None = None, headers: Headers = (), partition: int | None = None
    ) -> "asyncio.Future[Receipt]":
        """Send one message; the result is its acknowledgement."""
        check_size(topic, key, headers, value)
        if self._failure is not None:
            raise BusUnavailable(f"this producer has stopped: {self._failure}")
        self._sending += 1
        try:
            producer = self._connected or await self._connection()
            self._connections.used(self)
            known = _known(producer, topic, partition)
            async with broker_call(self._settings, f"accept a message for {topic}", with_timeout=not known):
                known = known or await _look_up(producer, topic, partition)
                at = _partition_of(key, known) if partition is None else partition
                stored = await producer.send(topic, value, key=key, headers=list(headers), partition=at)
            return self._receipt(stored)
        except (BusUnavailable, asyncio.CancelledError) as error:
            self._fail(str(error) or "a send was cancelled")
            raise
        finally:
            self._sending -= 1

    async def send_many(self, topic: str, messages: Sequence[OutgoingMessage], *, partition: int | None = None) -> list[Batch]:
        """Send several messages in batches built here: one acknowledgement per batch."""
        for key, headers, value in messages:
            check_size(topic, key, headers, value)
        if self._failure is not None:
            raise BusUnavailable(f"this producer has stopped: {self._failure}")
        sent: list[Batch] = []
        self._sending += 1
        try:
            producer = self._connected or await self._connection()
            self._connections.used(self)
            known = _known(producer, topic, partition)
            async with broker_call(self._settings, f"accept messages for {topic}", with_timeout=not known):
                known = known or await _look_up(producer, topic, partition)
                groups: dict[int, list[OutgoingMessage]] = {}
                for message in messages:
                    at = _partition_of(message[0], known) if partition is None else partition
                    groups.setdefault(at, []).append(message)
                for at, group in groups.items():
                    for builder in _batches(topic, group):
                        stored = await producer.send_batch(builder, topic, partition=at)
                        sent.append(Batch(builder.record_count(), self._receipt(stored)))
        except (BusUnavailable, asyncio.CancelledError) as error:
            self._fail(str(error) or "a send was cancelled")
            raise
        finally:
            self._sending -= 1
        return sent

    async def close(self, timeout: float = 5.0) -> None:
        """Flush for at most `timeout` seconds, then close. After a failed send nothing is flushed."""
        self.closed = True
        self._connections.gone(self)
        if self._connected is not None and not await finish_within(self._connected.stop(), timeout):
            log.warning("kafka producer did not close in time", seconds=timeout)
            await finish_within(self._connected.client.close(), timeout)
        self._fail("the producer was closed")

    def _receipt(self, stored: "asyncio.Future[Any]") -> "asyncio.Future[Receipt]":
        """The acknowledgement; fails after `request_timeout`."""
        loop = asyncio.get_running_loop()
        receipt: asyncio.Future[Receipt] = loop.create_future()
        receipt.add_done_callback(mark_retrieved)
        self._unacknowledged[receipt] = loop.time() + self._settings.request_timeout
        if self._timer is None:
            self._timer = loop.call_later(self._settings.request_timeout, self._fail_if_late)

        def acknowledged(done: "asyncio.Future[Any]") -> None:
            if done.cancelled() or done.exception() is not None:
                error = None if done.cancelled() else done.exception()
                if isinstance(error, DENIED):
                    denied = access_denied(self._settings, error, "store a message")
                    self._fail(str(denied), AccessDenied)
                    return
                cause = error or "the send was cancelled"
                self._fail(f"Kafka at {self._settings.bootstrap} did not store a message: {cause}")
                return
            self._unacknowledged.pop(receipt, None)
            if not receipt.done():
                where = done.result()
                # A duplicate-sequence response has no offset (aiokafka adds the index within the batch to -1) and no
                # append time, which identifies it.
                has_offset = where.timestamp_type == LOG_APPEND_TIME and where.offset >= 0
                receipt.set_result(Receipt(where.partition, where.offset if has_offset else None, where.timestamp * 1000))

        stored.add_done_callback(acknowledged)
        return receipt

    def _fail_if_late(self) -> None:
        """One timer for all sends: checks the oldest one and waits until its deadline."""
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

    def _fail(self, reason: str, kind: type[BusUnavailable] = BusUnavailable) -> None:
        self._failure = self._failure or reason
        unacknowledged, self._unacknowledged = self._unacknowledged, {}
        if self._timer is not None:
            self._timer.cancel()
        for receipt in unacknowledged:
            if not receipt.done():
                receipt.set_exception(kind(self._failure))
        if self._connected is not None and self._connected._sender.sender_task is not None:
            self._connected._sender.sender_task.cancel()  # otherwise aiokafka would still deliver messages reported as failed


def _known(producer: AIOKafkaProducer, topic: str, partition: int | None) -> frozenset[int]:
    """The topic's partitions in the client's metadata, if `partition` is among them; else empty."""
    found = producer.client.cluster.partitions_for_topic(topic) or frozenset()
    return found if partition is None or partition in found else frozenset()


async def _look_up(producer: AIOKafkaProducer, topic: str, partition: int | None) -> frozenset[int]:
    """As `_known`, after fetching metadata until it is not empty."""
    found: frozenset[int] = await producer.partitions_for(topic)
    while partition is not None and partition not in found:
        await producer.client.force_metadata_update()
        await asyncio.sleep(0.1)
        found = await producer.partitions_for(topic)
    return found


def _partition_of(key: bytes | None, partitions: frozenset[int]) -> int:
    """Partition of a message with this key, as aiokafka chooses it; cached, since its hash is slow Python."""
    return next(iter(partitions)) if len(partitions) == 1 else _hashed(key or b"", len(partitions))


@lru_cache(maxsize=1024)  # keys are pools and nodes: few
def _hashed(key: bytes, count: int) -> int:
    chosen: int = DefaultPartitioner()(key, list(range(count)), [])
    return chosen


def _batches(topic: str, messages: Iterable[OutgoingMessage]) -> Iterator[BatchBuilder]:
    """The messages in order, as many in each batch as the topic allows."""
    largest = TOPICS[topic].max_message_bytes if topic in TOPICS else INPUT_LIMIT
    builder: BatchBuilder | None = None
    for key, headers, value in messages:
        message = {"timestamp": None, "key": key, "value": value, "headers": list(headers)}
        if builder is None or builder.append(**message) is None:
            if builder is not None:
                yield builder
            builder = BatchBuilder(largest, 0)
            builder.append(**message)  # the first message always fits
    if builder is not None:
        builder.close()
        yield builder
