"""Ordinary workloads on a real API server with the real Job controller: gated, submitted, placed, preempted, and back.

The nodes are played by kwok, and the agent is a stand-in that only follows pods: nothing here proves anything about a real node.
"""

import json
import signal

import pytest
from tests.kubernetes.bridge_system import POOL, USER, all_running, attempts_of, is_gated

from bailiff_core.records.facts import JobSubmitted
from bailiff_kubernetes import names

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]


def condition(pod):
    return next((each for each in pod["status"].get("conditions", ()) if each["type"] == names.PLACED), {})


def tasks_of(pods):
    return {pod["metadata"]["annotations"][names.TASK] for pod in pods}


def tasks(job, pods):
    """One for each pod, all of one attempt that is not the first.

    It need not be the second: a workload's pods may vanish before the bridge sees that the workload is deleted. Its job is
    started anew then, and may preempt once more.
    """
    (attempt,) = attempts_of(pods)
    assert attempt > 1
    return {f"{job.id}-{attempt}-{n}" for n in range(len(pods))}


async def test_a_job_runs_is_preempted_and_comes_back(users, system):
    users.apply(users.job("train", pods=3, gpus=8))
    await users.until_pods("job-name=train", "train runs", all_running(3))
    job = await users.until_phase("train", "running")
    assert (job.user, job.user_verified) == (f"kubernetes/{USER}", True)
    (fact,) = [fact for fact in users.watch.facts(JobSubmitted) if fact.demand.job == job.id]
    assert fact.request.vouched_by.to_data() == {"issuer": "kubernetes:offline", "subject": USER}
    nodes = {pod["spec"]["nodeName"] for pod in users.pods("job-name=train")}
    assert nodes == set(system.cluster.fake_nodes)
    assert tasks_of(users.pods("job-name=train")) == {f"{job.id}-1-{n}" for n in range(3)}

    urgent = users.job("serve", pods=1, gpus=8, **{names.PRIORITY_CLASS: "inference"})
    users.apply(urgent)
    await users.until_pods("job-name=train", "train is gated again", lambda pods: len(pods) == 3 and all(map(is_gated, pods)))
    await users.until_phase("train", "pending", "reserved", "starting")
    users.kubectl("delete", "job", "serve", "--wait=false")
    await users.until_phase("serve", "cancelled")
    again = await users.until_pods("job-name=train", "train runs again", all_running(3))
    assert tasks_of(again) == tasks(job, again)
    await users.until_pods(
        "job-name=train", "it says so", lambda pods: all(condition(pod).get("status") == "True" for pod in pods)
    )
    # `Preempted`, or `Pending` where the eviction was over before the bridge saw it
    events = users.kubectl("get", "events.events.k8s.io", "-o", "custom-columns=R:.reason,N:.note", "--no-headers")
    assert f"preempted by {users.of('serve').id} (class inference" in events
    found = system.cluster.get("job", "train", "-n", users.namespace)["status"]
    assert found.get("failed", 0) == 0, f"a preemption is no failure: {found}"
    await users.watch.verify()


