"""Evictions of a program that has memory of the GPU: how long until it has left, and until NVML shows its memory free."""

import asyncio
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from bailiff_core.records import decisions, facts

from .machine import Freed, Machine, torch_version, watch_until_free
from .page import Row, Section
from .pool import Pool

PROGRAM = str(Path(__file__).with_name("program.py"))
DEAF_GRACE_S = 2.0


@dataclass(frozen=True)
class Case:
    """how: the program's. holder: the file with the pid of the process that has the memory. most_s: time for all its runs."""

    title: str
    how: str
    runs: int
    most_s: float
    holder: str = "holds"
    grace_s: float = 20.0
    torch: bool = False


CASES = (
    Case("Evictions: the job saves and leaves", "saves", 50, 100),
    Case("Evictions: the same with PyTorch", "saves", 5, 25, torch=True),
    Case("Evictions: the job ignores its notice and TERM, and is killed", "deaf", 10, 30, grace_s=DEAF_GRACE_S),
    Case("Evictions: the job leaves a child that keeps the context", "orphan", 10, 25, holder="child"),
    Case("Evictions: the job has a zombie that had a context", "zombie", 10, 25),
)


@dataclass
class Times:
    """ms, of all runs of a case."""

    left: list[float] = field(default_factory=list)
    proven: list[float] = field(default_factory=list)
    freed: list[Freed] = field(default_factory=list)
    problem: str = ""


async def measure(pool: Pool, machine: Machine, case: Case, runs: int) -> Times:
    """Preempt the job again and again; it starts again each time."""
    times, job, folder = Times(), f"{case.how}{'-torch' if case.torch else ''}", pool.folder
    for mark in ("holds", "child"):
        (folder / mark).unlink(missing_ok=True)
    command = (sys.executable, PROGRAM, case.how, f"{machine.held_gib:g}", str(folder), *(["torch"] if case.torch else []))
    await pool.submit(job, command, grace_s=case.grace_s)
    until = time.monotonic() + case.most_s
    while len(times.left) < runs and (not times.left or time.monotonic() < until):
        await _preempt(pool, machine, case, job, times)
    await _has_memory(pool, case, job)  # a program that has just been started learns late that it is cancelled
    await pool.end(job)
    return times


async def _has_memory(pool: Pool, case: Case, job: str) -> list[Path]:
    """Waits until the job runs with its memory. The files that its processes have written."""
    marks = [pool.folder / "holds", pool.folder / case.holder]
    await pool.until(f"{job} has its memory", lambda: pool.phase(job) == "running" and all(mark.exists() for mark in marks))
    return marks


async def _preempt(pool: Pool, machine: Machine, case: Case, job: str, times: Times) -> None:
    marks = await _has_memory(pool, case, job)
    pid, since, attempt = int(marks[1].read_text()), len(pool.records), pool.state.jobs[job].attempt
    watched = None
    if machine.has_card:
        watched = asyncio.create_task(asyncio.to_thread(watch_until_free, machine, pid, 60.0))
    urgent = f"urgent-{job}-{attempt}"
    await pool.submit(urgent, ("true",), gpus=len(pool.state.nodes[0].devices), kind="inference")

    def seen(kind: type) -> float:
        found = pool.find(kind, since, job=job)
        return found.time / 1000 if found is not None else 0.0

    await pool.until(f"{job} is released", lambda: seen(facts.TaskReleased))
    decided = pool.find(decisions.PreemptionDecided, since)
    assert decided is not None
    for mark in marks:
        mark.unlink(missing_ok=True)
    exited, released = seen(facts.TaskExited), seen(facts.TaskReleased)
    times.left.append(exited - decided.time / 1000)
    times.proven.append(released - exited)
    if watched is not None:
        freed = await watched
        if freed is None:
            times.problem = "a GPU was not free after 60 s"
        else:
            times.freed.append(freed)
    if pool.find(facts.DeviceQuarantined, since):
        times.problem = "the GPU was quarantined"
    await pool.until(f"{urgent} has ended", lambda: pool.phase(urgent) == "succeeded")


def rows(times: Times) -> list[Row]:
    """Of one case."""
    found = [
        Row("decision to exit", times.left),
        Row("exit to recorded release", times.proven),
        Row("process ended to not listed by NVML", [each.unlisted for each in times.freed]),
        Row("process ended to memory free in NVML", [each.free for each in times.freed]),
    ]
    return found + ([Row("all runs", outcome=f"FAILED: {times.problem}", failed=True)] if times.problem else [])


async def section(pool: Pool, machine: Machine, case: Case, runs: int | None) -> Section:
    """One case. runs: fewer than it says."""
    if case.torch and not (machine.has_card and torch_version()):
        return Section(case.title, rows(Times()))
    note = (
        f"The job has {machine.held_gib:g} GiB of the GPU. Before a release the agent reads the GPU every 2 ms here, and every "
        "100 ms by default. NVML is asked every millisecond."
    )
    times = await measure(pool, machine, case, min(case.runs, runs or case.runs))
    return Section(case.title, rows(times), note if machine.has_card else "")
