"""Bytes on Kafka's disk: in the audit log per plain job and per preemption, and in all topics per idle hour, with all
services."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bailiff.client.client import Client
from bailiff_bus import topics
from bailiff_bus.kafka import KafkaBus
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_devstack.stack import Plan, Stack

from .running import POOL, Jobs, running
from .table import Row, Run

GPUS = 8
PLAIN, PREEMPTIONS, IDLE_S = 40, 8, 300


def measure(run: Run) -> list[Row]:
    """The eight services of `make up`, one node of eight simulated GPUs."""
    plan = Plan(
        nodes=[{"name": "node", "pool": POOL, "gpus": f"{GPUS}xH100-80GB"}], archive=True, api=True, rollup=True, console=True
    )
    with Stack(run.folder, plan) as stack:
        return asyncio.run(_measure(run, stack))


async def _measure(run: Run, stack: Stack) -> list[Row]:
    data, plain, preemptions, idle_s = stack.kafka.data_dir, PLAIN, PREEMPTIONS, IDLE_S
    if run.quick:
        plain, preemptions, idle_s = 8, 2, 60
    async with running(stack, run.folder / "jobs", 1) as jobs, Client(KafkaBus(stack.kafka.bootstrap), source="/bench") as client:
        await _plain_jobs(client, jobs, "warm-up", 1)
        run.say(f"{plain} plain jobs, {preemptions} preemptions")
        per_job = await _grown(data, jobs, lambda: _plain_jobs(client, jobs, "plain", plain))
        for number in range(GPUS):
            await _submit(client, f"train-{number}", "train", "sleep", "3600")
        for number in range(GPUS):
            await jobs.until(f"train-{number}", "TaskStarted", 1)
        preempted = await _grown(data, jobs, lambda: _preemptions(client, jobs, preemptions))
    run.say(f"idle for {idle_s} s")
    before, began = log_sizes(data), time.monotonic()
    await asyncio.sleep(idle_s)
    grown = {name: size - before.get(name, 0) for name, size in log_sizes(data).items()}
    hours = (time.monotonic() - began) / 3600
    run.say(f"bytes: { {name: size for name, size in grown.items() if size} }")
    idle = sum(grown.values()) / hours
    plainly = "kB: headers and values of the same records"
    return [
        _row("audit log on disk per plain job", per_job, plain, plainly),
        _row("audit log on disk per preemption: urgent job, eviction, return of the victim", preempted, preemptions, plainly),
        Row("all topics on disk per idle hour, 8 jobs running", idle / 1e6, "MB", target="≤ 0.3 MB", detail=grown),
    ]


def _row(what: str, grown: tuple[int, int], count: int, plainly: str) -> Row:
    on_disk, plain = (each / count / 1e3 for each in grown)
    return Row(what, on_disk, "kB", baseline=plain, baseline_is=plainly)


async def _plain_jobs(client: Client, jobs: Jobs, name: str, count: int) -> None:
    for number in range(count):
        await _submit(client, f"{name}-{number}", "train", "true")
        await jobs.until(f"{name}-{number}", "JobEnded", 1)


async def _preemptions(client: Client, jobs: Jobs, count: int) -> None:
    """Each urgent job evicts one, which starts again when the urgent one has ended."""
    for number in range(count):
        started = _starts(jobs)
        await _submit(client, f"urgent-{number}", "inference", "true")
        await jobs.until(f"urgent-{number}", "JobEnded", 1)
        await jobs.audit.until("the victim runs again", lambda started=started: _starts(jobs) > started)


def _starts(jobs: Jobs) -> int:
    return sum(len(of_job["TaskStarted"]) for job, of_job in jobs.at.items() if job.startswith("train-"))


async def _submit(client: Client, job: str, priority_class: str, *command: str) -> None:
    group = TaskGroup(gpu_milli=1000, cpu_milli=100, memory_bytes=1 << 28)
    demand = JobDemand(job=job, tasks=(group,), priority_class=priority_class, grace=5_000_000)
    await client.submit(demand, JobSpec(command=command), pool=POOL)


async def _grown(data: Path, jobs: Jobs, work: Callable[[], Awaitable[None]]) -> tuple[int, int]:
    """Bytes that the work adds to the audit log: on disk, and as headers and values."""
    before, plain = sum(log_sizes(data, topics.AUDIT.name).values()), jobs.bytes
    await work()
    return sum(log_sizes(data, topics.AUDIT.name).values()) - before, jobs.bytes - plain


def log_sizes(data: Path, topic: str = "") -> dict[str, int]:
    """Sizes of the partitions' logs, without the indices, which Kafka derives."""
    return {
        partition.name: sum(file.stat().st_size for file in partition.glob("*.log")) for partition in data.glob(f"{topic}*-*")
    }
