"""A gang of two torchruns with two ranks each, preempted on a real Kafka by real agents: the same weights to the last bit."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.system import System

from bailiff_core.records.decisions import JobRequeued
from bailiff_core.records.facts import EvictionStaged, TaskResumed

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
SCRIPT, STEPS = ROOT / "docs/jobs/train_ddp.py", 1500
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
    """The weights of four ranks that nobody interrupts."""
    if not FRAMEWORKS.exists():
        pytest.skip(f"no Python with PyTorch at {FRAMEWORKS}: run make test-long")
    bare = {name: value for name, value in os.environ.items() if not name.startswith("BAILIFF")}
    command = f"{TORCHRUN} --standalone --nproc-per-node 4 {SCRIPT} {STEPS}"
    done = subprocess.run(command, shell=True, env={**bare, **ENV}, cwd=tmp_path, capture_output=True, text=True, timeout=SLOW_S)
    assert done.returncode == 0, done.stderr
    return weights(done.stdout)


async def test_four_ranks_on_two_machines_end_as_if_nobody_had_touched_them(
    left_alone: str, system: System, tmp_path: Path
) -> None:
    async with system.watch("pool-b") as pool:
        run = (
            f"export BAILIFF_CHECKPOINT_DIR={tmp_path}/kept CUDA_VISIBLE_DEVICES=; "
            f"exec {TORCHRUN} --nnodes 2 --node-rank $RANK --nproc-per-node 2 --master-addr 127.0.0.1 --master-port $MASTER_PORT "
            f"{SCRIPT} {STEPS} > {tmp_path}/output-$BAILIFF_ATTEMPT-$RANK 2>&1"
        )
        await pool.submit("ddp", run, tasks=2, gpus=4, grace_s=120, env=ENV)
        await pool.until("both tasks train", lambda _: len(pool.facts(TaskResumed, job="ddp")) == 2, SLOW_S)
        await pool.submit("ddp-urgent", pool.until_told(), tasks=2, gpus=4, kind="inference")
        requeued = await pool.record(JobRequeued, job="ddp", within_s=SLOW_S)
        assert requeued.outcome == "preempted"
        saved = [fact.checkpoint for fact in pool.facts(EvictionStaged, job="ddp", stage="checkpoint_committed")]
        assert len({(one.step, one.agreed) for one in saved if one}) == 1, saved
        assert not pool.facts(EvictionStaged, job="ddp", stage="term_sent")
        await pool.until_running("ddp-urgent")
        pool.tell("ddp-urgent")
        await pool.until("the gang has finished", lambda _: pool.job("ddp").phase == "succeeded", SLOW_S)
        back = pool.facts(TaskResumed, job="ddp", attempt=2)
        assert saved[0] is not None
        assert [(fact.step, fact.from_attempt, fact.steps_lost) for fact in back] == [(saved[0].step + 1, 1, 0)] * 2
        assert weights((tmp_path / "output-2-0").read_text()) == left_alone
        await pool.verify()
