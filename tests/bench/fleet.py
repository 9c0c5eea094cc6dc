"""4,000 one-GPU jobs onto 500 simulated nodes of 8 GPUs, through a real Kafka, until all run.

Then 6,000 more, which wait, and each service's memory.
"""

import asyncio
import time

from bailiff_bus import topics
from bailiff_devstack.stack import Plan, Stack

from .requests import submit_message
from .system import all_joined, cpu_seconds, megabytes, publishing, spent, watching
from .table import Row, Run

POOL = "pool-a"


def measure(run: Run) -> list[Row]:
    """One agent process speaks for all nodes; nothing is kept on disk by it."""
    nodes = 50 if run.quick else 500
    declared = [{"name": "node", "pool": POOL, "gpus": "8xH100-80GB", "count": nodes}]
    with Stack(run.folder, Plan(nodes=declared, env={"BAILIFF_DURABLE": "false"})) as stack:
        return asyncio.run(_measure(run, stack, nodes))


async def _measure(run: Run, stack: Stack, nodes: int) -> list[Row]:
    jobs, kafka = nodes * 8, stack.kafka.bootstrap
    everything = jobs * 5 // 2
    requests = [submit_message(POOL, f"job-{n}") for n in range(everything)]
    async with watching(kafka, topics.AUDIT.name) as audit, publishing(kafka) as producer:
        await all_joined(stack, POOL, nodes)
        cpu, began = cpu_seconds(stack), time.perf_counter()
        for headers, value in requests[:jobs]:
            await producer.send(topics.REQUESTS.name, value, key=POOL.encode(), headers=list(headers))
        await audit.until("all are submitted", lambda: audit.seen["JobSubmitted"] >= jobs)
        submitted = time.perf_counter() - began
        await audit.until("all are placed", lambda: audit.seen["JobPlaced"] >= jobs)
        placed = time.perf_counter() - began
        await audit.until("all run", lambda: audit.seen["TaskStarted"] >= jobs)
        seconds, used = time.perf_counter() - began, spent(cpu, cpu_seconds(stack))
        for headers, value in requests[jobs:]:
            await producer.send(topics.REQUESTS.name, value, key=POOL.encode(), headers=list(headers))
        await audit.until("the others wait", lambda: audit.seen["JobSubmitted"] >= everything)
        memory = megabytes(stack)
    run.say(f"last submitted {submitted:.1f} s, last placed {placed:.1f} s; processor seconds: {used}")
    detail = {"submitted_s": submitted, "placed_s": placed, "cpu_s": used}
    what = f"{jobs:,} one-GPU jobs onto {nodes} nodes, through Kafka, until all run"
    return [
        Row(what, seconds, "s", "≤ 10 s" if nodes == 500 else "-", detail=detail),
        *(
            Row(f"memory of {name}, {nodes} nodes, {everything:,} jobs", value, "MB", "≤ 300 MB")
            for name, value in sorted(memory.items())
        ),
    ]