async def test_kubectl_shows_why_a_pod_waits(users, system):
    users.apply(users.job("first", pods=3, gpus=8))
    await users.until_phase("first", "running")
    users.apply(users.job("second", pods=1, gpus=8))
    await users.until_phase("second", "pending")
    (pod,) = await users.until_pods(
        "job-name=second", "it says why", lambda pods: bool(pods and condition(pods[0]).get("reason") == "Pending")
    )
    text = condition(pod)["message"]
    assert text.startswith(f"{users.of('second').id} is pending: ")
    assert f"({POOL}#" in text
    described = users.kubectl("describe", "pod", pod["metadata"]["name"])
    assert "Message:" in described
    assert text in described
    assert "SchedulingGated" in users.kubectl("get", "pods", "-l", "job-name=second")
    scheduled = next(each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled")
    assert (scheduled["reason"], scheduled["message"]) == ("SchedulingGated", text)
    job = await users.until_status("job", "second", f"Pending: {text}")
    assert [each["message"] for each in job["status"]["conditions"] if each["type"] == names.PLACED] == [text]


async def test_nobody_opens_a_gate_or_changes_who_submitted(users):
    users.apply(users.job("first", pods=3, gpus=8))
    await users.until_phase("first", "running")
    users.apply(users.job("second", pods=1, gpus=8, annotations={names.SUBMITTED_BY: "root"}))
    job = await users.until_phase("second", "pending")
    assert job.user == f"kubernetes/{USER}"
    (pod,) = users.pods("job-name=second")
    name = pod["metadata"]["name"]
    users.may_use()  # all rights in the namespace are none to open gates
    assert "only Bailiff removes" in users.refused("patch", "pod", name, "--type=merge", "-p", '{"spec":{"schedulingGates":[]}}')
    assert "only Bailiff sets" in users.refused("label", "pod", name, f"{names.TASK_HASH}=x")
    assert "cannot be changed" in users.refused("annotate", "job", "second", f"{names.SUBMITTED_BY}=bob", "--overwrite")
    assert "cannot be changed" in users.refused("label", "job", "second", f"{names.POOL}=other", "--overwrite")
    forged = json.dumps({"metadata": {"annotations": {names.SUBMITTED_BY: "bob"}}})
    for kind, object_name in (("pod", name), ("job", "second")):  # not even who may write a status, which takes annotations along
        patch = ("patch", kind, object_name, "-n", users.namespace, "--subresource=status", "--type=merge", "-p", forged)
        with pytest.raises(AssertionError, match="cannot be changed"):
            users.cluster.kubectl(*patch)


@pytest.mark.long
async def test_a_pod_group(users):
    labels = {names.POOL: POOL, "bailiff.io/pod-group": "ring", names.GANG_SIZE: "2"}
    container = {"name": "main", "image": "localhost/busybox:1", "resources": {"limits": {"nvidia.com/gpu": 4, "cpu": "1"}}}

    def pod(name):
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {"containers": [container]},
        }

    users.apply(pod("r-0"))
    await users.until_pods(
        "bailiff.io/pod-group=ring", "it waits", lambda pods: "1 of its 2 pods" in condition(pods[0]).get("message", "")
    )
    users.apply(pod("r-1"))
    await users.until_pods("bailiff.io/pod-group=ring", "the group runs", all_running(2))
    job = await users.until_phase("ring", "running")
    assert job.user == f"kubernetes/{USER}"
    users.apply(users.job("serve", pods=3, gpus=8, **{names.PRIORITY_CLASS: "inference"}))
    await users.until_pods("bailiff.io/pod-group=ring", "its pods are gone", lambda pods: not pods)
    users.kubectl("delete", "job", "serve", "--wait=false")
    await users.until_phase("serve", "cancelled")
    assert users.of("ring").ended_at is not None
    users.apply(pod("r-0"), pod("r-1"))
    await users.until_pods("bailiff.io/pod-group=ring", "the group runs again", all_running(2))
    assert (await users.until_phase("ring", "running")).id == f"{job.id}-2"


