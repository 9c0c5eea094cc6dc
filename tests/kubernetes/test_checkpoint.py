"""A training run in a container, preempted in the middle: it resumes from its checkpoint, to the same weights bit for bit."""

import subprocess
from pathlib import Path

import pytest
from tests.kits import host_image
from tests.kits.kubernetes_cluster import Cluster, busybox, tool_path
from tests.kits.system import Watch
from tests.kubernetes.kubelet_jobs import submit

from bailiff_core.records.facts import TaskExited, TaskResumed
from bailiff_devstack.demo_train import uninterrupted

pytestmark = [pytest.mark.kubernetes, pytest.mark.long, pytest.mark.timeout(1500)]
IMAGE = "localhost/bailiff-trainer:1"
STEPS = 600


@pytest.fixture(scope="module")
def trainer(kubernetes: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image with Python, the job library and the demo's training script, on the cluster's real nodes."""
    file = tmp_path_factory.mktemp("trainer") / "image.tar"
    host_image.build(file, IMAGE, busybox(), user="0")
    tool = tool_path()
    if tool is None or kubernetes.folder is None:
        pytest.skip("the cluster's nodes are not this machine's: no image can be loaded")
    subprocess.run([str(tool), "load", str(kubernetes.folder), str(file)], check=True, timeout=600)
    return IMAGE


async def test_a_training_run_is_preempted_in_a_container_and_its_weights_are_bit_identical(
    kubelet_pool: Watch, trainer: str, tmp_path: Path
) -> None:
    pool = kubelet_pool
    command = f"python /{host_image.PACKAGES}/bailiff_devstack/demo_train.py {STEPS} 0.05"  # its package needs Java
    await submit(pool, "weights", 1, command, image=trainer, grace_s=60, cpu_milli=900, memory=256 << 20)
    await pool.until_running("weights")
    await pool.until("it has trained a while", lambda state: any((task.step or 0) > 100 for task in state.jobs["weights"].tasks))
    await submit(pool, "urgent", 8, "sleep 2", kind="inference")
    await pool.until_ended("urgent")
    await pool.until_ended("weights")
    assert pool.job("weights").attempt == 2
    exits = [fact.exit_code for fact in pool.facts(TaskExited, job="weights")]
    assert exits == [85, 0], "it yielded after its checkpoint, and then it finished"
    assert [fact.step > 100 for fact in pool.facts(TaskResumed, job="weights", attempt=2)] == [True]
    assert f"done: weights {uninterrupted(STEPS)}" in pool.system.command(pool.pool, "logs", "weights", "--attempt", "2")
    await pool.verify()
