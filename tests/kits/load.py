"""Load on a running system: jobs that fill its pool, and urgent ones that preempt them, one after the other."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from tests.kits.system import System, Watch

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.port import BusUnavailable
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records.decisions import PreemptionDecided
from bailiff_core.records.job_requests import SubmitJob

EVERY_S = 0.5
GIB = 1 << 30


@dataclass
class Load:
    """acknowledged: the jobs that were submitted. refused: set while Kafka acknowledges no more."""

    acknowledged: list[str] = field(default_factory=list)
    refused: asyncio.Event = field(default_factory=asyncio.Event)


@contextlib.asynccontextmanager
async def load(system: System, pool: str, name: str, gpus: int = 8) -> AsyncIterator[Load]:
    """So many jobs of one GPU each that never end, and all the while urgent ones that take half of the GPUs for a moment."""
    given = Load()
    task = asyncio.create_task(_submit(system, pool, name, gpus, given))
    try:
        yield given
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _submit(system: System, pool: str, name: str, gpus: int, given: Load) -> None:
    wanted = [(f"{name}-{number}", 1, "train", "exec sleep 3600") for number in range(gpus)]
    while True:
        bus = KafkaBus(system.stack.kafka.settings("operator"))
        try:
            producer = await bus.producer()
            while True:
                for job, size, kind, command in [*wanted]:
                    group = TaskGroup(gpu_milli=size * 1000, cpu_milli=100, memory_bytes=GIB // 16)
                    demand = JobDemand(job=job, tasks=(group,), priority_class=kind, grace=5_000_000)
                    body = SubmitJob(demand=demand, spec=JobSpec(command=command))
                    headers, value = wrap(body, source="/load", id=job, pool=pool, time_us=time.time_ns() // 1000)
                    await (await producer.send(topics.REQUESTS.name, value, key=pool.encode(), headers=headers))
                    given.acknowledged.append(job)
                    given.refused.clear()
                    wanted.remove((job, size, kind, command))
                await asyncio.sleep(EVERY_S)
                wanted = [(f"{name}-urgent-{len(given.acknowledged)}", gpus // 2, "inference", "exec sleep 0.2")]
        except BusUnavailable:
            given.refused.set()
        finally:
            await bus.close()
        await asyncio.sleep(EVERY_S)


async def preempted(pool: Watch) -> None:
    """Wait until one more preemption is decided, and one more urgent job of the load has ended."""
    decided, ended = len(pool.facts(PreemptionDecided)), _urgent(pool)
    await pool.until("a preemption is decided", lambda _: len(pool.facts(PreemptionDecided)) > decided)
    await pool.until("an urgent job has ended", lambda _: not _urgent(pool) <= ended)


def _urgent(pool: Watch) -> set[str]:
    return {name for name, job in pool.state.jobs.items() if "-urgent-" in name and job.phase == "succeeded"}
