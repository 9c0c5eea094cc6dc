"""The console at 1,000 nodes and 200 records a second: record → page, 200 open pages, an hour of the log's time.

A log of the bench's own is written to a real Kafka at that rate; the console is a process beside it. The baseline is a plain
consumer of the same topic in the same run.
"""

import asyncio
import itertools
import re
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
from aiokafka import AIOKafkaProducer, ConsumerRecord
from tests.kits.console import CONSOLE, ConsoleProcess, sign_in

from bailiff_bus import topics
from bailiff_core.records import Wire
from bailiff_devstack.stack import Plan, Stack

from .console_log import POOL, BusyLog
from .system import cpu_seconds, megabytes, publishing, watching
from .table import Row, Run, percentile

RATE = 200  # records a second
BATCH = 4  # records per send
THIRD = 3
PLACE = re.compile(rb"^id: [^:]+:(\d+)", re.MULTILINE)
EVENT, SNAPSHOT = re.compile(rb"^event: ", re.MULTILINE), re.compile(rb"^event: snapshot", re.MULTILINE)
SHOW = "nodes,jobs,projects,queue,events,telemetry"
LIMIT = 64 * 1024 * 1024


class Listener:
    """One page: when each record was known to it, and when each message came. What is sent at once is one message."""

    def __init__(self) -> None:
        self.seq, self.bytes = -1, 0
        self.known: dict[int, float] = {}
        self.came: list[float] = []
        self.snapshots = 0

    async def read(self, port: int, cookie: str) -> None:
        """Until cancelled."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=LIMIT)
        try:
            ask = f"GET /api/pools/{POOL}/live?include={SHOW} HTTP/1.1"
            writer.write(f"{ask}\r\nhost: 127.0.0.1:{port}\r\ncookie: {cookie}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.split()[1] == b"200", head
            while size := int(await reader.readline(), 16):
                chunk = await reader.readexactly(size + 2)
                self._take(chunk, time.perf_counter())
            raise ConnectionError("the console closed the stream")
        finally:
            writer.close()

    def most_in_a_second(self, since: float) -> int:
        """Messages, in whichever second from then on there were most."""
        came = [at for at in self.came if at >= since]
        return max((bisect_left(came, at + 1) - n for n, at in enumerate(came)), default=0)

    def _take(self, chunk: bytes, now: float) -> None:
        self.bytes += len(chunk)
        if EVENT.search(chunk):  # else it is more of a long one
            self.came.append(now)
        self.snapshots += len(SNAPSHOT.findall(chunk))
        for found in PLACE.finditer(chunk):
            place = int(found[1])
            if self.snapshots:
                self.known.update(dict.fromkeys(range(self.seq + 1, place + 1), now))
            self.seq = place


def measure(run: Run) -> list[Row]:
    """Kafka and the console alone: no other reader of the log."""
    nodes = 100 if run.quick else 1000
    stack = Stack(run.folder, Plan(pools=(POOL,)))
    try:
        stack.start_kafka()
        return asyncio.run(_measure(run, stack, nodes))
    finally:
        stack.close()


async def _measure(run: Run, stack: Stack, nodes: int) -> list[Row]:
    log = BusyLog(nodes, time.time_ns() // 1000)
    seconds, pages = (6, 40) if run.quick else (40, 200)
    console = ConsoleProcess(stack)
    what = f"{nodes:,} nodes, {nodes * 8:,} GPUs, {RATE} records/s"
    async with publishing(stack.kafka.bootstrap) as producer:
        await write(producer, log.fill())
        began = time.perf_counter()
        console.start()
        await asyncio.to_thread(console.wait_ready)
        run.say(f"{log.state.seq + 1:,} records read and shown after {time.perf_counter() - began:.1f} s")
        alone = await _fed(stack, producer, log, console, 1, seconds)
        many = await _fed(stack, producer, log, console, pages, seconds)
        hour = hour_of(run)
        took = await _read(producer, log, console, hour // 3)  # until then jobs come that the pool does not forget yet
        before = megabytes(stack)[CONSOLE]
        took += await _read(producer, log, console, hour - hour // 3)
        memory = megabytes(stack)[CONSOLE]
    rows = []
    for name, figure in (("p50", 50), ("p95", 95), ("p99", 99)):
        label, target = f"record written → a page has it, {what}, {name}", {"p95": "≤ 250 ms"}.get(name, "-")
        baseline = percentile(alone.raw, figure) * 1000
        rows.append(Row(label, percentile(alone.waits, figure) * 1000, "ms", target, baseline, f"ms: plain consumer, {name}"))
    share, more = f"processor of the console, {what}", f"{pages} pages"
    return [
        *rows,
        Row(f"the same with {more}, p95 of all", percentile(many.waits, 95) * 1000, "ms", "≤ 250 ms"),
        Row(f"messages a second to a page, of {more} the most", many.rate, "/s", "≤ 5"),
        Row("the same as read, in whichever second most came at once", many.most, "messages"),
        Row(f"{share}, 1 page", alone.cpu * 100, "% of a core"),
        Row(f"{share}, {more}", many.cpu * 100, "% of a core", "≤ 100 %", alone.cpu * 100, "%: 1 page"),
        Row("snapshots sent because a page read too slowly", many.snapshots, "snapshots", "0"),
        Row(
            f"memory of the console after {hour_text(run)}, written in {took:.0f} s",
            memory,
            "MB",
            "the same",
            before,
            "MB: after its first third",
        ),
    ]


@dataclass
class Fed:
    """Seconds until pages and until a plain consumer had each record; messages a second, and in the busiest; share of a core."""

    waits: list[float]
    raw: list[float]
    rate: float
    most: int
    snapshots: int
    cpu: float


async def _fed(stack: Stack, producer: AIOKafkaProducer, log: BusyLog, console: ConsoleProcess, pages: int, seconds: int) -> Fed:
    """While the log grows at the rate."""
    consumed_at: dict[int, float] = {}
    first = log.state.seq + 1

    def consumed(_: str, record: ConsumerRecord) -> None:
        consumed_at[first + len(consumed_at)] = time.perf_counter()

    async with watching(stack.kafka.bootstrap, topics.AUDIT.name, on=consumed), listening(console.port, pages) as listeners:
        for each in listeners:
            await until(lambda each=each: each.snapshots > 0)  # type: ignore[misc]
        snapshots = sum(each.snapshots for each in listeners)
        cpu, began = cpu_seconds(stack)[CONSOLE], time.perf_counter()
        sent = await paced(producer, log, seconds)
        took = time.perf_counter() - began
        used = cpu_seconds(stack)[CONSOLE] - cpu
        last = max(sent)
        await until(lambda: all(each.seq >= last for each in listeners) and last in consumed_at)
        waits = [each.known[seq] - at for each in listeners for seq, at in sent.items()]
        raw = [consumed_at[seq] - at for seq, at in sent.items()]
        rate = max(sum(at >= began for at in each.came) / (time.perf_counter() - began) for each in listeners)
        most = max(each.most_in_a_second(began) for each in listeners)
        more = sum(each.snapshots for each in listeners) - snapshots
    return Fed(waits, raw, rate, most, more, used / took)


@asynccontextmanager
async def listening(port: int, pages: int) -> AsyncIterator[list[Listener]]:
    """This many open pages of one user."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        await sign_in(client)
        cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    listeners = [Listener() for _ in range(pages)]
    tasks = [asyncio.create_task(each.read(port, cookie)) for each in listeners]
    try:
        yield listeners
    finally:
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(ended, asyncio.CancelledError), ended


