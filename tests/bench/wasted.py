"""GPU-seconds wasted by four preemptions of a job of eight: saved just in time, and with periodic checkpoints alone.

The shape is that of ray#65047: 8 workers, 1,600 steps of 1.13 s, a checkpoint every 400, each attempt preempted after about as
many steps as there, where periodic checkpoints wasted 4,656 GPU-seconds and just-in-time ones 825, counting steps
done again. Here a step takes 20 ms, and one done again is counted with 1.13 s; GPUs held without progress are counted as long
as they really were, and added.
"""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bailiff_core.records.job_requests import CancelJob, EvictJob
from bailiff_devstack.stack import Plan, Stack

from .running import POOL, Jobs, noted, running
from .table import Row, Run

WORKERS, INTERVAL, STEP_S, STEP_THERE_S = 8, 400, 0.02, 1.13
PREEMPTED_AFTER, THEN = (696, 171, 529, 152), 20
RAY_PERIODIC, RAY_IN_TIME = 4656, 825
SCRIPT = """
import json, os, signal, sys, time
from pathlib import Path

folder, in_time, interval, step_s = sys.argv[1], sys.argv[2] == "in-time", int(sys.argv[3]), float(sys.argv[4])
rank, attempt = int(os.environ["RANK"]), int(os.environ["BAILIFF_ATTEMPT"])
if not in_time:  # a script that hears of nothing: TERM ends it
    del os.environ["BAILIFF_CONTROL_DIR"], os.environ["BAILIFF_SOCKET"]
from bailiff_job import attach

job = attach(every_steps=interval)
if not in_time:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
state = bytes(1 << 20)
step = job.restore(lambda saved: (saved / "state").read_bytes())
with open(f"{folder}/rank-{rank}", "a", buffering=1) as notes:
    for step in range(step, 1 << 40):
        began = time.time()
        time.sleep(step_s)
        print(json.dumps({"attempt": attempt, "step": step, "from": began, "to": time.time()}), file=notes)
        if job.should_checkpoint(step):
            job.checkpoint(step, lambda saved: (saved / "state").write_bytes(state))
        if job.preempted:
            job.exit()
"""


@dataclass(frozen=True)
class Waste:
    """Steps done again, by all workers. GPU-seconds held without progress because of the preemptions: before the release, from
    the placement to the start, from there to the first step.
    """

    again: int
    leaving_s: float
    starting_s: float
    restoring_s: float

    @property
    def held_s(self) -> float:
        """All of them."""
        return self.leaving_s + self.starting_s + self.restoring_s

    @property
    def gpu_s(self) -> float:
        """In all, with steps as long as they are there."""
        return self.held_s + self.again * STEP_THERE_S


def measure(run: Run) -> list[Row]:
    """Both ways, one after the other, on one node of eight GPUs."""
    nodes = [{"name": "node-1", "pool": POOL, "gpus": f"{WORKERS}xH100-80GB"}]
    with Stack(run.folder, Plan(nodes=nodes)) as stack:
        in_time, periodic = asyncio.run(_measure(run, stack))
    what = f"GPU-seconds wasted, {WORKERS} workers, {len(PREEMPTED_AFTER)} preemptions, saved just in time"
    detail = {"in_time": vars(in_time), "periodic": vars(periodic), "ray": {"in_time": RAY_IN_TIME, "periodic": RAY_PERIODIC}}
    return [
        Row(
            what,
            in_time.gpu_s,
            "GPU-s",
            "≤ 100 (ray#65047: 825)",
            periodic.gpu_s,
            f"GPU-s: periodic checkpoints alone, in the same run (there: {RAY_PERIODIC})",
            detail,
        )
    ]


async def _measure(run: Run, stack: Stack) -> tuple[Waste, Waste]:
    wastes = []
    async with running(stack, run.folder / "jobs", 1) as jobs:
        for way in ("in-time", "periodic"):
            waste = await _waste(jobs, way)
            run.say(
                f"{way}: {waste.again} steps done again; GPU-s held: {waste.leaving_s:.1f} leaving, "
                f"{waste.starting_s:.1f} starting, {waste.restoring_s:.1f} restoring"
            )
            wastes.append(waste)
    return wastes[0], wastes[1]


async def _waste(jobs: Jobs, way: str) -> Waste:
    notes = jobs.folder / way
    notes.mkdir()
    await jobs.submit(way, SCRIPT, str(notes), way, str(INTERVAL), str(STEP_S), tasks=WORKERS)
    for attempt, steps in enumerate(PREEMPTED_AFTER, 1):
        await _done(notes, attempt, steps)
        await jobs.ask(EvictJob(job=way, reason="bench"))
        await jobs.until(way, "JobRequeued", attempt)
    await _done(notes, len(PREEMPTED_AFTER) + 1, THEN)
    await jobs.ask(CancelJob(job=way, reason="bench"))
    await jobs.until(way, "JobEnded", 1)
    ranks = [noted(notes / f"rank-{rank}") for rank in range(WORKERS)]
    again = sum(len(lines) - len({line["step"] for line in lines}) for lines in ranks)
    held = [_held(jobs, way, rank, lines) for rank, lines in enumerate(ranks)]
    return Waste(again, *(sum(part) for part in zip(*held, strict=True)))


async def _done(notes: Path, attempt: int, steps: int) -> None:
    """Waits until this attempt has done this many steps."""
    begun: int | None = None
    while True:
        now, step = _newest(notes / "rank-0")
        if now == attempt:
            begun = step if begun is None else begun
            if step >= begun + steps:
                return
        await asyncio.sleep(STEP_S)


def _newest(path: Path) -> tuple[int, int]:
    """Attempt and step of the last whole line."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 400))
            line = json.loads(file.read().splitlines(keepends=True)[-2])
    except (OSError, IndexError, ValueError):
        return 0, 0
    return line["attempt"], line["step"]


def _held(jobs: Jobs, way: str, rank: int, lines: list[dict[str, Any]]) -> tuple[float, float, float]:
    """Of one GPU: from the last step of each attempt to its release; from the next placement to the start; to the first step."""
    at = {
        kind: {data["attempt"]: when for when, data in jobs.at[way][kind] if data.get("task", rank) == rank}
        for kind in ("TaskReleased", "JobPlaced", "TaskStarted")
    }
    leaving = starting = restoring = 0.0
    for attempt in range(1, len(PREEMPTED_AFTER) + 1):
        leaving += at["TaskReleased"][attempt] - max(line["to"] for line in lines if line["attempt"] == attempt)
        starting += at["TaskStarted"][attempt + 1] - at["JobPlaced"][attempt + 1]
        restoring += min(line["from"] for line in lines if line["attempt"] == attempt + 1) - at["TaskStarted"][attempt + 1]
    return leaving, starting, restoring
