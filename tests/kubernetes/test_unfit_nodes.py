"""Taints that a job does not tolerate, and volumes that it cannot reach: nobody is evicted for what would not be bound."""

import copy
import json

import pytest
from tests.kubernetes.bridge_system import Users

from bailiff_core.records.decisions import PreemptionDecided
from bailiff_kubernetes import names

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]
TAINT = "nvidia.com/gpu=present:NoSchedule"
URGENT = {names.PRIORITY_CLASS: "inference"}


async def test_a_job_is_not_submitted_before_a_node_would_admit_its_pods(users: Users) -> None:
    nodes = users.cluster.fake_nodes
    users.apply(users.job("train", pods=len(nodes), gpus=8))
    train = await users.until_phase("train", "running")
    users.cluster.kubectl("taint", "node", *nodes, TAINT)
    try:
        users.apply(users.job("urgent", pods=1, gpus=8, **URGENT))
        said = f"NotSubmitted: not submitted to {users.watch.pool}: no node of the pool would admit its pods: taint {TAINT}"
        await users.until_status("job", "urgent", said)
        tolerant = copy.deepcopy(dict(users.job("tolerant", pods=1, gpus=8, **URGENT)))
        tolerant["spec"]["template"]["spec"]["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
        users.apply(tolerant)
        runs = await users.until_phase("tolerant", "running")
        decided = [fact for fact in users.watch.facts(PreemptionDecided) if train.id in [each.job for each in fact.victims]]
        assert [fact.preemptor.job for fact in decided] == [runs.id]
    finally:
        users.cluster.kubectl("taint", "node", *nodes, f"{TAINT}-")
    await users.until_phase("urgent", "running")


async def test_nor_before_there_is_a_volume_for_its_claim_and_then_where_that_is(users: Users) -> None:
    nodes, size = users.cluster.fake_nodes, {"storage": "1Gi"}
    name = f"local-{users.namespace}"
    later = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    storage_class = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, **later}
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [nodes[1]]}
    volume = {
        "capacity": size,
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        "local": {"path": "/mnt"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    users.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(storage_class))
    try:
        users.apply(users.job("train", pods=len(nodes), gpus=8, annotations={names.MIN_TASKS: "1"}))
        await users.until_phase("train", "running")
        claim = {"storageClassName": name, "accessModes": ["ReadWriteOnce"], "resources": {"requests": size}}
        users.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": claim})
        urgent = copy.deepcopy(dict(users.job("urgent", pods=1, gpus=8, **URGENT)))
        urgent["spec"]["template"]["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        users.apply(urgent)
        said = f"NotSubmitted: not submitted to {users.watch.pool}: no node of the pool would admit its pods: no free volume"
        await users.until_status("job", "urgent", said)
        assert users.of("train").phase == "running"
        users.cluster.kubectl(
            "apply",
            "-f",
            "-",
            stdin=json.dumps({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume}),
        )
        job = await users.until_phase("urgent", "running")
        assert [users.watch.state.nodes[task.node].name for task in job.tasks] == [nodes[1]]
    finally:
        users.cluster.kubectl("delete", "job,pvc", "--all", "-n", users.namespace, "--wait=false")
        users.cluster.kubectl("delete", "storageclass,pv", name, "--ignore-not-found", "--wait=false")
