"""Latency that Bailiff adds to an eviction: from the decision to the notice, from the exit to the next use of the GPU."""

import asyncio
from statistics import median

from bailiff_core.records.job_requests import EvictJob
from bailiff_devstack.stack import Plan, Stack

from .running import POOL, Jobs, noted, running
from .system import cpu_seconds, raw_hops, spent
from .table import Row, Run, percentile

JOB = "victim"
SCRIPT = """
import json, os, sys, time
from bailiff_job import attach

job = attach(sys.argv[1] + "/checkpoints")
step = job.restore(lambda folder: None)
while not job.should_checkpoint(step):  # a step of half a millisecond
    time.sleep(0.0005)
    step += 1
told = time.time()
job.checkpoint(step, lambda folder: None)
assert job.preempted
with open(sys.argv[1] + "/noted", "a") as file:
    print(json.dumps({"attempt": int(os.environ["BAILIFF_ATTEMPT"]), "told": told, "left": time.time()}), file=file, flush=True)
    os._exit(85)
"""


def measure(run: Run) -> list[Row]:
    """One job on one GPU, evicted repeatedly on an idle system."""
    count = 10 if run.quick else 60
    nodes = [{"name": "node-1", "pool": POOL, "gpus": "1xH100-80GB"}]
    with Stack(run.folder, Plan(nodes=nodes)) as stack:
        return asyncio.run(_measure(run, stack, count))


async def _measure(run: Run, stack: Stack, count: int) -> list[Row]:
    to_it, from_it = [], []
    async with (
        running(stack, run.folder / "jobs", 1) as jobs,
        raw_hops(stack.kafka.bootstrap, 3, flushed=(1,)) as three,
        raw_hops(stack.kafka.bootstrap, 2, flushed=(1,)) as two,
    ):
        await jobs.submit(JOB, SCRIPT, str(jobs.folder))
        cpu = cpu_seconds(stack)
        for n in range(count):
            await jobs.until(JOB, "TaskResumed", n + 1)
            to_it.append(await three())
            from_it.append(await two())
            await jobs.ask(EvictJob(job=JOB, reason="bench"))
            await jobs.until(JOB, "TaskReleased", n + 1)
        await jobs.until(JOB, "TaskResumed", count + 1)
        used = spent(cpu, cpu_seconds(stack))
        notified, left, exited, back = _times(jobs)
    run.say(f"processor ms for one of them: { ({name: round(value / count * 1000, 1) for name, value in used.items()}) }")
    run.say(
        f"p50 from exit to its record: {median(exited) * 1000:.0f} ms, to the next attempt at work: {median(back) * 1000:.0f} ms"
    )
    rows = []
    for what, ours, hops, baseline in (
        ("eviction decided, on the log → the job has seen its notice", notified, to_it, "three raw hops, one flushed"),
        ("the job's process ends → its GPU is free, on the log", left, from_it, "two raw hops, one flushed"),
    ):
        for name, figure in (("p50", 50), ("p99", 99)):
            detail = {"ms": [each * 1000 for each in ours], "hops_ms": [each * 1000 for each in hops], "cpu_s": used}
            rows.append(
                Row(
                    f"{what}, {count} evictions, {name}",
                    percentile(ours, figure) * 1000,
                    "ms",
                    "-",
                    percentile(hops, figure) * 1000,
                    f"ms: {baseline}, {name}",
                    detail,
                )
            )
    return rows


def _times(jobs: Jobs) -> tuple[list[float], list[float], list[float], list[float]]:
    """Seconds from decision to notice; from exit to release, to its record, to the next attempt's word. The broker counts ms."""
    notes, of = noted(jobs.folder / "noted"), jobs.at[JOB]
    at = {kind: {data["attempt"]: when for when, data in of[kind]} for kind in of if kind.startswith(("Task", "EvictionD"))}
    notified = [note["told"] - at["EvictionDecided"][note["attempt"]] for note in notes]
    left, exited = ([at[kind][note["attempt"]] - note["left"] for note in notes] for kind in ("TaskReleased", "TaskExited"))
    return notified, left, exited, [at["TaskResumed"][note["attempt"] + 1] - note["left"] for note in notes]
