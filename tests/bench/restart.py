"""How long a service takes to be ready again: on a short log, on a long one, and on a long one with its snapshot.

A million records: `python -m tests.bench restart --records 1000000`.
"""

import asyncio
import time
from collections.abc import Iterator
from itertools import islice

from bailiff_bus import topics
from bailiff_bus.kafka import KafkaBus
from bailiff_core.records import Wire
from bailiff_devstack.stack import Plan, Stack

from .synthetic import plain_log
from .system import cpu_seconds
from .table import Row, Run

SERVICE = "victim-selection"
SHORT = 100  # records: on an empty log the service is not ready, for there is no domain yet


def measure(run: Run) -> list[Row]:
    """The log is synthetic; the service, its process and the Kafka are real."""
    wires = plain_log(run.records)
    stack = Stack(run.folder, Plan())
    stack.folder.mkdir(parents=True, exist_ok=True)
    try:
        stack.start_kafka()
        written = asyncio.run(_write(stack, islice(wires, SHORT)))
        short, _ = _ready(stack)
        run.say(f"making a log of {run.records:,} records")
        written += asyncio.run(_write(stack, wires))
        run.say("folding it from the start")
        cold, cold_cpu = _ready(stack)
        warm, warm_cpu = _ready(stack)
    finally:
        stack.stop()
    run.say(f"processor seconds: {cold_cpu:.1f} without a snapshot, {warm_cpu:.1f} with one")
    what = f"restart until ready, {written:,} records"
    detail = {"records": written, "cpu_s": {"cold": cold_cpu, "warm": warm_cpu}}
    return [
        Row(f"{what}, no snapshot", cold, "s", "≤ 30 s at 1,000,000", short, f"s: on {SHORT} records", detail),
        Row(f"{what}, local snapshot", warm, "s", "≤ 2 s", short, f"s: on {SHORT} records", detail),
    ]


def _ready(stack: Stack) -> tuple[float, float]:
    """Seconds from the start of the process until it says that it is ready, and of the processor; then it is stopped."""
    began = time.perf_counter()
    stack.start_service(SERVICE)
    stack.processes.wait_ready(SERVICE, timeout_s=300)
    seconds, used = time.perf_counter() - began, cpu_seconds(stack)[SERVICE]
    stack.processes.stop(SERVICE)
    return seconds, used


async def _write(stack: Stack, wires: Iterator[Wire]) -> int:
    """Append them, some hundreds at a time: a million at once would fill the memory. Returns how many."""
    bus = KafkaBus(stack.kafka.bootstrap)
    producer, written = await bus.producer(), 0
    try:
        while chunk := list(islice(wires, 2_000)):
            sent = [await producer.send(topics.AUDIT.name, wire.value, headers=wire.headers, partition=0) for wire in chunk]
            for acknowledgement in sent:
                await acknowledgement
            written += len(chunk)
    finally:
        await producer.close()
        await bus.close()
    return written
