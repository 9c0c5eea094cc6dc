"""A pod on a real kubelet that leaves everything in every folder that it may write: its node's agent lives and starts."""

import asyncio
import subprocess
from collections.abc import Callable

import pytest
from tests.kits.system import Watch
from tests.kubernetes.bridge_system import KUBELET_POOL, BridgeSystem
from tests.kubernetes.kubelet_jobs import submit

from bailiff_core.model.state import ENDED, PoolState
from bailiff_core.records.facts import TaskReleased, TaskStarted

pytestmark = [pytest.mark.kafka, pytest.mark.kubernetes, pytest.mark.timeout(600)]

WITHIN_S = 150.0
SAID = "everything is left"
LEAVES = f"""
trap '' TERM
leave() {{
  mkfifo fifo; mknod device c 1 5; ln -s self self; ln -s . folder; ln -s / out
  mkdir own closed; echo x > own/precious; ln own/precious hard; chmod 0 closed; chattr +i own/precious
  truncate -s 1000G sparse
  : > $(printf 'n%.0s' $(seq 255)); : > $(printf '\\377\\376'); : > "$(printf 'a\\nb')"
  mkdir wide; n=0; while [ $n -lt 5000 ]; do : > wide/$n; n=$((n+1)); done
  n=0; while [ $n -lt 1800 ]; do mkdir d && cd -P d || break; n=$((n+1)); done
}}
cd $BAILIFF_CONTROL_DIR
rm -rf steps socket notice.json
mkfifo steps; mkdir notice.json; ln -s / socket
(leave)
cd $BAILIFF_CHECKPOINT_DIR
if [ ! -e attempt-0001 ]; then
  mkdir -p attempt-0001/step-00000001 attempt-0001/step-00000002 attempt-0001/step-00000003
  head -c 1048576 /dev/zero | tr '\\0' '[' > attempt-0001/step-00000001/manifest.json
  mkfifo attempt-0001/step-00000002/manifest.json; ln -s /etc/passwd attempt-0001/step-00000003/manifest.json
  n=2; while [ $n -lt 2000 ]; do ln -s attempt-0001 attempt-$(printf %04d $n); n=$((n+1)); done
  (leave)
fi
head -c 3000000 /dev/urandom
echo; echo {SAID}
while :; do sleep 1000; done
"""


async def test_whatever_a_pod_leaves_its_node_goes_on(system: BridgeSystem, kubelet_pool: Watch) -> None:
    pool = kubelet_pool
    checkpoints = system.folder / "state" / "node-agent" / KUBELET_POOL / system.cluster.node().name / "checkpoints" / "hostile"

    def has_left(attempt: int) -> Callable[[PoolState], bool]:
        return lambda state: state.jobs["hostile"].attempt == attempt and SAID in logs(attempt)

    def logs(attempt: int) -> str:
        pods = system.cluster.get("pods", "-A", "-l", "app.kubernetes.io/managed-by=bailiff")["items"]
        own = [each for each in pods if each["metadata"]["annotations"].get("bailiff.io/task") == f"hostile-{attempt}-0"]
        if not own or own[0]["status"].get("phase") != "Running":
            return ""
        at = own[0]["metadata"]
        return system.cluster.kubectl("logs", "-n", at["namespace"], at["name"], "--tail=1")

    def ended(job: str) -> Callable[[PoolState], bool]:
        return lambda state: job in state.jobs and state.jobs[job].phase in ENDED

    try:
        await submit(pool, "neighbour", 1)
        await submit(pool, "hostile", 4, LEAVES, grace_s=3, cpu_milli=500)
        await pool.until_running("neighbour", "hostile")
        await pool.until("the pod has left everything", has_left(1), WITHIN_S)
        system.restart_kubelet_agent()
        await submit(pool, "urgent", 5, "exit 0", kind="inference")
        await pool.until("it gives way to another job", ended("urgent"), WITHIN_S)
        (released,) = pool.facts(TaskReleased, job="hostile", attempt=1)
        assert {each.processes for each in released.after} == {0}
        await pool.until("its next attempt runs among what is left", has_left(2), WITHIN_S)
        (second,) = pool.facts(TaskStarted, job="hostile", attempt=2)
        assert second.damaged_checkpoints == 3
        system.restart_kubelet_agent()
        await pool.cancel("hostile")
        await pool.until("it ends", ended("hostile"), WITHIN_S)
        assert pool.running("neighbour")
        assert len(pool.facts(TaskStarted, job="neighbour")) == 1
        await submit(pool, "last", 7, "exit 0")
        await pool.until("all GPUs but the neighbour's are free again", ended("last"), WITHIN_S)
    finally:
        await asyncio.to_thread(subprocess.run, ["rm", "-rf", checkpoints], check=True)
