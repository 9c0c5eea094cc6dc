"""Workloads whose pods are jobs of their own, with their real controllers, on nodes that kwok plays."""

import copy

import pytest
import yaml
from tests.kubernetes.bridge_system import POOL, USER, all_running
from tests.kubernetes.serving_story import LABELS, jobs_of, replicated, template

from bailiff_kubernetes import names

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]


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