async def paced(producer: AIOKafkaProducer, log: BusyLog, seconds: int) -> dict[int, float]:
    """Write at the rate; when each record was handed over."""
    sent: dict[int, float] = {}
    records = log.go_on()
    began = time.perf_counter()
    for cycle in range(RATE * seconds // BATCH):
        log.now = time.time_ns() // 1000
        wires = list(itertools.islice(records, BATCH))
        now = time.perf_counter()
        for receipt in [await _send(producer, wire) for wire in wires]:
            await receipt
        sent.update({log.state.seq - n: now for n in range(BATCH)})
        await asyncio.sleep(max(0.0, began + (cycle + 1) * BATCH / RATE - time.perf_counter()))
    return sent


def hour_of(run: Run) -> int:
    """This many records represent an hour: each third one, so that the bench is short; their times are an hour's."""
    return RATE * (60 if run.quick else 3600) // THIRD


def hour_text(run: Run) -> str:
    """What that is."""
    return f"{'a minute' if run.quick else 'an hour'} of the log's time in {hour_of(run):,} records"


def hour_long(log: BusyLog, records: int) -> Iterator[Wire]:
    """The next records of it."""
    for wire in itertools.islice(log.go_on(), records):
        yield wire
        log.now += THIRD * 1_000_000 // RATE


async def _read(producer: AIOKafkaProducer, log: BusyLog, console: ConsoleProcess, records: int) -> float:
    """So much of an hour, as fast as it is written and read, with one page open; seconds."""
    began = time.perf_counter()
    async with listening(console.port, 1) as (page,):
        await until(lambda: page.snapshots > 0)
        await write(producer, hour_long(log, records))
        await until(lambda: page.seq >= log.state.seq, 600)
    return time.perf_counter() - began


async def write(producer: AIOKafkaProducer, wires: Iterator[Wire]) -> None:
    receipts = []
    for wire in wires:
        receipts.append(await _send(producer, wire))
        if len(receipts) >= 2000:
            await receipts[-1]
            receipts.clear()
    if receipts:
        await receipts[-1]


async def _send(producer: AIOKafkaProducer, wire: Wire) -> "asyncio.Future[object]":
    headers = list(wire.headers)
    sent: asyncio.Future[object] = await producer.send(
        topics.AUDIT.name, wire.value, key=POOL.encode(), headers=headers, partition=0
    )
    return sent


async def until(condition: object, seconds: float = 120) -> None:
    assert callable(condition)
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - it is other processes that make it so
            await asyncio.sleep(0.01)
