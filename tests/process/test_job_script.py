"""Scripts with the job library as separate processes: killed with SIGKILL, on a full disk, with a clock step."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.kits.job_node import STEP, JobNode
from tests.kits.other_clock import OtherClock

from bailiff_devstack import demo_train

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
from bailiff_job import attach

total, size, every = map(int, sys.argv[1:])
weights = 0
job = attach(every_steps=every)


def save(folder):
    (folder / "weights").write_text(str(weights))
    (folder / "bulk").write_bytes(bytes(size))


def load(folder):
    global weights
    weights = int((folder / "weights").read_text())


start = job.restore(load)
print("from", start, flush=True)
for step in range(start, total):
    weights += step * step
    job.progress(step, total)
    if job.should_checkpoint(step):
        try:
            job.checkpoint(step, save)
        except OSError as problem:
            print("not saved:", problem.strerror, flush=True)
    if job.preempted:
        job.exit()
print("weights", weights)
"""

TERM_AT_THE_VERY_END = """
import os, signal

class Last:
    def __del__(self, kill=os.kill, own=os.getpid(), term=signal.SIGTERM):
        kill(own, term)

last = Last()
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[JobNode]:
    node = JobNode(tmp_path / "node")
    yield node
    node.close()


class Script:
    def __init__(self, folder: Path, node: JobNode) -> None:
        self.folder, self.node, self.attempt = folder, node, 0

    def start(self, total: int, *, size: int = 10, every: int = 50, **more: str) -> "subprocess.Popen[str]":
        return self.run("-c", SCRIPT, str(total), str(size), str(every), **more)

    def run(self, *arguments: str, **more: str) -> "subprocess.Popen[str]":
        """Start the next attempt."""
        self.attempt += 1
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "libs/job"),
            "BAILIFF_JOB_ID": "train-7",
            "BAILIFF_ATTEMPT": str(self.attempt),
            "BAILIFF_CHECKPOINT_DIR": str(self.folder / "kept"),
            "BAILIFF_CONTROL_DIR": str(self.node.control),
            "BAILIFF_SOCKET": str(self.node.control / "socket"),
            **more,
        }
        for name in ("RANK", "WORLD_SIZE"):
            env.pop(name, None)
        return subprocess.Popen([sys.executable, *arguments], env=env, stdout=subprocess.PIPE, text=True)

    def wait_steps(self, process: "subprocess.Popen[str]", steps: int) -> None:
        """Wait until this many more steps are done."""
        seen = self.node.word(STEP)
        self.until(process, lambda: self.node.word(STEP) >= seen + steps)

    def until(self, process: "subprocess.Popen[str]", condition: Callable[[], Any]) -> None:
        self.node.wait_for(lambda: condition() or process.poll() is not None, 60)
        assert process.poll() is None, "it exited early"


def ended(process: "subprocess.Popen[str]", code: int) -> str:
    output, _ = process.communicate(timeout=60)
    assert process.returncode == code, output
    return output


def expected(total: int) -> int:
    return sum(step * step for step in range(total))


def test_repeated_sigkill_leads_to_the_same_weights(tmp_path: Path, node: JobNode) -> None:
    """At any time, also during one of the many saves."""
    script, total, reached = Script(tmp_path, node), 3000, -1
    for _ in range(4):
        process = script.start(total, every=5)
        script.until(process, lambda: node.word(STEP) > reached + 137)  # noqa: B023
        os.kill(process.pid, signal.SIGKILL)
        ended(process, -signal.SIGKILL)
        reached = node.word(STEP)
    assert f"weights {expected(total)}\n" in ended(script.start(total, every=500), 0)
    resumed_steps = [each["step"] for each in node.messages("resumed")]
    assert resumed_steps[0] == 0
    assert all(step < later for step, later in pairwise(resumed_steps)), "each attempt made progress"
    assert [each["skipped_checkpoints"] for each in node.messages("resumed")] == [0] * 5


def test_a_disk_that_is_full_leaves_the_checkpoint_before(tmp_path: Path, node: JobNode) -> None:
    """On a file system of 256 KiB two checkpoints of 60 KB fit, and none of 300 KB."""
    kept = tmp_path / "kept"
    kept.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(kept)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no permission to mount a small file system: {mounted.stderr.decode().strip()}")
    try:
        script = Script(tmp_path, node)
        process = script.start(100, size=60_000)
        assert f"weights {expected(100)}" in ended(process, 0)
        process = script.start(10_000, size=300_000)
        node.wait_for(lambda: process.poll() is not None, 60)
        output = ended(process, 0)
        assert output.startswith("from 100\nnot saved: No space left on device\n")
        assert f"weights {expected(10_000)}" in output
        assert not list(kept.rglob(".tmp-step*"))
        assert "from 100\n" in ended(script.start(110), 0)
    finally:
        subprocess.run(["umount", str(kept)], check=True)


def test_a_clock_step_moves_no_deadline(tmp_path: Path, node: JobNode) -> None:
    """A day forward and two back during a notice: it saves at the agreed step, in time, and exits."""
    clock = OtherClock(tmp_path / "clock")
    script = Script(tmp_path, node)
    process = script.start(10**9, **clock.env)
    script.until(process, lambda: node.word(STEP) > 100)
    clock.set(86_400)
    script.wait_steps(process, 100)
    node.notice(soft_s=60, hard_s=90)
    clock.set(-86_400)
    script.wait_steps(process, 1000)
    assert node.stages().count("acknowledged") == 1, "notified once, and not overdue by any clock"
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    node.write(2, 0)
    ended(process, 85)
    assert node.stages()[-3:] == ["checkpoint_started", "checkpoint_committed", "yielding"]
    assert node.messages("checkpoint_committed")[-1]["agreed"] is True
    assert time.clock_gettime_ns(time.CLOCK_BOOTTIME) - before < 60 * 10**9


def test_term_alone_is_notice_enough_to_save_and_exit(tmp_path: Path, node: JobNode) -> None:
    script = Script(tmp_path, node)
    process = script.start(10**9, every=10**9)
    script.until(process, lambda: node.word(STEP) > 100)
    os.kill(process.pid, signal.SIGTERM)
    ended(process, 85)
    assert node.stages() == ["resumed", "checkpoint_started", "checkpoint_committed", "yielding"]
    assert node.messages("checkpoint_committed")[-1]["step"] == node.word(STEP)


def test_term_at_the_very_end_of_the_exit_changes_nothing(tmp_path: Path, node: JobNode) -> None:
    """During Python's shutdown the library's handler is not installed any more."""
    script = Script(tmp_path, node)
    process = script.run("-c", TERM_AT_THE_VERY_END + SCRIPT, "1000000000", "10", "50")
    script.until(process, lambda: node.word(STEP) > 100)
    node.notice(agreed=0)
    ended(process, 85)
    assert node.stages()[-1] == "yielding"


def test_the_training_of_the_demo_ends_with_the_same_bits(tmp_path: Path, node: JobNode) -> None:
    """Preempted, killed, and run to its end; compared with a run outside Bailiff."""
    train = (demo_train.__file__, "400")
    env = {name: value for name, value in os.environ.items() if not name.startswith("BAILIFF")}
    env["PYTHONPATH"] = str(ROOT / "libs/job")
    alone = subprocess.run([sys.executable, *train, "0"], env=env, capture_output=True, text=True, check=True).stdout
    script = Script(tmp_path, node)
    process = script.run(*train, "0.005")
    script.until(process, lambda: node.word(STEP) > 30)
    node.notice(agreed=0)
    ended(process, 85)
    node.cancel_eviction()
    process = script.run(*train, "0.005")
    script.wait_steps(process, 40)
    process.kill()
    ended(process, -signal.SIGKILL)
    output = ended(script.run(*train, "0"), 0)
    assert output.splitlines()[-1] == alone.splitlines()[-1]
    assert "starting at step 0" not in output
