"""Preemptions per second through a real Kafka, one pool: a full pool, and urgent jobs published all at once."""

import asyncio
import time

from bailiff_bus import topics
from bailiff_devstack.stack import Plan, Stack

from .requests import submit_message
from .system import cpu_seconds, publishing, raw_produce_and_consume, spent, watching
from .table import Row, Run

POOL = "pool-a"


def measure(run: Run) -> list[Row]:
    """As many urgent jobs of one GPU as there are victims of one GPU."""
    nodes = 8 if run.quick else 32
    declared = [{"name": "node", "pool": POOL, "gpus": "8xH100-80GB", "count": nodes}]
    with Stack(run.folder, Plan(nodes=declared, env={"BAILIFF_DURABLE": "false"})) as stack:
        return asyncio.run(_measure(run, stack, 8 * nodes))


async def _measure(run: Run, stack: Stack, count: int) -> list[Row]:
    kafka = stack.kafka.bootstrap
    async with watching(kafka, topics.AUDIT.name, keep=True) as audit, publishing(kafka) as producer:

        async def submit(jobs: str, priority_class: str) -> None:
            for n in range(count):
                headers, value = submit_message(POOL, f"{jobs}-{n}", priority_class=priority_class)
                await producer.send(topics.REQUESTS.name, value, key=POOL.encode(), headers=list(headers))

        await submit("train", "train")
        await audit.until("all training runs", lambda: audit.seen["TaskStarted"] >= count)
        audit.records.clear()
        cpu, began = cpu_seconds(stack), time.perf_counter()
        await submit("urgent", "inference")
        await audit.until("all victims are chosen", lambda: audit.seen["PreemptionDecided"] >= count)
        seconds = time.perf_counter() - began
        await audit.until("all urgent jobs run", lambda: audit.seen["TaskStarted"] >= 2 * count)
        until_running, used = time.perf_counter() - began, spent(cpu, cpu_seconds(stack))
        records, asked = list(audit.records), audit.seen["ProposalReceived"]
    raw = await raw_produce_and_consume(kafka, records, "bench-raw")
    run.say(f"{asked} proposals; all urgent jobs run after {until_running:.1f} s; processor seconds: {used}")
    return [
        Row(
            f"preemptions decided per second through Kafka, one pool, {count} at once",
            count / seconds,
            "/s",
            target="≥ 200 /s",
            baseline=count / raw,
            baseline_is=f"/s: the same {len(records)} audit records raw, produced and consumed",
            detail={"seconds": seconds, "until_running_s": until_running, "proposals": asked, "cpu_s": used},
        )
    ]