@pytest.mark.long
async def test_the_bridge_is_killed_at_every_step(users, system):
    """Each wait is for something that the bridge does, or that follows from it; it is killed before each."""
    selector = "job-name=train"
    system.restart_bridge()
    users.apply(users.job("train", pods=2, gpus=8))
    system.restart_bridge()
    job = await users.until_phase("train", "starting", "running")
    system.restart_bridge()
    await users.until_pods(selector, "train runs", all_running(2))
    system.restart_bridge()
    users.apply(users.job("serve", pods=3, gpus=8, **{names.PRIORITY_CLASS: "inference"}))
    system.restart_bridge()
    await users.until_phase("serve", "reserved", "starting", "running")
    system.restart_bridge()
    await users.until_pods(selector, "train is gated again", lambda pods: len(pods) == 2 and all(map(is_gated, pods)))
    system.restart_bridge()
    users.kubectl("delete", "job", "serve", "--wait=false")
    await users.until_phase("serve", "cancelled")
    system.restart_bridge()
    again = await users.until_pods(selector, "train runs again", all_running(2))
    assert tasks_of(again) == tasks(job, again)
    users.kubectl("patch", "job", "train", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    system.restart_bridge()
    await users.until_phase("train", "paused")
    users.kubectl("patch", "job", "train", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    system.restart_bridge()
    await users.until_pods(selector, "train runs after its pause", all_running(2))
    users.kubectl("delete", "job", "train", "--wait=false")
    system.restart_bridge()
    await users.until_phase("train", "cancelled")
    submitted = [fact.demand.job for fact in users.watch.facts(JobSubmitted)]
    assert len(submitted) == len(set(submitted))
    await users.watch.verify()


@pytest.mark.long
async def test_a_second_bridge_takes_over(users, system):
    second = system.start_bridge("-2")
    try:
        system.stack.processes.wait_ready(second)
        assert await system.metric(second, "bailiff_bridge_leader") == 0
        system.signal("kubernetes-bridge", signal.SIGSTOP)
        users.apply(users.job("train", pods=2, gpus=4))
        await users.until_pods("job-name=train", "train runs", all_running(2))
        assert await system.metric(second, "bailiff_bridge_leader") == 1

        # The first one wakes up, and took itself for the leader when it fell asleep.
        system.signal("kubernetes-bridge", signal.SIGCONT)
        users.apply(users.job("more", pods=2, gpus=4))
        await users.until_pods("job-name=more", "more runs", all_running(2))

        async def follows():
            return await system.metric("kubernetes-bridge", "bailiff_bridge_leader") == 0

        await users.watch.until_true("the first bridge follows", follows)
        assert await system.metric(second, "bailiff_bridge_leader") == 1
        submitted = [fact.demand.job for fact in users.watch.facts(JobSubmitted)]
        assert len(submitted) == len(set(submitted))
        system.stack.processes.kill9(second)
        users.kubectl("delete", "job", "train", "--wait=false")
        await users.until_phase("train", "cancelled")
        await users.watch.verify()
    finally:
        system.signal("kubernetes-bridge", signal.SIGCONT)
        system.stack.processes.stop(second)


@pytest.mark.long
async def test_cancelled_in_bailiff_it_is_suspended_and_can_be_resumed(users, system):
    users.apply(users.job("train", pods=1, gpus=8))
    job = await users.until_phase("train", "running")
    system.command(POOL, "cancel", job.id, "--reason", "wrong data", "--key", str(system.key_file), "--actor", "kubernetes")
    await users.until_phase("train", "cancelled")
    await users.until_pods("job-name=train", "its pods are gone", lambda pods: not pods)
    found = await users.until_status("job", "train", f"Cancelled: {job.id} has been cancelled by kubernetes: wrong data ({POOL}#")
    assert found["spec"]["suspend"] is True
    users.kubectl("patch", "job", "train", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    await users.until_pods("job-name=train", "it runs again", all_running(1))
    assert (await users.until_phase("train", "running")).id == f"{job.id}-2"


@pytest.mark.long
async def test_a_job_completes(users):
    users.apply(users.job("train", pods=2, gpus=1, pod={"offline-kubernetes/runs-for": "1s"}))
    job = await users.until_phase("train", "succeeded")
    assert job.attempt == 1


@pytest.mark.long
async def test_a_job_is_scaled(users):
    users.apply(users.job("train", pods=2, gpus=4, annotations={names.MIN_TASKS: "1"}))
    await users.until_phase("train", "running")
    users.kubectl("patch", "job", "train", "--type=merge", "-p", '{"spec":{"parallelism":4,"completions":4}}')
    await users.until_pods("job-name=train", "train runs with four", all_running(4))
    await users.watch.until("the log has it", lambda _: users.of("train").size == 4)
