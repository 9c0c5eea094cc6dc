"""The pause that a job sees when it is moved to another node: from its last step there to its first step here."""

import asyncio
import hashlib
import os
import time
from pathlib import Path
from statistics import median

from bailiff_core.records.job_requests import CancelJob, MigrateJob
from bailiff_devstack.stack import Plan, Stack

from .running import POOL, Jobs, noted, running
from .table import Row, Run

MIB, TIMES = 1 << 20, 3
SCRIPT = """
import json, os, sys, time
from bailiff_job import attach

folder, mib = sys.argv[1], int(sys.argv[2])
state = None

def load(saved):
    global state
    state = (saved / "state").read_bytes()

job = attach()
start = job.restore(load)
state = state or os.urandom(1 << 20) * mib
assert len(state) == mib << 20
with open(folder + "/noted", "a", buffering=1) as notes:
    print(json.dumps({"begins": time.time()}), file=notes)
    for step in range(start, 1 << 40):
        time.sleep(0.01)
        done = time.time()
        if job.should_checkpoint(step):
            job.checkpoint(step, lambda saved: (saved / "state").write_bytes(state))
        if job.preempted:
            print(json.dumps({"done": done, "saved": time.time()}), file=notes)
            job.exit()
"""


def measure(run: Run) -> list[Row]:
    """A job of one GPU goes back and forth between two nodes, its checkpoints on the local disk."""
    nodes = [{"name": "node", "pool": POOL, "gpus": "1xH100-80GB", "count": 2}]
    with Stack(run.folder, Plan(nodes=nodes)) as stack:
        return asyncio.run(_measure(run, stack))


async def _measure(run: Run, stack: Stack) -> list[Row]:
    async with running(stack, run.folder / "jobs", 2) as jobs:
        return [await _moved(run, jobs, mib, TIMES) for mib in ([64] if run.quick else [256, 1024])]


async def _moved(run: Run, jobs: Jobs, mib: int, times: int) -> Row:
    job, folder = f"moves-{mib}", jobs.folder / str(mib)
    folder.mkdir()
    raw = []
    await jobs.submit(job, SCRIPT, str(folder), str(mib))
    for n in range(times):
        await jobs.until(job, "TaskResumed", n + 1)
        raw.append(await asyncio.to_thread(_raw, folder / "raw", mib))
        await jobs.ask(MigrateJob(job=job, reason="bench"))
    await jobs.until(job, "TaskResumed", times + 1)
    await jobs.ask(CancelJob(job=job, reason="bench"))
    await jobs.until(job, "JobEnded", 1)
    notes = noted(folder / "noted")
    left, came = [line for line in notes if "done" in line][:times], [line["begins"] for line in notes if "begins" in line][1:]
    pauses = [begins - line["done"] for line, begins in zip(left, came, strict=True)]
    saving = median(line["saved"] - line["done"] for line in left)
    run.say(f"{mib} MiB: {saving:.2f} s of them to save, then exit, release, start and restore")
    target = "≤ 4 s" if mib == 256 else "≤ 1.3× + 1 s"
    what = f"pause of a job that is moved to another node, {mib} MiB of state, median of {times}"
    return Row(
        what,
        median(pauses),
        "s",
        target,
        median(raw),
        "s: raw write, fsync, hash and read of as many bytes",
        {"pauses_s": pauses, "raw_s": raw, "saving_s": saving},
    )


def _raw(path: Path, mib: int) -> float:
    """Seconds."""
    content = os.urandom(MIB) * mib
    began = time.perf_counter()
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    assert len(hashlib.sha256(content).hexdigest()) == 64
    assert len(path.read_bytes()) == len(content)
    took = time.perf_counter() - began
    path.unlink()
    return took
