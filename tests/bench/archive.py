"""The auditor catching up: a log that lies in Kafka, into PostgreSQL; beside it COPY of the same bytes into a bare table."""

import asyncio
import time
from contextlib import suppress

import asyncpg
import psutil

from bailiff_bus import topics
from bailiff_bus.kafka import KafkaBus
from bailiff_core.records import Wire
from bailiff_devstack.stack import Plan, Stack
from bailiff_log.archive import pack_headers

from .synthetic import plain_log
from .table import Row, Run

SLICE = 500
PAGE = 2_000


def measure(run: Run) -> list[Row]:
    """Every figure in records per second: on the clock, and per second of the auditor's own processor time."""
    wires = list(plain_log(20_000 if run.quick else 200_000))
    stack = Stack(run.folder, Plan(), progress=run.say)
    try:
        stack.start_kafka()
        stack.postgres.start()
        asyncio.run(_append(stack.kafka.bootstrap, wires))
        run.say(f"{len(wires):,} records lie in Kafka")
        baseline = asyncio.run(_bare(stack.postgres.dsn, wires))
        stack.start_service("auditor")
        pid = stack.processes.pid("auditor")
        seconds, processor, database = asyncio.run(_caught_up(stack.postgres.dsn, pid, len(wires)))
    finally:
        stack.close()
    run.say(
        f"from the first archived batch to the last: {seconds:.1f} s; processor time: auditor {processor:.1f} s, "
        f"PostgreSQL {database:.1f} s"
    )
    what = f"records archived, catching up {len(wires):,}, Kafka to PostgreSQL"
    bare = {"baseline": baseline, "baseline_is": "COPY of the same bytes into a table without anything else"}
    return [
        Row(what, len(wires) / seconds, "/s", target="≥ 20,000 /s", **bare),
        Row(f"{what}, per second of the auditor's processor time", len(wires) / processor, "/s"),
        Row(f"{what}, per second of PostgreSQL's processor time", len(wires) / database, "/s"),
    ]


async def _append(bootstrap: str, wires: list[Wire]) -> None:
    bus = KafkaBus(bootstrap)
    try:
        producer = await bus.producer()
        for begin in range(0, len(wires), SLICE):
            sent = [
                await producer.send(topics.AUDIT.name, wire.value, key=b"pool-a", headers=wire.headers, partition=0)
                for wire in wires[begin : begin + SLICE]
            ]
            await asyncio.gather(*sent)
    finally:
        await bus.close()


async def _bare(dsn: str, wires: list[Wire]) -> float:
    """The same bytes, with a key, in batches of the same size, each a transaction."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("CREATE TABLE bare (seq bigint PRIMARY KEY, key bytea, headers bytea, value bytea)")
        rows = [(seq, b"pool-a", pack_headers(wire.headers), wire.value) for seq, wire in enumerate(wires)]
        began = time.perf_counter()
        for begin in range(0, len(rows), PAGE):
            await connection.copy_records_to_table("bare", records=rows[begin : begin + PAGE])
        taken = time.perf_counter() - began
        await connection.execute("DROP TABLE bare")
        return len(rows) / taken
    finally:
        await connection.close()


async def _caught_up(dsn: str, pid: int, records: int) -> tuple[float, float, float]:
    """Seconds, and processor seconds of the auditor and of PostgreSQL, from when there are tables to when all of it is there."""
    connection = await asyncpg.connect(dsn)
    try:
        while not await connection.fetchval("SELECT to_regclass('usage_over_time') IS NOT NULL"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # another process makes them
        began, processor, database = time.perf_counter(), _processor_time(pid), await _of_postgres(connection)
        while (await connection.fetchval("SELECT coalesce(max(next_seq), 0) FROM pools")) < records:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        seconds = time.perf_counter() - began
        return seconds, _processor_time(pid) - processor, await _of_postgres(connection) - database
    finally:
        await connection.close()


async def _of_postgres(connection: asyncpg.Connection) -> float:
    """Of all its processes."""
    found = psutil.Process(await connection.fetchval("SELECT pg_backend_pid()")).parent()
    assert found is not None
    return _processor_time(found.pid)


def _processor_time(pid: int) -> float:
    """Of the process, of its children that have ended, and of those that live."""
    process = psutil.Process(pid)
    living = 0.0
    for child in process.children():
        with suppress(psutil.NoSuchProcess):
            living += sum(child.cpu_times()[:2])
    return sum(process.cpu_times()[:4]) + living
