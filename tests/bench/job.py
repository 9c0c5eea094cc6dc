"""What the job library costs a training loop: a check in the innermost loop, and a checkpoint to disk and back."""

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tests.kits.job_node import JobNode
from tests.kits.job_ranks import place

from bailiff_job import Job

from .table import Row, Run

ASKED = 200_000
MIB = 1 << 20


class _Nothing:
    def method(self, step: int) -> bool:
        return False


def measure(run: Run) -> list[Row]:
    """With a node behind it that is there and has nothing to tell."""
    run.folder.mkdir(parents=True, exist_ok=True)
    node = JobNode(run.folder / "node")
    try:
        job = Job(place(run.folder / "checkpoints", node), every_steps=1 << 60, every_s=1e9)
        empty = _per_call(_Nothing().method)
        rows = [
            Row(
                f"should_checkpoint, nothing to do, p50 of {ROUNDS} rounds",
                _per_call(job.should_checkpoint),
                "µs",
                "≤ 2 µs",
                empty,
                "µs: an empty method with one argument",
            ),
            Row("progress, nothing to say", _per_call(job.progress), "µs", "-", empty, "µs: an empty method with one argument"),
        ]
    finally:
        node.close()
    return [*rows, *(_to_disk_and_back(run, mib) for mib in ([64] if run.quick else [256, 1024]))]


ROUNDS = 7


def _per_call(asked: Callable[[int], object]) -> float:
    """Microseconds of processor time."""
    rounds = []
    for _ in range(ROUNDS):
        began = time.process_time_ns()
        for step in range(ASKED):
            asked(step)
        rounds.append((time.process_time_ns() - began) / ASKED / 1000)
    return median(rounds)


def _to_disk_and_back(run: Run, mib: int) -> Row:
    """A checkpoint saved, committed, verified and read, against the same bytes written, synced, hashed and read once."""
    content = os.urandom(MIB) * mib
    ours, raw = [], []
    for _ in range(3):
        raw.append(_timed(lambda: _raw(run.folder / "raw", content)))
        ours.append(_timed(lambda: _saved_and_restored(run.folder / "kept", content)))
        shutil.rmtree(run.folder / "kept")
    what = f"a checkpoint of {mib} MiB, saved and restored by another attempt"
    return Row(
        what, median(ours), "s", "≤ 1.3× + 1 s", median(raw), "s: raw write, fsync, hash and read", {"ours_s": ours, "raw_s": raw}
    )


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _raw(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    assert len(hashlib.sha256(content).hexdigest()) == 64
    assert len(path.read_bytes()) == len(content)


def _saved_and_restored(directory: Path, content: bytes) -> None:
    read: list[int] = []
    Job(place(directory)).checkpoint(7, lambda folder: (folder / "state").write_bytes(content))
    Job(place(directory, attempt=2)).restore(lambda folder: read.append(len((folder / "state").read_bytes())))
    assert read == [len(content)]
