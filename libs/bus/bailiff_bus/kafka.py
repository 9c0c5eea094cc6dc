"""The bus on Kafka, over aiokafka 0.14.

Every call to a broker is bounded by `request_timeout` and fails as `BusUnavailable` with a sentence that names the
servers; aiokafka by itself would go on for ever. What aiokafka logs goes to our log as one-line warnings.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from types import TracebackType
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, OffsetOutOfRangeError, for_code
from aiokafka.helpers import create_ssl_context
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.producer.message_accumulator import BatchBuilder

from .port import Batch, BusUnavailable, Headers, Message, OffsetGone, Ownership, Parcel, Producer, Reader, Receipt, Span
from .settings import KafkaSettings, secret_of
from .topics import COPIES_MEANT, INPUT_LIMIT, TOPICS, check_size

log = structlog.get_logger()

MIB = 1024 * 1024
NEW_PARTITIONS_SECONDS = 30
LOG_APPEND_TIME = 1
SAY_AGAIN_S = 30.0
TEXTS_KNOWN = 100
_CONTENT = itemgetter(1)


def client_arguments(settings: KafkaSettings) -> dict[str, Any]:
    """What every aiokafka client is made with."""
    tls = settings.security_protocol in ("SSL", "SASL_SSL")
    return {
        "bootstrap_servers": settings.bootstrap,
        "security_protocol": settings.security_protocol,
        "ssl_context": create_ssl_context(cafile=settings.cafile and str(settings.cafile)) if tls else None,
        "sasl_mechanism": settings.sasl_mechanism or "PLAIN",
        "sasl_plain_username": settings.username,
        "sasl_plain_password": secret_of(settings.password),
        "request_timeout_ms": settings.request_timeout_ms,
        "metadata_max_age_ms": NEW_PARTITIONS_SECONDS * 1000,
    }


class KafkaBus:
    """A log of topics in Kafka. Connects on first use."""

    def __init__(self, settings: KafkaSettings | str) -> None:
        self.settings = KafkaSettings(bootstrap=settings) if isinstance(settings, str) else settings
        self._admin: AIOKafkaAdminClient | None = None
        self._looker: AIOKafkaConsumer | None = None
        self._connecting = asyncio.Lock()
        self._open: list[KafkaReader | KafkaProducer | KafkaSeat] = []
        _take_over_logging()

    async def spans(self, topic: str) -> Mapping[int, Span]:
        """Every partition of the topic and what it holds."""
        async with _calling(self.settings, f"say what {topic} holds"):
            admin, looker = await self._clients()
            (described,) = await admin.describe_topics([topic])
            if not described["partitions"]:
                raise KeyError(topic)
            partitions = [TopicPartition(topic, each["partition"]) for each in described["partitions"]]
            begins, ends = await asyncio.gather(looker.beginning_offsets(partitions), looker.end_offsets(partitions))
        return {each.partition: Span(begins[each], ends[each]) for each in sorted(partitions)}

    async def reader(self, positions: Sequence[tuple[str, int, int]]) -> Reader:
        """A reader of (topic, partition, offset) positions."""
        reader = KafkaReader(self.settings, positions)
        await reader.start()
        self._keep(reader)
        return reader

    async def producer(self) -> Producer:
        """A producer of its own incarnation."""
        producer = KafkaProducer(self.settings)
        await producer.start()
        self._keep(producer)
        return producer

    async def join(self, group: str, topic: str, instance: str | None) -> Ownership:
        """Take a seat in the group; returns once the group has given it its partitions."""
        seat = KafkaSeat(self.settings, group, topic, instance)
        await seat.start()
        self._keep(seat)
        return seat

    async def topic_settings(self, topic: str) -> Mapping[str, str]:
        """The topic's settings by Kafka's names, and the counts `replication` and `brokers`."""
        async with _calling(self.settings, f"describe {topic}"):
            admin, _ = await self._clients()
            (described,) = await admin.describe_topics([topic])
            if not described["partitions"]:
                raise KeyError(topic)
            cluster = await admin.describe_cluster()
            answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            ((code, text, _, _, entries),) = answers[0].resources
            refusals([(topic, code, text)])
        return {
            **{name: value for name, value, *_ in entries if value is not None},
            "replication": str(min(len(each["replicas"]) for each in described["partitions"])),
            "brokers": str(len(cluster["brokers"])),
        }

    async def close(self) -> None:
        """Let go of everything."""
        for each in reversed(self._open):
            await each.close()
        self._open.clear()
        if self._looker is not None:
            await _bounded(self._looker.stop(), self.settings.request_timeout)
        if self._admin is not None:
            await _bounded(self._admin.close(), self.settings.request_timeout)
        self._admin = self._looker = None

    def _keep(self, opened: "KafkaReader | KafkaProducer | KafkaSeat") -> None:
        self._open = [*(each for each in self._open if not each.closed), opened]

    async def _clients(self) -> tuple[AIOKafkaAdminClient, AIOKafkaConsumer]:
        async with self._connecting:
            if self._admin is None:
                admin = AIOKafkaAdminClient(**client_arguments(self.settings))
                self._admin = await _started(admin, admin.close)
            if self._looker is None:
                looker = AIOKafkaConsumer(**client_arguments(self.settings), enable_auto_commit=False)
                self._looker = await _started(looker, looker.stop)
            return self._admin, self._looker


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
        async with _calling(self._settings, "be reached"):
            await _started(self._consumer, self._consumer.stop)
        self._assign()
        self._heard = asyncio.get_running_loop().time()

    async def read(self, limit: int = 500, wait: float = 0.5) -> list[Message]:
        """What is there, at most `limit`; waits up to `wait` seconds for a first message."""
        if not self._positions:
            await asyncio.sleep(wait)
            return []
        try:
            async with _calling(self._settings, "be read", bounded=False):
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
        await _bounded(self._consumer.stop(), self._settings.request_timeout)

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
        async with _calling(self._settings, "say what it holds"):
            begins = await self._consumer.beginning_offsets(wanted)
            ends = await self._consumer.end_offsets(wanted)
        return {at: Span(begins[at], ends[at]) for at in wanted}


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
        async with _calling(self._settings, "be reached"):
            await _started(self._producer, self._producer.stop)

    async def send(
        self, topic: str, value: bytes, *, key: bytes | None = None, headers: Headers = (), partition: int | None = None
    ) -> "asyncio.Future[Receipt]":
        """Hand over one message; the result is its acknowledgement."""
        check_size(topic, key, headers, value)
        if self._failure is not None:
            raise BusUnavailable(f"this producer sends nothing more: {self._failure}")
        try:
            known = self._known(topic, partition)
            async with _calling(self._settings, f"take a message for {topic}", bounded=not known):
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
            async with _calling(self._settings, f"take messages for {topic}", bounded=not known):
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
        if not await _bounded(self._producer.stop(), timeout):
            log.warning("kafka producer did not end in time", seconds=timeout)
            await _bounded(self._producer.client.close(), timeout)
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


class KafkaSeat(ConsumerRebalanceListener):  # type: ignore[misc]
    """A seat in a consumer group that reads nothing.

    Every rebalance takes all partitions away for a moment; `owned` keeps what it was until the group has decided.
    Two living members with the same `instance` take the seat from each other for ever.
    """

    def __init__(self, settings: KafkaSettings, group: str, topic: str, instance: str | None) -> None:
        self._settings = settings
        self._group = group
        self._consumer = AIOKafkaConsumer(
            **client_arguments(settings) | {"request_timeout_ms": settings.request_timeout_ms + settings.session_timeout_ms},
            group_id=group,
            group_instance_id=instance,
            enable_auto_commit=False,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.session_timeout_ms // 3,
        )
        self._consumer.subscribe([topic], listener=self)
        self._owned: frozenset[int] | None = None
        self._told: frozenset[int] = frozenset()
        self._trouble: KafkaError | None = None
        self._news = asyncio.Event()
        self._holding: asyncio.Task[None] | None = None
        self.closed = False

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that the group gave to this replica."""
        return self._owned or frozenset()

    async def start(self) -> None:
        """Join the group and wait for its decision."""
        try:
            async with _calling(self._settings, f"let us join {self._group}", extra=self._settings.session_timeout_ms / 1000):
                await self._consumer.start()
                await self._news.wait()
        except BaseException:
            await self.close()
            raise
        self._told = self.owned
        self._holding = asyncio.create_task(self._hold())

    async def changed(self) -> frozenset[int]:
        """Wait until `owned` is another than this returned last, and return it."""
        while self.owned == self._told:
            if self._trouble is not None:
                trouble, self._trouble = self._trouble, None
                raise BusUnavailable(f"Kafka at {self._settings.bootstrap}: no seat in {self._group}: {trouble!r}")
            self._news.clear()
            await self._news.wait()
        self._told = self.owned
        return self._told

    async def leave(self) -> None:
        """Give everything back."""
        coordinator = self._consumer._coordinator
        if coordinator is not None:
            coordinator._group_instance_id = None  # aiokafka never says good-bye for a named member
        await self.close()

    async def close(self) -> None:
        """End; with an `instance` the seat is kept until the session times out."""
        self.closed = True
        if self._holding is not None:
            self._holding.cancel()
            self._holding = None
        await _bounded(self._consumer.stop(), self._settings.request_timeout)
        self._owned = frozenset()
        self._news.set()

    async def _hold(self) -> None:
        """aiokafka reports its troubles to whoever polls, and gives the seat up if nobody does."""
        while True:
            try:
                await self._consumer.getmany(timeout_ms=1000)
            except KafkaError as error:
                log.warning("kafka group", group=self._group, trouble=repr(error))
                self._trouble = error
                self._news.set()
                await asyncio.sleep(1)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Says nothing: the decision is yet to come."""

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """The group has decided."""
        self._consumer.pause(*assigned)
        self._owned = frozenset(each.partition for each in assigned)
        self._news.set()


@contextlib.asynccontextmanager
async def connected_admin(settings: KafkaSettings) -> AsyncIterator[AIOKafkaAdminClient]:
    """An administration client for a few calls, within one `request_timeout` all together."""
    _take_over_logging()
    admin = AIOKafkaAdminClient(**client_arguments(settings))
    try:
        async with _calling(settings, "create topics", extra=2 * settings.request_timeout):
            yield await _started(admin, admin.close)
    finally:
        await _bounded(admin.close(), settings.request_timeout)


async def copies_meant(admin: AIOKafkaAdminClient) -> int:
    """How many brokers this Kafka is meant to have, at least: it can keep no group without so many."""
    broker = (await admin.describe_cluster())["brokers"][0]["node_id"]
    answers = await admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, str(broker))])
    ((code, text, _, _, entries),) = answers[0].resources
    refusals([(f"broker {broker}", code, text)])
    return int({name: value for name, value, *_ in entries}.get(COPIES_MEANT) or 1)


def refusals(errors: Iterable[tuple[str, int, str | None]], but_for: str = "") -> None:
    """Raise for the first (topic, error code, text) that says no."""
    for topic, code, text in errors:
        error = for_code(code)
        if code and error.__name__ != but_for:
            raise error(f"{topic}: {text or error.description}")


class _calling:  # noqa: N801 - reads as a statement; a class, because a generator costs as much as a send
    """One exchange with the brokers, and its failure as a sentence.

    It is bounded here unless aiokafka bounds it itself: a timer costs more than a send.
    """

    __slots__ = ("_limit", "_seconds", "_settings", "_what")

    def __init__(self, settings: KafkaSettings, what: str, extra: float = 0.0, *, bounded: bool = True) -> None:
        self._settings, self._what, self._seconds = settings, what, settings.request_timeout + extra
        self._limit = asyncio.timeout(self._seconds) if bounded else None

    async def __aenter__(self) -> None:
        if self._limit is not None:
            await self._limit.__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if self._limit is not None:
                await self._limit.__aexit__(kind, error, trace)
            if isinstance(error, TimeoutError):
                raise error
        except TimeoutError as late:
            told = f"Kafka at {self._settings.bootstrap} did not {self._what} within {self._seconds:g} s"
            raise BusUnavailable(told) from late
        if isinstance(error, KafkaError | OSError) and not isinstance(error, OffsetOutOfRangeError):
            raise BusUnavailable(f"Kafka at {self._settings.bootstrap} did not {self._what}: {error}") from error


async def _started(client: Any, stop: Any) -> Any:
    """The client, connected; or let go of again."""
    try:
        await client.start()
    except BaseException:
        await _bounded(stop(), 1.0)
        raise
    return client


async def _bounded(call: Coroutine[Any, Any, Any], seconds: float) -> bool:
    """Whether the call ended in time. Its errors and cancellations stay its own: aiokafka's closing has both."""
    task = asyncio.create_task(call)
    await asyncio.wait([task], timeout=seconds)
    if not task.done():
        task.cancel()
        return False
    if not task.cancelled() and task.exception() is not None:
        log.warning("kafka client did not close cleanly", error=repr(task.exception()))
    return True


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


