"""Workloads whose pods, or groups of pods, are jobs of their own: none waits for another, and none ends with another."""

import pytest
from tests.kits.bridge import World
from tests.kits.bridge_objects import POOL, gated, job_object, message, plain_pod, replicas_object

from bailiff_core.model.job_spec import WORKLOAD_UID
from bailiff_kubernetes import names
from bailiff_kubernetes_bridge.annotations import STATUS
from bailiff_kubernetes_bridge.submission import Rules
from bailiff_kubernetes_bridge.workloads.adapters import COMPLETION_INDEX

LWS = "leaderworkerset.sigs.k8s.io"


@pytest.fixture
def world():
    return World()


def state(world):
    """Each job's workload, with its phase and attempt."""
    return {job.id.removeprefix("team-a."): (job.phase, job.attempt) for job in world.jobs()}


def phases(world, name):
    return [job.phase for job in world.jobs() if job.demand.labels["kubernetes/name"].startswith(name)]


def runs(world):
    """All pods whose gates are open run, and their agents have said so."""
    world.settle()
    for job in world.jobs():
        if job.phase == "starting":
            world.story.started(job.id)
    world.settle()


def test_of_a_job_with_more_completions_than_pods_at_once_each_pod_is_a_job(world):
    world.add(job_object("sweep", pods=2, gpus=4, completions=5, labels={names.PRIORITY_CLASS: "build"}))
    runs(world)
    assert phases(world, "sweep") == ["running", "running"]
    assert {(job.user, job.class_name, job.size, job.gpus) for job in world.jobs()} == {("kubernetes/ada", "build", 1, 4)}
    said = "Apart: each of its pods says its own state: it runs 2 of 5 pods at once"
    assert world.objects["sweep"]["metadata"]["annotations"][STATUS] == said
    for index in range(5):
        world.finish(f"sweep-{index}", 0)
        runs(world)
    assert phases(world, "sweep") == ["succeeded"] * 5
    assert world.objects["sweep"]["status"]["conditions"][0]["type"] == "Complete"


def test_a_pod_with_a_number_keeps_its_place_when_it_is_preempted(world):
    world.add(job_object("sweep", pods=2, gpus=8, completions=5))
    runs(world)
    first = world.job("sweep-0")
    world.story.evict(first.id)
    world.evicted("sweep-0")
    runs(world)
    assert (world.job("sweep-0").id, world.job("sweep-0").attempt) == (first.id, 2)
    assert world.job("sweep-1").attempt == 1, "the other runs on"
    assert gated(world.pods_of("sweep-0")) == [False]


def test_an_index_that_fails_does_not_stop_the_others(world):
    world.add(job_object("sweep", pods=2, gpus=1, backoffLimitPerIndex=1))
    runs(world)
    for again in range(2):
        world.finish("sweep-1", 0, code=3)
        runs(world)
        assert world.job("sweep-0").phase == "running"
        assert world.job("sweep-0").attempt == 1
        assert phases(world, "sweep-1").count("failed") == again + 1
    assert phases(world, "sweep-1") == ["failed", "failed"], "its controller has given it up"
    world.finish("sweep-0", 0)
    assert world.job("sweep-0").phase == "succeeded"


