"""Deployments, ReplicaSets and StatefulSets with their real controllers, on nodes that kwok plays."""

import pytest
from tests.kubernetes.bridge_system import USER, all_running
from tests.kubernetes.serving_story import jobs_of, replicated

from bailiff_core.records.decisions import PreemptionDecided
from bailiff_kubernetes import names

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]
URGENT = {names.PRIORITY_CLASS: "inference"}


def running(job):
    return [task.index for task in job.tasks if task.state == "running"]


def the_job(users, name="web"):
    """Of its present pods."""
    return max(jobs_of(users, name), key=lambda job: job.seq)


def now(users, job):
    """As the log has it by now."""
    return users.watch.state.jobs[job.id]


async def until_running(users, tasks, name="web"):
    await users.watch.until("they run", lambda _: bool(jobs_of(users, name)) and running(the_job(users, name)) == tasks)
    return the_job(users, name)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
async def test_replicas_are_one_job_that_is_preempted_one_by_one_and_comes_back(users, kind):
    users.apply(replicated(users, kind, "web", 3, 8))
    job = await until_running(users, [0, 1, 2])
    assert (job.user, job.class_name, job.minimum) == (f"kubernetes/{USER}", "train", 1)
    users.apply(users.job("urgent", pods=1, gpus=8, **URGENT))
    await users.until_phase("urgent", "running")
    assert (running(now(users, job)), now(users, job).attempt) == ([0, 1], 1), "the core runs on"
    await users.until_pods("app=web", "the last one waits", lambda pods: len(pods) == 3 and not all_running(3)(pods))
    users.kubectl("delete", "job", "urgent", "--wait=false")
    assert (await until_running(users, [0, 1, 2])).attempt == 1
    users.apply(users.job("all", pods=3, gpus=8, **URGENT))
    await users.until_phase("all", "running")
    users.kubectl("delete", "job", "all", "--wait=false")
    assert (await until_running(users, [0, 1, 2])).id == job.id, "it has kept its place"
    assert len(jobs_of(users, "web")) == 1
    victims = [victim.tasks for each in users.watch.facts(PreemptionDecided) for victim in each.victims if victim.job == job.id]
    assert victims == ["2", ""]


async def test_a_deployment_is_scaled_repaired_rolled_out_and_scaled_to_0(users):
    budget = {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}
    users.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": budget})
    users.apply(replicated(users, "Deployment", "web", 3, 2))
    first = await until_running(users, [0, 1, 2])
    assert first.minimum == 2
    users.kubectl("scale", "deployment", "web", "--replicas=4")
    await until_running(users, [0, 1, 2, 3])
    users.kubectl("scale", "deployment", "web", "--replicas=3")
    await until_running(users, [0, 1, 2])
    pods = users.cluster.get("pods", "-l", "app=web", "-n", users.namespace)["items"]
    stays = next(pod for pod in pods if "deletionTimestamp" not in pod["metadata"])
    users.kubectl("delete", "pod", stays["metadata"]["name"], "--wait=false")
    await users.watch.until("it has lost one", lambda _: len(running(now(users, first))) == 2)
    assert ((await until_running(users, [0, 1, 2])).attempt, len(jobs_of(users, "web"))) == (1, 1), "the others ran on"
    users.kubectl("set", "env", "deployment/web", "VERSION=2")
    await users.watch.until("the next template is another job", lambda _: len(jobs_of(users, "web")) == 2)
    second = await until_running(users, [0, 1, 2])
    assert (second.user, second.minimum <= 2) == (f"kubernetes/{USER}", True)
    await users.watch.until("the one before has ended", lambda _: now(users, first).phase == "cancelled")
    assert now(users, first).request_reason == "it was scaled to 0"
    users.kubectl("scale", "deployment", "web", "--replicas=0")
    await users.watch.until("it ends", lambda _: now(users, second).phase == "cancelled")
    users.kubectl("scale", "deployment", "web", "--replicas=1")
    again = await until_running(users, [0])
    assert again.id == f"{second.id}-2"
