"""Workloads whose pods are jobs of their own, with their real controllers, on nodes that kwok plays."""

import copy

import pytest
import yaml
from tests.kubernetes.bridge_system import POOL, USER, all_running

from bailiff_kubernetes import names

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]
LABELS = {names.POOL: POOL, names.PRIORITY_CLASS: "train"}
URGENT = {names.PRIORITY_CLASS: "inference"}


def template(users, gpus, **labels):
    found = copy.deepcopy(users.job("x", pods=1, gpus=gpus)["spec"]["template"])
    found["metadata"] |= {"labels": labels}
    return found


def replicated(users, kind, name, replicas, gpus):
    """With Bailiff's labels where a user puts them: on top."""
    pod = template(users, gpus, app=name)
    del pod["spec"]["restartPolicy"]
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "serviceName": name, "template": pod}
    if kind != "StatefulSet":
        del spec["serviceName"]
    else:
        spec["podManagementPolicy"] = "Parallel"
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "labels": LABELS}, "spec": spec}


def jobs_of(users, name):
    """Jobs of the workload's pods."""
    return [
        job
        for job in users.watch.state.jobs.values()
        if job.demand.labels["kubernetes/namespace"] == users.namespace and job.demand.labels["kubernetes/name"].startswith(name)
    ]


async def test_of_a_job_with_more_completions_than_pods_at_once_each_pod_is_a_job(users):
    job = copy.deepcopy(
        users.job("sweep", pods=2, gpus=8, pod={"offline-kubernetes/runs-for": "1s"}, **{names.PRIORITY_CLASS: "build"})
    )
    job["spec"]["completions"] = 5
    users.apply(job)

    async def complete():
        return users.cluster.get("job", "sweep", "-n", users.namespace)["status"].get("succeeded") == 5

    await users.watch.until_true("the Job completes", complete)
    await users.watch.until("each pod was a job", lambda _: [job.phase for job in jobs_of(users, "sweep")] == ["succeeded"] * 5)
    assert {(job.user, job.class_name, job.gpus, job.attempt) for job in jobs_of(users, "sweep")} == {
        (f"kubernetes/{USER}", "build", 8, 1)
    }


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
async def test_replicas_are_their_users_are_preempted_and_come_back(users, kind):
    users.apply(replicated(users, kind, "web", 2, 8))
    await users.until_pods("app=web", "it runs", all_running(2))
    await users.watch.until("the log has it", lambda _: [job.phase for job in jobs_of(users, "web")] == ["running"] * 2)
    first = {job.id for job in jobs_of(users, "web")}
    assert {(job.user, job.class_name) for job in jobs_of(users, "web")} == {(f"kubernetes/{USER}", "train")}
    users.apply(users.job("urgent", pods=2, gpus=8, **URGENT))
    await users.until_phase("urgent", "running")
    await users.until_pods("app=web", "a replica waits", lambda pods: len(pods) == 2 and not all_running(2)(pods))
    users.kubectl("delete", "job", "urgent", "--wait=false")
    await users.until_pods("app=web", "it runs again", all_running(2))
    await users.watch.until("the log has it", lambda _: sum(job.phase == "running" for job in jobs_of(users, "web")) == 2)
    again = {job.id for job in jobs_of(users, "web")}
    assert again == first, "it has kept its place"
    assert {job.user for job in jobs_of(users, "web")} == {f"kubernetes/{USER}"}


async def test_the_jobs_of_a_cron_job_are_its_users(users):
    job = {"spec": {"template": template(users, 1)}}
    spec = {"schedule": "* * * * *", "jobTemplate": job}
    users.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly", "labels": LABELS}, "spec": spec})
    await users.watch.until("its Job runs", lambda _: any(job.phase == "running" for job in jobs_of(users, "nightly")))
    assert {(job.user, job.class_name) for job in jobs_of(users, "nightly")} == {(f"kubernetes/{USER}", "train")}
    users.kubectl("delete", "cronjob", "nightly")


async def test_nobody_makes_pods_in_the_name_of_somebody_else(users):
    """A template that names another user is no way around the policies, nor are all rights in a namespace."""
    users.may_use()
    forged = replicated(users, "Deployment", "web", 1, 1)
    forged["spec"]["template"]["metadata"]["annotations"] = {names.SUBMITTED_BY: "root"}
    users.apply(forged)
    await users.until_pods("app=web", "it runs", all_running(1))
    users.kubectl(
        "patch",
        "deployment",
        "web",
        "--type=merge",
        "-p",
        yaml.safe_dump({"spec": {"template": {"metadata": {"annotations": {names.SUBMITTED_BY: "root", "changed": "yes"}}}}}),
    )
    await users.watch.until("its next pod is a job", lambda _: len(jobs_of(users, "web")) == 2)
    assert {job.user for job in jobs_of(users, "web")} == {f"kubernetes/{USER}"}


async def test_what_bailiff_cannot_place_is_refused_with_a_sentence(users):
    daemons = replicated(users, "DaemonSet", "agents", 1, 1)
    del daemons["spec"]["replicas"]
    with pytest.raises(AssertionError, match="Bailiff places no DaemonSet"):
        users.apply(daemons)
    job = copy.deepcopy(users.job("train", pods=1, gpus=1))
    job["metadata"]["labels"] = {"app": "train"}
    job["spec"]["template"]["metadata"]["labels"] = {names.POOL: POOL}
    with pytest.raises(AssertionError, match=r"put the label bailiff\.io/pool on the Job"):
        users.apply(job)