def _headers(found: Sequence[tuple[str, bytes | None]]) -> Headers:
    """As they are; a null one as an empty one."""
    if None in map(_CONTENT, found):
        return tuple([(name, content or b"") for name, content in found])
    return tuple(found)  # type: ignore[arg-type]


def _look(future: "asyncio.Future[Any]") -> None:
    """Mark a failure as seen: nobody has to wait for every acknowledgement."""
    if not future.cancelled():
        future.exception()


class OneLine(logging.Handler):
    """Passes what aiokafka logs on to our log, without tracebacks.

    In an outage it says the same a hundred times a second: the same words pass once in `SAY_AGAIN_S`, and then with how
    often they came.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said: dict[str, tuple[float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Say it, unless it was said a moment ago."""
        text, now = record.getMessage(), self._clock()
        last, left_out = self._said.get(text, (-SAY_AGAIN_S, 0))
        if now - last < SAY_AGAIN_S:
            self._said[text] = last, left_out + 1
            return
        if len(self._said) >= TEXTS_KNOWN:
            self._said.clear()
        self._said[text] = now, 0
        error = record.exc_info[1] if record.exc_info else None
        more = {"error": repr(error)} if error else {}
        log.warning("kafka client", says=text, **more, **({"left_out": left_out} if left_out else {}))


def _take_over_logging() -> None:
    theirs = logging.getLogger("aiokafka")
    if theirs.propagate:
        theirs.propagate = False
        theirs.setLevel(logging.WARNING)
        theirs.addHandler(OneLine())
