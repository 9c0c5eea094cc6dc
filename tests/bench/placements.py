"""Placements per second through a real Kafka, one domain: small jobs published as fast as the broker takes them."""

import asyncio
import time

from bailiff_bus import topics
from bailiff_devstack.stack import Plan, Stack

from .requests import submit_message
from .system import cpu_seconds, publishing, raw_produce_and_consume, spent, watching
from .table import Row, Run

DOMAIN = "pool-a"


def measure(run: Run) -> list[Row]:
    """Jobs without GPUs on eight nodes, so that the pool's size does not count."""
    count = 300 if run.quick else 2000
    nodes = [{"name": "node", "domain": DOMAIN, "gpus": "8xH100-80GB", "count": 8}]
    with Stack(run.folder, Plan(nodes=nodes, env={"BAILIFF_DURABLE": "false"})) as stack:
        return asyncio.run(_measure(run, stack, count))


async def _measure(run: Run, stack: Stack, count: int) -> list[Row]:
    kafka = stack.kafka.bootstrap
    requests = [submit_message(DOMAIN, f"job-{n}", gpus=0) for n in range(count)]
    async with watching(kafka, topics.AUDIT.name, keep=True) as audit, publishing(kafka) as producer:
        cpu, began = cpu_seconds(stack), time.perf_counter()
        for headers, value in requests:
            await producer.send(topics.REQUESTS.name, value, key=DOMAIN.encode(), headers=list(headers))
        await audit.until("all are placed", lambda: audit.seen["JobPlaced"] >= count)
        seconds = time.perf_counter() - began
        await audit.until("all run", lambda: audit.seen["TaskStarted"] >= count)
        until_running, used = time.perf_counter() - began, spent(cpu, cpu_seconds(stack))
        records = list(audit.records)
    raw = await raw_produce_and_consume(kafka, records, "bench-raw")
    run.say(f"all run after {until_running:.1f} s; processor seconds: {used}")
    return [
        Row(
            f"placements per second through Kafka, one domain, {count} jobs",
            count / seconds,
            "/s",
            target="≥ 1,000 /s",
            baseline=count / raw,
            baseline_is=f"/s: the same {len(records)} audit records raw, produced and consumed",
            detail={"seconds": seconds, "until_running_s": until_running, "cpu_s": used, "audit_records": len(records)},
        )
    ]
