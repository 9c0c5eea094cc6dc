"""The whole system on a real Kafka for a bench, and raw consumers that watch it at little cost."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from bailiff_bus.kafka import KafkaBus
from bailiff_bus.kafka.errors import client_arguments
from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_devstack.stack import Stack
from bailiff_log.projection import Projection
from bailiff_service.metrics import Metrics

PATIENCE_S = 150.0


class Watch:
    """Follows one topic from its end on. `seen`: how many of each CloudEvents type; `records`: all of them, if kept."""

    def __init__(self, consumer: AIOKafkaConsumer, keep: bool, on: Callable[[str, ConsumerRecord], None] | None) -> None:
        self._consumer, self._keep, self._on = consumer, keep, on
        self.seen: Counter[str] = Counter()
        self.records: list[ConsumerRecord] = []
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        """For as long as the bench lasts."""
        while True:
            found = await self._consumer.getmany(timeout_ms=500)
            for records in found.values():
                for record in records:
                    kind = header(record, "ce_type")
                    self.seen[kind.removeprefix("bailiff.audit.").removesuffix(".v1")] += 1
                    if self._keep:
                        self.records.append(record)
                    if self._on is not None:
                        self._on(kind, record)
            self._changed.set()

    async def until(self, what: str, condition: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
        """Wait until it is so. Raises `TimeoutError`."""
        try:
            await wait_until(self._changed, condition, within_s)
        except TimeoutError:
            raise TimeoutError(f"{what}: not within {within_s:.0f} s; seen {dict(self.seen)}") from None


async def wait_until(changed: asyncio.Event, condition: Callable[[], bool], within_s: float) -> None:
    """Look at the condition at each change until it holds. Raises `TimeoutError`."""
    async with asyncio.timeout(within_s):
        while not condition():
            changed.clear()
            await changed.wait()


def header(record: ConsumerRecord, name: str) -> str:
    """A header's text, or nothing."""
    for key, value in record.headers:
        if key == name:
            return value.decode()
    return ""


@asynccontextmanager
async def watching(
    kafka: KafkaSettings | str, topic: str, *, keep: bool = False, on: Callable[[str, ConsumerRecord], None] | None = None
) -> AsyncIterator[Watch]:
    """A `Watch` that is followed while the block lasts."""
    bus = KafkaBus(kafka)
    spans = await bus.spans(topic)
    await bus.close()
    consumer = AIOKafkaConsumer(**client_arguments(bus.settings), enable_auto_commit=False, fetch_max_wait_ms=500)
    await consumer.start()
    partitions = [TopicPartition(topic, number) for number in spans]
    consumer.assign(partitions)
    for partition in partitions:
        consumer.seek(partition, spans[partition.partition].end)
    watch = Watch(consumer, keep, on)
    following = asyncio.ensure_future(watch.follow())
    try:
        yield watch
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await consumer.stop()


@asynccontextmanager
async def publishing(kafka: KafkaSettings | str) -> AsyncIterator[AIOKafkaProducer]:
    """A producer like the clients': idempotent, acknowledged by all."""
    settings = KafkaBus(kafka).settings
    producer = AIOKafkaProducer(**client_arguments(settings), enable_idempotence=True, acks="all", linger_ms=0)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def make_topics(bootstrap: str, names: Sequence[str], flushed: Sequence[str] = ()) -> None:
    """Plain topics of one partition; the broker flushes these at every message, as it does the audit topic."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics(
            [NewTopic(name, 1, 1, topic_configs={"flush.messages": "1"} if name in flushed else {}) for name in names]
        )
    finally:
        await admin.close()


@asynccontextmanager
async def raw_hops(bootstrap: str, hops: int, flushed: Sequence[int] = ()) -> AsyncIterator[Callable[[], Awaitable[float]]]:
    """Sends one message through this many topics, each read and sent on by a consumer of its own: seconds.

    flushed: which of the topics the broker flushes at every message.
    """
    names = [f"bench-hop-{n}-of-{hops}" for n in range(hops)]
    await make_topics(bootstrap, names, [names[at] for at in flushed])
    arrived: asyncio.Queue[float] = asyncio.Queue()
    consumers = []
    for name in names:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, fetch_max_wait_ms=500)
        await consumer.start()
        consumer.assign([TopicPartition(name, 0)])
        consumer.seek(TopicPartition(name, 0), 0)
        consumers.append(consumer)
    async with publishing(bootstrap) as producer:

        async def relay(at: int) -> None:
            while True:
                record = await consumers[at].getone()
                if at + 1 < hops:
                    await producer.send(names[at + 1], record.value)
                else:
                    arrived.put_nowait(time.perf_counter())

        relays = [asyncio.ensure_future(relay(at)) for at in range(hops)]

        async def once() -> float:
            began = time.perf_counter()
            await producer.send(names[0], b"x" * 500)
            return await arrived.get() - began

        try:
            yield once
        finally:
            for each in relays:
                each.cancel()
            await asyncio.gather(*relays, return_exceptions=True)
            for consumer in consumers:
                await consumer.stop()


async def raw_produce_and_consume(bootstrap: str, records: list[ConsumerRecord], topic: str) -> float:
    """Seconds to produce records of these bytes to a plain topic and to read them all back."""
    await make_topics(bootstrap, [topic])
    began = time.perf_counter()
    async with publishing(bootstrap) as producer:
        for record in records:
            await producer.send(topic, record.value, headers=list(record.headers))
        await producer.flush()
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
    await consumer.start()
    left = len(records)
    while left > 0:
        left -= sum(len(found) for found in (await consumer.getmany(timeout_ms=1000)).values())
    seconds = time.perf_counter() - began
    await consumer.stop()
    return seconds


async def all_joined(stack: Stack, pool: str, nodes: int, within_s: float = 60.0) -> None:
    """Waits until the log of the pool has this many nodes."""
    view = Projection(KafkaBus(stack.kafka.settings("operator")), pool, 0, Metrics())
    try:
        async with asyncio.timeout(within_s):
            while len(view.state.nodes) < nodes:
                await view.advance(0.5)
    finally:
        await view.close()
        await view.bus.close()


def megabytes(stack: Stack, *, peak: bool = False) -> dict[str, float]:
    """Resident memory of each service, and of the broker; or the most that each ever had."""
    field = "VmHWM" if peak else "VmRSS"
    return {name: _status(stack.processes.pid(name), field) / 1024 for name in stack.processes.running()}


def cpu_seconds(stack: Stack) -> dict[str, float]:
    """Processor time of each service so far, and of the broker."""
    pids = {name: stack.processes.pid(name) for name in stack.processes.running()} | {"kafka": stack.kafka.pid}
    return {name: processor_s(pid) for name, pid in pids.items()}


def processor_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What was used between two looks."""
    return {name: round(after[name] - before.get(name, 0.0), 2) for name in after}


def _status(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    return 0


def job_of(record: ConsumerRecord) -> str:
    """The job that the record's data is about."""
    data = json.loads(record.value)
    return data.get("job") or data.get("demand", {}).get("job") or data.get("preemptor", {}).get("job") or ""
