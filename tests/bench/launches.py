"""Processes launched per second by one agent, all services on a real Kafka: jobs without GPUs, published at once.

The rate is that of the middle: from the tenth part of the jobs started to nine tenths, by the broker's times of the reports.
"""

import asyncio
import time
import uuid

from aiokafka import ConsumerRecord

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.port import Headers
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records.job_requests import SubmitJob
from bailiff_devstack.stack import Plan, Stack

from .system import all_joined, cpu_seconds, publishing, spent, watching
from .table import Row, Run
from .weight import raw_starts

POOL = "pool-a"


def measure(run: Run) -> list[Row]:
    """Two runs: with 400 jobs, and with 1,000 (short form: 100 jobs)."""
    return [row for jobs in ((100,) if run.quick else (400, 1000)) for row in _with(run, jobs)]


def _with(run: Run, jobs: int) -> list[Row]:
    nodes = [{"name": "node-1", "pool": POOL, "gpus": "8xH100-80GB", "cpu_milli": 100 * jobs, "max_tasks": jobs}]
    with Stack(run.folder / f"{jobs}-jobs", Plan(nodes=nodes)) as stack:
        return asyncio.run(_measure(run, stack, jobs))


async def _measure(run: Run, stack: Stack, jobs: int) -> list[Row]:
    kafka, started = stack.kafka.bootstrap, list[int]()  # the broker's time of each report, ms

    def on_report(kind: str, record: ConsumerRecord) -> None:
        if kind == "bailiff.TaskStartedReport.v1":
            started.append(record.timestamp)

    raw = raw_starts(min(jobs, 200))
    async with watching(kafka, topics.NODE_REPORTS.name, on=on_report) as reports, publishing(kafka) as producer:
        await all_joined(stack, POOL, 1)
        cpu = cpu_seconds(stack)
        for number in range(jobs):
            headers, value = _submit(f"job-{number}")
            await producer.send(topics.REQUESTS.name, value, key=POOL.encode(), headers=list(headers))
        await reports.until("all run", lambda: len(started) >= jobs)
        used = spent(cpu, cpu_seconds(stack))
    tenth = jobs // 10
    rate = (jobs - 2 * tenth) / max(0.001, (started[-tenth] - started[tenth]) / 1000)
    run.say(f"processor ms for one job: { ({name: round(value / jobs * 1e3, 1) for name, value in used.items()}) }")
    return [
        Row(
            f"processes launched per second by one agent, the middle of {jobs:,} jobs",
            rate,
            "/s",
            "≥ 60 /s",
            raw,
            "/s: subprocess.Popen",
            {"cpu_s": used},
        )
    ]


def _submit(job: str) -> tuple[Headers, bytes]:
    demand = JobDemand(job=job, tasks=(TaskGroup(cpu_milli=100, memory_bytes=1 << 20),), priority_class="train")
    body = SubmitJob(demand=demand, spec=JobSpec(command=("sleep", "600"), runtime="process"))
    return wrap(body, source="/bench", id=uuid.uuid4().hex, pool=POOL, time_us=time.time_ns() // 1000)
