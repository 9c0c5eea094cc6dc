"""An ordinary Job on a real kubelet with the real runtime: preempted for another Job, and back, with the true GPUs in the log."""

import copy
import json

import pytest
from tests.kubernetes.bridge_system import USER, all_running, clear_gpus, is_gated

from bailiff_core.model.placement_ranges import bits
from bailiff_core.records.decisions import PreemptionDecided
from bailiff_core.records.facts import NodeJoined, TaskExited, TaskReleased, TaskStarted
from bailiff_kubernetes import names
from bailiff_node_agent.runtime.kubernetes.pod_resources import PodResources

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]


def gpus_in_log(users, name):
    (task,) = users.of(name).tasks
    return {users.watch.state.nodes[task.node].devices[number].id for number in bits(task.devices)}


SAVES = (
    "trap 'until [ -s /notice/notice.json ]; do sleep 0.1; done; cp /notice/notice.json /seen; exit 0' TERM; sleep 3000 & wait"
)


def counts_everything(job, seen):
    """A Job that would fail with the first end that its controller counts. Its program keeps its notice, and ends with 0."""
    job = copy.deepcopy(job)
    del job["spec"]["podFailurePolicy"]
    job["spec"]["backoffLimit"] = 0
    item = {"path": "notice.json", "fieldRef": {"fieldPath": f"metadata.annotations['{names.NOTICE}']"}}
    spec = job["spec"]["template"]["spec"]
    spec["restartPolicy"] = "OnFailure"
    spec["volumes"] = [{"name": "notice", "downwardAPI": {"items": [item]}}, {"name": "seen", "hostPath": {"path": str(seen)}}]
    spec["containers"][0] |= {
        "command": ["/bin/sh", "-c", SAVES],
        "volumeMounts": [{"name": "notice", "mountPath": "/notice"}, {"name": "seen", "mountPath": "/seen"}],
    }
    return job


async def test_a_job_is_preempted_on_a_kubelet_and_comes_back(kubelet_users, system, tmp_path):
    users = kubelet_users
    users.apply(counts_everything(users.job("train", pods=1, gpus=5), tmp_path))
    (pod,) = await users.until_pods("job-name=train", "train runs", all_running(1))
    job = await users.until_phase("train", "running")
    assert job.user == f"kubernetes/{USER}"
    resources = PodResources(system.cluster.node().pod_resources)
    held = set(resources.devices_of(users.namespace, pod["metadata"]["name"]))
    assert len(held) == 5
    assert gpus_in_log(users, "train") == held

    users.apply(users.job("serve", pods=1, gpus=8, **{names.PRIORITY_CLASS: "inference"}))
    await users.until_pods("job-name=serve", "serve runs", all_running(1))
    await users.until_pods("job-name=train", "train is gated", lambda pods: sum(map(is_gated, pods)) == 1)
    serve = await users.until_phase("serve", "running")
    released = [fact.job for fact in users.watch.facts(TaskReleased) if fact.job in (job.id, serve.id)]
    assert released == [job.id], "its GPUs were proven free before they were given on"
    users.kubectl("delete", "job", "serve", "--wait=false")
    await users.until_phase("serve", "cancelled")

    await users.until_pods(
        "job-name=train",
        "train runs again",
        lambda pods: any(
            pod["status"].get("phase") == "Running" and pod["metadata"]["annotations"][names.TASK] != f"{job.id}-1-0"
            for pod in pods
        ),
    )
    await users.until_phase("train", "running")
    found = system.cluster.get("job", "train", "-n", users.namespace)["status"]
    assert (found.get("failed", 0), found.get("succeeded", 0)) == (0, 0), (
        f"a preemption is neither failure nor completion: {found}"
    )
    assert json.loads((tmp_path / "notice.json").read_text())["preemptor"] == serve.id
    assert f"preempted by {serve.id} (class inference" in users.kubectl(
        "get", "events.events.k8s.io", "-o", "custom-columns=N:.note"
    )
    await users.watch.verify()


async def test_a_job_whose_image_cannot_be_pulled_costs_its_victim_one_eviction(kubelet_users, system):
    users = kubelet_users
    joined = len(users.watch.facts(NodeJoined))
    system.restart_kubelet_agent(placement_timeout_s=5)
    await users.watch.until("its agent is back", lambda _: len(users.watch.facts(NodeJoined)) > joined)
    await users.watch.until("all eight GPUs are clear", lambda state: any(clear_gpus(node) == 8 for node in state.nodes.values()))
    users.apply(users.job("train", pods=1, gpus=5))
    train = await users.until_phase("train", "running")
    bad = copy.deepcopy(users.job("bad", pods=1, gpus=8, **{names.PRIORITY_CLASS: "inference"}))
    bad["spec"]["template"]["spec"]["containers"][0]["image"] = "localhost/no-such-image:1"
    users.apply(bad)

    await users.until_phase("bad", "pending", "reserved", "starting")
    await users.watch.until("an attempt did not start", lambda state: users.of("bad").start_failures >= 1)
    await users.until_phase("train", "running")
    assert users.of("train").attempt >= 2
    name = users.of("bad").id
    assert not [fact for fact in users.watch.facts(TaskStarted) if fact.job == name], "an image that is not there is no start"
    reasons = [fact.reason for fact in users.watch.facts(TaskExited) if fact.job == name]
    assert reasons
    assert all(reason.startswith("not started within 5 s: ") and "no-such-image" in reason for reason in reasons), reasons
    evicted = [fact for fact in users.watch.facts(PreemptionDecided) if any(each.job == train.id for each in fact.victims)]
    assert len(evicted) == 1
    await users.watch.verify()
