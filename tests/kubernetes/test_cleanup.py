"""What an uninstall takes off the objects of others: finalizers that nobody would remove, conditions that nobody keeps true."""

import json

import pytest
from tests.kits.kubernetes_cluster import IMAGE, Cluster

from bailiff.kubernetes_cleanup import remove_conditions, remove_finalizers, remove_nominations
from bailiff_kubernetes import Api, names
from bailiff_kubernetes.resources import JOBS, PODS, condition_of

pytestmark = pytest.mark.kubernetes


async def test_pods_and_jobs_keep_nothing_that_only_bailiff_would_remove(
    kubernetes: Cluster, kubernetes_api: Api, kubernetes_namespace: str
) -> None:
    pod = {
        "containers": [{"name": "main", "image": IMAGE}],
        "restartPolicy": "Never",
        "schedulingGates": [{"name": "tests/never"}, {"name": names.GATE}],
    }
    metadata = {"name": "left", "finalizers": [names.FINALIZER, "tests/other"]}
    items = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod},
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "left"},
            "spec": {"suspend": True, "template": {"spec": pod}},
        },
    ]
    for item in items:
        kubernetes.kubectl("create", "-n", kubernetes_namespace, "-f", "-", stdin=json.dumps(item))
    for kind in (PODS, JOBS):
        condition = {"type": names.PLACED, "status": "True", "reason": "Placed", "message": "it runs"}
        await kubernetes_api.patch_status(kind, "left", {"conditions": [condition]}, kubernetes_namespace)

    await kubernetes_api.patch_status(PODS, "left", {"nominatedNodeName": "fake-1"}, kubernetes_namespace)

    assert await remove_conditions(kubernetes_api) >= 2
    assert await remove_nominations(kubernetes_api) >= 1
    assert await remove_finalizers(kubernetes_api) >= 1

    for kind in (PODS, JOBS):
        found = await kubernetes_api.get(kind, "left", kubernetes_namespace)
        assert condition_of(found, names.PLACED) is None
    found = await kubernetes_api.get(PODS, "left", kubernetes_namespace)
    assert found["metadata"]["finalizers"] == ["tests/other"]
    assert "nominatedNodeName" not in found["status"]
    free = [{"op": "remove", "path": "/metadata/finalizers"}]
    await kubernetes_api.patch(PODS, "left", free, kubernetes_namespace, form="json")
