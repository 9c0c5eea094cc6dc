"""Placements per second through a real Kafka, one pool, sustained: thousands of small jobs, all published beforehand.

The rate is that of the middle: from the tenth part of the jobs placed to nine tenths, by the broker's append times, so that
neither how the services wake up nor how the last few end counts. Every job is started on its node meanwhile.
"""

import asyncio

from aiokafka import ConsumerRecord

from bailiff_bus import topics
from bailiff_devstack.stack import Plan, Stack

from .requests import submit_message
from .system import all_joined, cpu_seconds, publishing, raw_produce_and_consume, spent, watching
from .table import Row, Run

POOL = "pool-a"
NODES = 32


def measure(run: Run) -> list[Row]:
    """Jobs without GPUs, so that the pool's size does not count."""
    count = 1000 if run.quick else 4000
    nodes = [{"name": "node", "pool": POOL, "gpus": "8xH100-80GB", "count": NODES}]
    with Stack(run.folder, Plan(nodes=nodes, env={"BAILIFF_DURABLE": "false"})) as stack:
        return asyncio.run(_measure(run, stack, count))


async def _measure(run: Run, stack: Stack, count: int) -> list[Row]:
    kafka = stack.kafka.bootstrap
    requests = [submit_message(POOL, f"job-{n}", gpus=0) for n in range(count)]
    placed: list[int] = []  # the broker's time of each placement, ms

    def audited(kind: str, record: ConsumerRecord) -> None:
        if kind == "bailiff.audit.JobPlaced.v1":
            placed.append(record.timestamp)

    async with watching(kafka, topics.AUDIT.name, keep=True, on=audited) as audit, publishing(kafka) as producer:
        await all_joined(stack, POOL, NODES)
        audit.records.clear()
        cpu = cpu_seconds(stack)
        for headers, value in requests:
            await producer.send(topics.REQUESTS.name, value, key=POOL.encode(), headers=list(headers))
        await audit.until("all are placed", lambda: audit.seen["JobPlaced"] >= count)
        await audit.until("all run", lambda: audit.seen["TaskStarted"] >= count)
        used, records = spent(cpu, cpu_seconds(stack)), list(audit.records)
    until_running = (records[-1].timestamp - records[0].timestamp) / 1000
    tenth = count // 10
    rate = (count - 2 * tenth) / max(0.001, (placed[-tenth] - placed[tenth]) / 1000)
    raw = await raw_produce_and_consume(kafka, records, "bench-raw")
    run.say(f"all run {until_running:.1f} s after the first record; processor seconds: {used}")
    run.say(f"processor µs for one job: { ({name: round(value / count * 1e6) for name, value in used.items()}) }")
    return [
        Row(
            f"placements per second through Kafka, one pool, the middle of {count:,} jobs",
            rate,
            "/s",
            target="≥ 1,500 /s",
            baseline=count / raw,
            baseline_is=f"/s: the same {len(records)} audit records raw, produced and consumed",
            detail={"until_running_s": until_running, "cpu_s": used, "audit_records": len(records)},
        )
    ]