def owned(name, kind, owner, labels=None, annotations=None, **more):
    pod = plain_pod(name, **more)
    pod["metadata"]["labels"] |= labels or {}
    pod["metadata"]["annotations"] |= annotations or {}
    pod["metadata"]["ownerReferences"] = [{"kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}]
    return pod


def led(group, worker):
    labels = {f"{LWS}/name": "serve", f"{LWS}/group-index": str(group), f"{LWS}/worker-index": str(worker)}
    name = f"serve-{group}" + (f"-{worker}" if worker else "")
    return owned(name, "StatefulSet", "serve", labels, {f"{LWS}/size": "2"}, gpus=4, user="system:lws")


def test_a_leader_and_its_workers_are_one_gang(world):
    template = {"metadata": {"labels": {names.POOL: POOL}}, "spec": {"containers": []}}
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
    item = job_object("serve")
    world.add(item | {"kind": "LeaderWorkerSet", "spec": spec}, led(0, 0), led(1, 0), led(1, 1))
    runs(world)
    assert state(world).keys() == {world.job("serve-1").id.removeprefix("team-a.")}
    assert message(world.pods["serve-0"]) == "not submitted to test: 1 of its 2 pods are there"
    world.add(led(0, 1))
    runs(world)
    assert phases(world, "serve") == ["running", "running"]
    assert {(job.user, job.size, job.gpus) for job in world.jobs()} == {("kubernetes/ada", 2, 8)}
    first = world.job("serve-0")
    world.story.evict(first.id)
    world.evicted("serve-0")
    again = [led(0, 0), led(0, 1)]
    for pod in again:
        pod["metadata"]["uid"] += "-again"
    world.add(*again)
    runs(world)
    assert (world.job("serve-0").id, world.job("serve-0").attempt, world.job("serve-1").attempt) == (first.id, 2, 1)


def test_a_set_that_is_deleted_after_a_preemption_keeps_no_place(world):
    """Nobody makes its pods again, and no GPUs are to be reserved for them."""
    template = {"metadata": {"labels": {names.POOL: POOL}}, "spec": {"containers": []}}
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
    world.add(job_object("serve") | {"kind": "LeaderWorkerSet", "spec": spec}, led(0, 0), led(0, 1))
    runs(world)
    job = world.job("serve-0")
    world.story.evict(job.id)
    world.evicted("serve-0")
    world.settle()
    assert not world.pods_of("serve-0")
    assert not job.cancelled, "its controller is about to make its pods anew"
    del world.objects["serve"]
    world.settle()
    assert job.cancelled


def test_a_gang_that_its_user_takes_apart_is_a_gang_no_longer(world):
    world.add(job_object("train", pods=2, gpus=4))
    first = world.run("train")
    world.change("train", parallelism=1)
    world.settle()
    assert first.cancelled
    assert first.request_reason == "its pods are jobs of their own now: it runs 1 of 2 pods at once"


def test_an_upgraded_bridge_finds_the_jobs_that_the_one_before_has_submitted(world):
    """By these names and uids: with others, all pods of the kind would be ended and started anew, once."""
    indexed = owned("sweep-0", "Job", "sweep", annotations={COMPLETION_INDEX: "0"})
    indexed["metadata"]["ownerReferences"][0]["uid"] = "0a0a0a0a-sweep"
    world.add(job_object("sweep", pods=1, completions=2), indexed)
    world.add(job_object("train"), replicas_object("ReplicaSet", "web", 1), replicas_object("StatefulSet", "db", 1))
    world.add(led(0, 0), led(0, 1), plain_pod("lone"), *(plain_pod(f"team-{at}", "team", 2) for at in range(2)))
    world.settle()
    found = {job.id.removeprefix("team-a."): job.demand.labels[WORKLOAD_UID] for job in world.jobs()}
    assert found == {
        "db-0a0a0a0a": "0a0a0a0a-db",
        "lone-uidlone": "uid-lone",
        "serve-0-c0f0fd61": "c0f0fd61022c396097cb373fd8033ae9",
        "sweep-0-469f17e8": "469f17e881140242a9e422fc62c2ad99",
        "team-9ff6fdfc": "9ff6fdfc0356b9b977b5b7ecb5b885de",
        "train-0a0a0a0a": "0a0a0a0a-train",
        "web-0a0a0a0a": "0a0a0a0a-web",
    }


ARGO = "system:serviceaccount:argo:argo"


def argo_pod(name, owner):
    pod = plain_pod(name, user=ARGO)
    pod["metadata"]["ownerReferences"] = [{"kind": "Workflow", "name": "w", "uid": owner, "controller": True}]
    return pod


def workflow(uid, user, owner=""):
    owners = [{"kind": "CronWorkflow", "name": "c", "uid": owner, "controller": True}] if owner else []
    return {"metadata": {"uid": uid, "annotations": {names.SUBMITTED_BY: user}, "ownerReferences": owners}}


@pytest.mark.parametrize("workflows", [[workflow("w1", "ada")], [workflow("w1", ARGO, "c1"), workflow("c1", "ada")]])
def test_the_user_of_a_workflow_is_the_requester_of_its_pods(world, workflows):
    world.rules = Rules("c1", controllers=(ARGO,))
    world.add(argo_pod("step", "w1"))
    world.settle()
    assert not world.jobs()
    assert message(world.pods["step"]).endswith(
        f"{ARGO} creates for others, and no workflow or experiment with the label {names.POOL} says for whom"
    )
    world.workflows = workflows
    world.settle()
    assert [job.user for job in world.jobs()] == ["kubernetes/ada"]


def test_the_user_of_an_experiment_is_the_requester_of_the_jobs_of_its_trials(world):
    world.rules = Rules("c1", controllers=(ARGO,))
    world.workflows = [workflow("t1", ARGO, "e1"), workflow("e1", "ada")]
    job = job_object("sweep-1", user=ARGO)
    job["metadata"]["ownerReferences"] = [{"kind": "Trial", "name": "sweep-1", "uid": "t1", "controller": True}]
    world.add(job)
    world.settle()
    assert [job.user for job in world.jobs()] == ["kubernetes/ada"]


@pytest.mark.parametrize("user", ["bob", ARGO])
def test_nobody_else_creates_for_the_user_of_a_workflow(world, user):
    world.rules = Rules("c1", controllers=() if user == ARGO else (ARGO,))
    world.workflows = [workflow("w1", "ada")]
    pod = argo_pod("step", "w1")
    pod["metadata"]["annotations"][names.SUBMITTED_BY] = user
    world.add(pod)
    world.settle()
    assert [job.user for job in world.jobs()] == [f"kubernetes/{user}"]
