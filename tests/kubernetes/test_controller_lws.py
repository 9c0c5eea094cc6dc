"""LeaderWorkerSets with their real controller, which makes a StatefulSet of leaders and one of workers for each of them."""

from pathlib import Path

import pytest
from tests.kits.controllers import LWS_NAME
from tests.kubernetes.bridge_system import USER, Users
from tests.kubernetes.controller_story import PODS, pod_template, preempted_and_back

from bailiff_kubernetes import names

pytestmark = [pytest.mark.kubernetes, pytest.mark.long, pytest.mark.timeout(1800)]


async def test_a_leader_with_its_workers_is_preempted_as_one_and_comes_back(
    lws_controller: Path, kubelet_users: Users, tmp_path: Path
) -> None:
    users = kubelet_users
    users.may_use("leaderworkersets")
    template = pod_template(users.watch.pool, tmp_path)
    template["spec"]["restartPolicy"] = "Always"
    group = {"size": PODS, "workerTemplate": template}
    metadata = {"name": "serve-model", "labels": {names.POOL: users.watch.pool}}
    spec = {"replicas": 1, "leaderWorkerTemplate": group}
    users.apply({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": metadata, "spec": spec})
    again = await preempted_and_back(users, "serve-model-0", f"{LWS_NAME}=serve-model", tmp_path)
    assert (again.user, again.size, again.gpus) == (f"kubernetes/{USER}", PODS, PODS)
    await users.watch.verify()
