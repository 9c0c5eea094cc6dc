"""RayJobs with KubeRay's operator. Ray itself is a stand-in: a head that answers what the operator asks, workers that only run.

So nothing here shows what Ray does when its processes are evicted, nor that a real submitter notices it.
"""

from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.bridge_system import POOL, BridgeSystem, Users
from tests.kubernetes.controller_story import DONE, RUN, completes, life_of_suspensions, pod_template, preempted_and_back

from bailiff_kubernetes import names

pytestmark = [pytest.mark.kubernetes, pytest.mark.long, pytest.mark.timeout(1800)]
SELECTOR = "ray.io/group"
HEAD = f"""
cat > /answer <<'END'
#!/bin/sh
while read -r line && [ "$line" != "$(printf '\\r')" ]; do :; done
status=RUNNING
[ ! -e /work/{DONE} ] || status=SUCCEEDED
body='{{"submission_id": "train", "type": "SUBMISSION", "status": "'$status'"}}'
printf 'HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %s\\r\\n' ${{#body}}
printf 'Connection: close\\r\\n\\r\\n%s' "$body"
END
chmod +x /answer
nc -ll -p 8265 -e /answer &
touch /work/head
{RUN.replace("exit 143", "rm /work/head; exit 143")}
sleep 3000 & wait $!
"""
"""Tells that the Ray job runs, or has succeeded. As with Ray, a head does not end by itself."""
SUBMITTER = f"until [ -e /work/{DONE} ]; do [ -e /work/head ] || exit 1; sleep 0.2; done"
"""Ends as `ray job submit` does: well with the Ray job, badly where the head is lost."""


def rayjob(head: dict[str, Any], worker: dict[str, Any], pool: str) -> dict[str, Any]:
    """A head and four workers. It is tried again after a head that was lost, and its cluster goes when it is over."""
    group = {"groupName": "gpu", "replicas": 4, "minReplicas": 0, "maxReplicas": 8, "rayStartParams": {}, "template": worker}
    cluster = {"headGroupSpec": {"rayStartParams": {}, "template": head}, "workerGroupSpecs": [group]}
    submitter = pod_template(pool, name="submitter", script=SUBMITTER)["spec"]
    submitter["nodeSelector"] = {"offline-kubernetes/node": "real"}
    submitter["volumes"] = head["spec"].get("volumes", [])
    submitter["containers"][0]["volumeMounts"] = head["spec"]["containers"][0].get("volumeMounts", [])
    del submitter["containers"][0]["resources"]["limits"]
    spec = {
        "entrypoint": "python train.py",
        "submitterConfig": {"backoffLimit": 0},
        "submitterPodTemplate": {"spec": submitter},
        "backoffLimit": 3,
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": cluster,
    }
    metadata = {"name": "train", "labels": {names.POOL: pool}, "annotations": {"ray.io/overwrite-container-cmd": "true"}}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": spec}


async def test_a_rayjob_is_preempted_comes_back_and_completes(kuberay: Path, kubelet_users: Users, tmp_path: Path) -> None:
    users, pool = kubelet_users, kubelet_users.watch.pool
    users.may_use("rayjobs")
    head, worker = pod_template(pool, tmp_path, name="ray-head", script=HEAD), pod_template(pool, tmp_path, name="ray-worker")
    users.apply(rayjob(head, worker, pool))
    again = await preempted_and_back(users, "train", SELECTOR, tmp_path)
    assert [(group.count, group.gpu_milli) for group in again.demand.tasks] == [(1, 1000), (4, 1000)]
    await completes(users, "train", tmp_path, "cancelled")
    assert users.of("train").request_reason == "the RayJob has completed"
    await users.watch.verify()


async def test_suspending_a_rayjob_pauses_its_job(kuberay: Path, users: Users, system: BridgeSystem) -> None:
    users.may_use("rayjobs")
    suspended = rayjob(pod_template(POOL, name="ray-head"), pod_template(POOL, name="ray-worker"), POOL)
    suspended["spec"]["suspend"] = True
    users.apply(suspended)
    await life_of_suspensions(users, system, "rayjob", SELECTOR, lambda on: {"suspend": on})
