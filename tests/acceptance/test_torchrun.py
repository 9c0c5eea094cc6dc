"""A gang of two torchruns with two ranks each, on a real Kafka and real agents: preempted, drained, one rank killed.

At the end its weights equal those of four uninterrupted ranks, bit for bit.
"""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from tests.kits.system import System, Watch

from bailiff_core.records.decisions import JobRequeued
from bailiff_core.records.facts import Checkpoint, EvictionStageReached, TaskResumed
from bailiff_node_agent.runtime import TaskKey, control_dir
from bailiff_node_agent.runtime.supervisor.processes import descendants, scan, send

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
SCRIPT, STEPS = ROOT / "docs/jobs/train_ddp.py", 3000
FRAMEWORKS = Path(os.environ.get("BAILIFF_TEST_FRAMEWORKS", ROOT / ".venv-frameworks/bin/python"))
SLOW_S = 300  # importing PyTorch five times on two cores takes its time


def weights(text: str) -> str:
    found = re.findall(r"^weights (\S+)$", text, re.MULTILINE)
    assert len(found) == 1, text
    return str(found[0])


TORCHRUN = f"{FRAMEWORKS} -m torch.distributed.run"
ENV = {"PYTHONPATH": str(ROOT / "libs/job"), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture
def left_alone(tmp_path: Path) -> str:
    """The weights of four uninterrupted ranks."""
    if not FRAMEWORKS.exists():
        pytest.skip(f"no Python with PyTorch at {FRAMEWORKS}: run make test-long")
    bare = {name: value for name, value in os.environ.items() if not name.startswith("BAILIFF")}
    command = f"{TORCHRUN} --standalone --nproc-per-node 4 {SCRIPT} {STEPS}"
    done = subprocess.run(command, shell=True, env={**bare, **ENV}, cwd=tmp_path, capture_output=True, text=True, timeout=SLOW_S)
    assert done.returncode == 0, done.stderr
    return weights(done.stdout)


def saved_together(pool: Watch, attempt: int) -> Checkpoint:
    """Returns the checkpoint that both tasks saved after the notice: one step, agreed by all of their ranks."""
    stages = pool.facts(EvictionStageReached, job="ddp", attempt=attempt, stage="checkpoint_committed")
    saved = [fact.checkpoint for fact in stages if fact.checkpoint is not None]
    assert len(saved) == 2, stages
    assert len({(one.step, one.agreed) for one in saved}) == 1, saved
    assert saved[0].agreed
    assert not pool.facts(EvictionStageReached, job="ddp", attempt=attempt, stage="term_sent")
    return saved[0]


async def back(pool: Watch, attempt: int) -> list[TaskResumed]:
    """Wait until both tasks have resumed."""
    await pool.until(f"both train in attempt {attempt}", lambda _: len(resumed(pool, attempt)) == 2, SLOW_S)
    return resumed(pool, attempt)


def resumed(pool: Watch, attempt: int) -> list[TaskResumed]:
    return pool.facts(TaskResumed, job="ddp", attempt=attempt)


def control(pool: Watch, task: int) -> Path:
    """The control directory of the task's present attempt."""
    job = pool.job("ddp")
    node = pool.state.nodes[job.tasks[task].node].name
    return pool.system.folder / "state/node-agent/pool-b" / node / "tasks" / str(TaskKey("ddp", job.attempt, str(task)))


def kill_a_rank(pool: Watch, task: int) -> None:
    """Kill one of the workers that this task's torchrun has started."""
    above = json.loads((control(pool, task) / "running.json").read_text())["supervisor_pid"]
    ranks = [
        process
        for process in descendants({above}, scan())
        if Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")[-3:-1] == [bytes(SCRIPT), str(STEPS).encode()]
        and b"torch.distributed.run" not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    ]
    assert len(ranks) == 2, ranks
    send(ranks[1], signal.SIGKILL)


async def test_four_ranks_on_two_nodes_end_with_the_weights_of_an_uninterrupted_run(
    left_alone: str, system: System, tmp_path: Path
) -> None:
    async with system.watch("pool-b") as pool:
        run = (
            f"export BAILIFF_CHECKPOINT_DIR={tmp_path}/kept CUDA_VISIBLE_DEVICES=; "
            f"exec {TORCHRUN} --nnodes 2 --node-rank $RANK --nproc-per-node 2 --master-addr 127.0.0.1 --master-port $MASTER_PORT "
            f"{SCRIPT} {STEPS} > {tmp_path}/output-$BAILIFF_ATTEMPT-$RANK 2>&1"
        )
        await pool.submit("ddp", run, tasks=2, gpus=4, grace_s=120, env=ENV, max_failures=1, restart_backoff=100_000)
        await back(pool, 1)

        await pool.submit("ddp-urgent", pool.until_signalled(), tasks=2, gpus=4, kind="inference")
        requeued = await pool.record(JobRequeued, job="ddp", attempt=1, within_s=SLOW_S)
        assert (requeued.outcome, requeued.cause) == ("preempted", "preemption")
        saved = saved_together(pool, 1)
        await pool.until_running("ddp-urgent")
        pool.let_finish("ddp-urgent")
        assert [(fact.step, fact.from_attempt, fact.steps_lost) for fact in await back(pool, 2)] == [(saved.step + 1, 1, 0)] * 2

        node = pool.state.nodes[pool.job("ddp").tasks[1].node].name
        try:
            system.command("pool-b", "drain", node, "--quick", "--reason", "driver", "--yes")
            requeued = await pool.record(JobRequeued, job="ddp", attempt=2, within_s=SLOW_S)
            assert (requeued.outcome, requeued.cause) == ("preempted", "drain")
            saved = saved_together(pool, 2)
        finally:
            system.command("pool-b", "undrain", node)
        assert [(fact.step, fact.from_attempt, fact.steps_lost) for fact in await back(pool, 3)] == [(saved.step + 1, 2, 0)] * 2

        async def has_gone_on() -> bool:
            return (control_dir.read_steps(control(pool, 0)).published or 0) >= saved.step + 50

        await pool.until_true("steps after the checkpoint were done", has_gone_on, SLOW_S)
        kill_a_rank(pool, task=1)
        requeued = await pool.record(JobRequeued, job="ddp", attempt=3, within_s=SLOW_S)
        assert (requeued.outcome, pool.job("ddp").failures) == ("failed", 1)
        again = await back(pool, 4)
        kept = {(fact.step, fact.from_attempt) for fact in again}
        assert kept <= {(saved.step + 1, 2), *((step, 3) for step in range(500, STEPS, 500))}, (
            "not the newest step that all ranks had committed"
        )
        assert len(kept) == 1, "ranks resumed from different steps"
        assert all(fact.steps_lost > 0 for fact in again), again

        await pool.until("the gang has finished", lambda _: pool.job("ddp").phase == "succeeded", SLOW_S)
        assert weights((tmp_path / "output-4-0").read_text()) == left_alone
        await pool.verify()
