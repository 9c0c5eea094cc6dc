"""Four pools on four replicas of admission against one pool on one, through a real Kafka: placements per second.

What limits them shows in the processor time of each process: all of them together cannot use more than the cores.
"""

import asyncio
import os
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from aiokafka import ConsumerRecord

from bailiff_bus import topics
from bailiff_devstack.stack import Plan, Stack

from .requests import submit_message
from .system import cpu_seconds, header, publishing, spent, watching
from .table import Row, Run

POOLS = 4


def measure(run: Run) -> list[Row]:
    """The jobs of `placements`, the same number on each pool."""
    count = 200 if run.quick else 1000
    one, four = (_stack(run, pools, count) for pools in (1, POOLS))
    many = f"{POOLS} pools, {POOLS} replicas, {count} jobs on each"
    return [
        Row(f"placements per second, 1 pool, 1 replica, {count} jobs", one.rate, "/s", detail=one.detail),
        Row(f"placements per second, {many}", four.rate, "/s", "-", one.rate, "/s: one pool on one replica", four.detail),
        Row(
            f"processor time of a placement, all processes, {many}",
            four.cpu_ms,
            "ms",
            baseline=one.cpu_ms,
            baseline_is="ms: one pool on one replica",
        ),
        Row(f"of the machine's cores these processes used, {many}", four.busy, "%", "-", one.busy, "%: one pool on one replica"),
    ]


@dataclass(frozen=True)
class Found:
    """Placements per second, and what they took: ms of processor time each, and percent of all cores meanwhile."""

    rate: float
    cpu_ms: float
    busy: float
    detail: dict[str, Any]


def _stack(run: Run, pools: int, count: int) -> Found:
    names = [f"pool-{number}" for number in range(pools)]
    nodes = [{"name": f"node-{name}", "pool": name, "gpus": "8xH100-80GB", "count": 8} for name in names]
    plan = Plan(pools=names, nodes=nodes, env={"BAILIFF_DURABLE": "false"})
    with Stack(run.folder / f"pools-{pools}", plan) as stack:
        for number in range(1, pools):
            stack.start_service("admission", replica=f"-{number}")
        stack.processes.wait_ready(timeout_s=120)
        return asyncio.run(_measure(run, stack, names, count))


async def _measure(run: Run, stack: Stack, names: list[str], count: int) -> Found:
    """Of the placements on all pools together, once each pool has a writer that answers."""
    kafka = stack.kafka.bootstrap
    sources: dict[str, str] = {}
    placed: Counter[str] = Counter()

    def audited(kind: str, record: ConsumerRecord) -> None:
        pool = header(record, "ce_pool")
        sources[pool] = header(record, "ce_source")
        placed[pool] += kind == "bailiff.audit.JobPlaced.v1"

    async with watching(kafka, topics.AUDIT.name, on=audited) as audit, publishing(kafka) as producer:

        async def submit(jobs: str, times: int) -> None:
            for n in range(times):
                for name in names:
                    headers, value = submit_message(name, f"{jobs}-{n}", gpus=0)
                    await producer.send(topics.REQUESTS.name, value, key=name.encode(), headers=list(headers))

        await submit("first", 1)
        await audit.until("every pool places", lambda: all(placed[name] >= 1 for name in names))
        cpu, own, began = cpu_seconds(stack), time.process_time(), time.perf_counter()
        await submit("job", count)
        await audit.until("all are placed", lambda: all(placed[name] > count for name in names))
        seconds, used = time.perf_counter() - began, spent(cpu, cpu_seconds(stack))
    used["this bench"] = round(time.process_time() - own, 2)
    run.say(f"{len(names)} pools, {len(set(sources.values()))} writers, {seconds:.1f} s; processor seconds: {used}")
    jobs, total = len(names) * count, sum(used.values())
    busy = 100 * total / seconds / (os.cpu_count() or 1)
    return Found(jobs / seconds, 1000 * total / jobs, busy, {"seconds": seconds, "cpu_s": used})
