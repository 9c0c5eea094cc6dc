"""What is submitted: jobs of Microsoft's Philly trace, twenty times as fast as they came, and a probe every few seconds."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

from bailiff.client.client import Client
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records.job_requests import SubmitJob
from bailiff_sim.traces.catalogue import trace
from bailiff_sim.traces.jobs import TraceJob

POOL = "pool-a"
SPEED = 20
FIRST_HOUR = 820
"""Hours into the trace. About 70 jobs come in each of the next forty, up to 400 in one of them."""
GPUS_PER_NODE, NODES = 8, 12
LONGEST_S = 2 * 3600
"""Longer jobs of the trace end after so many of its seconds, so that the load is the same at the end as after an hour."""
SERVING_ONE_OF = 10
"""Philly has no priorities: one job of so many is `inference` and preempts, the others are `train`."""


@dataclass(frozen=True)
class Arrival:
    """A job that is submitted `at` seconds after the start, and sleeps for `run_s` seconds."""

    at: float
    run_s: float
    demand: JobDemand

    async def submit(self, client: Client) -> None:
        """Publish it. Sent again, it is the same request. Raises `BusUnavailable`."""
        body = SubmitJob(demand=self.demand, spec=JobSpec(command=("sleep", f"{self.run_s:.2f}")))
        await client.request(POOL, body, id=self.demand.job)


def arrivals(seconds: float) -> Iterator[Arrival]:
    """The jobs of so many seconds, in order. Jobs that need more GPUs than the nodes have are left out."""
    jobs = sorted(trace("philly-2017").jobs, key=lambda job: job.submitted)
    began = jobs[0].submitted + FIRST_HOUR * 3_600_000_000
    for job in jobs:
        at = (job.submitted - began) / 1_000_000 / SPEED
        if 0 <= at < seconds and 0 < job.gpus <= NODES * GPUS_PER_NODE:
            yield Arrival(at, min(job.run_time / 1_000_000, LONGEST_S) / SPEED, _demand(job))


def _demand(job: TraceJob) -> JobDemand:
    tasks = math.ceil(job.gpus / GPUS_PER_NODE)
    group = TaskGroup(count=tasks, gpu_milli=math.ceil(job.gpus / tasks) * 1000, cpu_milli=10, memory_bytes=1 << 26)
    serving = crc32(job.name.encode()) % SERVING_ONE_OF == 0
    return JobDemand(job=job.name, tasks=(group,), priority_class="inference" if serving else "train", grace=5_000_000)


def probe(number: int, at: float) -> Arrival:
    """A job without GPUs, which can always be placed."""
    group = TaskGroup(gpu_milli=0, cpu_milli=10, memory_bytes=1 << 26)
    return Arrival(at, 0.0, JobDemand(job=f"probe-{number}", tasks=(group,), priority_class="train"))
