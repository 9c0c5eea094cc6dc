"""Taints of nodes, and a job whose pods do not tolerate them: nobody is evicted for what kube-scheduler would not bind."""

import copy

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
