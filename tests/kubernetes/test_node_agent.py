"""A pool with a Kubernetes node: real Kafka and services, the agent beside a real kubelet, jobs as pods.

The kubelet chooses the GPUs, and the log names those that it chose.
"""

import json
from typing import Any

import pytest
from tests.kits.kubernetes_cluster import IMAGE, Cluster
from tests.kits.system import Watch
from tests.kubernetes.kubelet_jobs import allocated, held, submit

from bailiff_core.records.decisions import PreemptionDecided
from bailiff_core.records.facts import DeviceCleared, DeviceQuarantined, NodeJoined, TaskReleased, TaskStarted

pytestmark = [pytest.mark.kafka, pytest.mark.kubernetes, pytest.mark.timeout(600)]


async def test_the_log_names_the_gpus_that_the_kubelet_chose_and_gives_none_twice(
    kubelet_pool: Watch, kubernetes: Cluster, kubernetes_namespace: str
) -> None:
    pool, before = kubelet_pool, len(kubelet_pool.entries)

    def new_facts(kind: type[Any]) -> list[Any]:
        found = (entry.record.data for entry in pool.entries[before:])
        return [data for data in found if isinstance(data, kind)]

    joined = pool.facts(NodeJoined)[-1]
    assert len(joined.devices) == 8
    assert joined.labels["bailiff.runtime/kubernetes"] == "true"

    # A pod of somebody else takes three GPUs: they leave the pool while it has them.
    limits = {"limits": {"nvidia.com/gpu": "3"}}
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "3000"], "resources": limits}
    spec = {"nodeName": kubernetes.node().name, "containers": [container], "terminationGracePeriodSeconds": 1}
    foreign = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "foreign"}, "spec": spec}
    kubernetes.kubectl("apply", "-n", kubernetes_namespace, "-f", "-", stdin=json.dumps(foreign))
    await pool.until("the foreign pod's GPUs are out of use", lambda state: state.nodes[0].quarantined.bit_count() == 3)
    assert {fact.reason for fact in new_facts(DeviceQuarantined)} == {"foreign"}
    holder = f"the pod {kubernetes_namespace}/foreign, which is not Bailiff's, has it"
    await pool.until_alarm("device-quarantined", holder)
    await submit(pool, "whole", 8)
    await pool.until("it is pending", lambda state: "whole" in state.jobs and state.jobs["whole"].phase == "pending")
    assert holder in pool.system.command(pool.pool, "explain", "whole")
    await pool.cancel("whole")

    # Three jobs of the other five; each has what the log says, and no GPU is named twice.
    sizes = {"a": 2, "b": 1, "c": 2}
    for job, gpus in sizes.items():
        await submit(pool, job, gpus)
    await pool.until_running(*sizes)
    for job, gpus in sizes.items():
        assert allocated(pool, job) == held(kubernetes, job)
        assert len(allocated(pool, job)) == gpus
    assert len(set.union(*(allocated(pool, job) for job in sizes))) == 5

    # The foreign pod goes, and its GPUs come back.
    kubernetes.kubectl("delete", "pod", "foreign", "-n", kubernetes_namespace)
    for _ in range(3):
        await pool.record(DeviceCleared)
    await pool.until("its GPUs are back", lambda state: state.nodes[0].quarantined == 0)

    # A more urgent job preempts; its victims' GPUs are proven free before it starts, and it gets the true ones.
    await submit(pool, "serve", 8, kind="inference")
    await pool.record(PreemptionDecided)
    await pool.until_running("serve")
    assert allocated(pool, "serve") == held(kubernetes, "serve")
    assert {fact.job for fact in new_facts(TaskReleased)} == {"a", "b", "c"}
    await pool.cancel("serve")
    for job in sizes:
        await pool.cancel(job)
    await pool.until("all are over", lambda state: not state.active)
    assert {fact.job for fact in new_facts(TaskStarted)} >= {*sizes, "serve"}
    await pool.verify()
