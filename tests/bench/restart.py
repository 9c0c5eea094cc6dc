"""How long admission takes to be ready again: on a short log, on a long one, and on a long one with its snapshot.

A million records: `python -m tests.bench restart --records 1000000`.
"""

import asyncio
import gc
import time
from collections.abc import Iterator
from itertools import islice

from aiokafka import AIOKafkaProducer

from bailiff_bus import topics
from bailiff_core.records import Wire
from bailiff_devstack.stack import Plan, Stack

from .synthetic import plain_log
from .system import cpu_seconds, megabytes
from .table import Row, Run

SERVICE = "admission"
SHORT = 100  # records: on an empty log the service is not ready, for there is no pool yet
BATCH_BYTES = 1 << 19


def measure(run: Run) -> list[Row]:
    """The log is synthetic; the service, its process and the Kafka are real."""
    wires = plain_log(run.records)
    stack = Stack(run.folder, Plan())
    stack.folder.mkdir(parents=True, exist_ok=True)
    try:
        stack.start_kafka()
        written = asyncio.run(write_log(stack, islice(wires, SHORT)))
        run.say(f"making a log of {run.records:,} records")
        began = time.process_time()
        gc.disable()
        written += asyncio.run(write_log(stack, wires))
        gc.enable()
        run.say(f"made in {time.process_time() - began:.0f} processor seconds; folding it from the start")
        cold, cold_cpu = _ready(run, stack)
        warm, warm_cpu = _ready(run, stack)
    finally:
        stack.close()
    run.say(f"processor seconds: {cold_cpu:.1f} without a snapshot, {warm_cpu:.1f} with one")
    what = f"restart of {SERVICE} until ready, {written:,} records"
    detail = {"records": written, "cpu_s": {"cold": cold_cpu, "warm": warm_cpu}}
    return [
        Row(f"{what}, no snapshot", cold, "s", "≤ 20 s at 1,000,000", cold_cpu, "s of processor time", detail),
        Row(f"{what}, local snapshot", warm, "s", "≤ 2 s", warm_cpu, "s of processor time", detail),
    ]


def _ready(run: Run, stack: Stack) -> tuple[float, float]:
    """Seconds from the start of the process until it says that it is ready, and of the processor; then it is stopped."""
    began = time.perf_counter()
    stack.start_service(SERVICE)
    stack.processes.wait_ready(SERVICE, timeout_s=450)
    seconds, used = time.perf_counter() - began, cpu_seconds(stack)[SERVICE]
    run.say(f"ready after {seconds:.1f} s, {used:.1f} of the processor, {megabytes(stack)[SERVICE]:.0f} MB")
    stack.processes.stop(SERVICE)
    return seconds, used


async def write_log(stack: Stack, wires: Iterator[Wire]) -> int:
    """Append them in whole batches, which is how a million can be made at all. Returns how many."""
    producer = AIOKafkaProducer(bootstrap_servers=stack.kafka.bootstrap, max_batch_size=BATCH_BYTES, acks="all")
    await producer.start()
    written = 0
    try:
        batch = producer.create_batch()
        for wire in wires:
            written += 1
            if batch.append(key=None, value=wire.value, timestamp=None, headers=list(wire.headers)) is None:
                await producer.send_batch(batch, topics.AUDIT.name, partition=0)
                batch = producer.create_batch()
                batch.append(key=None, value=wire.value, timestamp=None, headers=list(wire.headers))
        await (await producer.send_batch(batch, topics.AUDIT.name, partition=0))
    finally:
        await producer.stop()
    return written
