"""How long a service takes to be ready again: on a short log, on a long one, and on a long one with its snapshot.

A million records: `python -m tests.bench restart --records 1000000`.
"""

import asyncio
import time

from bailiff_bus import topics
from bailiff_bus.kafka import KafkaBus
from bailiff_devstack.stack import Plan, Stack

from .synthetic import plain_log
from .table import Row, Run

SERVICE = "victim-selection"
SHORT = 100  # records: on an empty log the service is not ready, for there is no domain yet


def measure(run: Run) -> list[Row]:
    """The log is synthetic; the service, its process and the Kafka are real."""
    run.say(f"making a log of {run.records:,} records")
    wires = list(plain_log(run.records))
    stack = Stack(run.folder, Plan())
    stack.folder.mkdir(parents=True, exist_ok=True)
    try:
        stack.start_kafka()
        asyncio.run(_write(stack, wires[:SHORT]))
        short = _ready(stack)
        asyncio.run(_write(stack, wires[SHORT:]))
        run.say("folding it from the start")
        cold = _ready(stack)
        warm = _ready(stack)
    finally:
        stack.stop()
    what, size = f"restart until ready, {len(wires):,} records", sum(len(wire.value) for wire in wires)
    detail = {"records": len(wires), "value_bytes": size}
    return [
        Row(f"{what}, no snapshot", cold, "s", "≤ 30 s at 1,000,000", short, f"s: on {SHORT} records", detail),
        Row(f"{what}, local snapshot", warm, "s", "≤ 2 s", short, f"s: on {SHORT} records", detail),
    ]


def _ready(stack: Stack) -> float:
    """Seconds from the start of the process until it says that it is ready; then it is stopped."""
    began = time.perf_counter()
    stack.start_service(SERVICE)
    stack.processes.wait_ready(SERVICE, timeout_s=300)
    seconds = time.perf_counter() - began
    stack.processes.stop(SERVICE)
    return seconds


async def _write(stack: Stack, wires: list) -> None:
    bus = KafkaBus(stack.kafka.bootstrap)
    producer = await bus.producer()
    try:
        for at in range(0, len(wires), 500):
            sent = [
                await producer.send(topics.AUDIT.name, wire.value, headers=wire.headers, partition=0)
                for wire in wires[at : at + 500]
            ]
            for acknowledgement in sent:
                await acknowledgement
    finally:
        await producer.close()
        await bus.close()
