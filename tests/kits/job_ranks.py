"""Ranks of a job for tests: stand-ins for a training script, as plain objects in one process."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kits.job_node import JobNode

from bailiff_job import Job
from bailiff_job.rank_env import RankEnv


def place(
    directory: Path | None,
    node: JobNode | None = None,
    *,
    attempt: int = 1,
    rank: int = 0,
    world_size: int = 1,
    worker: int = 0,
    workers: int = 1,
    restart: str = "0",
) -> RankEnv:
    control = node.control if node else None
    return RankEnv(
        job="train-7",
        attempt=attempt,
        rank=rank,
        world_size=world_size,
        worker=worker,
        workers=workers,
        restart=restart,
        socket=str(control / "socket") if control else "",
        control=control,
        checkpoints=directory,
    )


class Training:
    """Weights that are a sum, so that a lost or repeated step changes the result."""

    def __init__(self, job: Job, *, rank: int = 0) -> None:
        self.job, self.rank = job, rank
        self.weight = 0
        self.step = 0

    def save(self, folder: Path) -> None:
        (folder / "weight.json").write_text(json.dumps(self.weight))

    def load(self, folder: Path) -> None:
        self.weight = json.loads((folder / "weight.json").read_text())

    def restore(self) -> int:
        self.step = self.job.restore(self.load)
        return self.step

    def one_step(self) -> int:
        """The step that is done now."""
        self.weight += self.step * (self.rank + 1)
        self.step += 1
        return self.step - 1

    def run(self, total: int, *, before: Callable[[int], Any] = lambda step: None) -> bool:
        """The training loop of a script. Returns whether it was preempted."""
        self.restore()
        while self.step < total:
            before(self.step)
            step = self.one_step()
            self.job.progress(step, total)
            if self.job.should_checkpoint(step):
                self.job.checkpoint(step, self.save)
            if self.job.preempted:
                return True
        return False


def expected(total: int, rank: int = 0) -> int:
    return sum(step * (rank + 1) for step in range(total))
