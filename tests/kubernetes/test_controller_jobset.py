"""JobSets with their real controller, which makes Jobs, whose controller makes the pods."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.kits.controllers import JOBSET_NAME
from tests.kubernetes.bridge_system import POOL, USER, BridgeSystem, Users, all_running
from tests.kubernetes.controller_story import (
    PODS,
    completes,
    fails,
    life_of_suspensions,
    pod_template,
    preempted_and_back,
    until_condition,
)

from bailiff_core.records.decisions import JobPlaced
from bailiff_kubernetes import names

pytestmark = [pytest.mark.kubernetes, pytest.mark.long, pytest.mark.timeout(1800)]
SELECTOR = f"{JOBSET_NAME}=train"


def jobset(template: dict[str, Any], pool: str) -> dict[str, Any]:
    """A driver, and two Jobs of two workers each: five pods. Their Jobs allow no failure."""
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}

    def job(pods: int) -> dict[str, Any]:
        counts = {"parallelism": pods, "completions": pods, "backoffLimit": 0}
        return {"spec": {**counts, "podFailurePolicy": policy, "template": template}}

    replicated = [{"name": "driver", "replicas": 1, "template": job(1)}, {"name": "workers", "replicas": 2, "template": job(2)}]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "labels": {names.POOL: pool}},
        "spec": {"replicatedJobs": replicated},
    }


async def test_a_jobset_is_preempted_comes_back_and_completes(
    jobset_controller: Path, kubelet_users: Users, tmp_path: Path
) -> None:
    users = kubelet_users
    users.may_use("jobsets")
    users.apply(jobset(pod_template(users.watch.pool, tmp_path), users.watch.pool))
    again = await preempted_and_back(users, "train", SELECTOR, tmp_path)
    assert again.user == f"kubernetes/{USER}"
    assert [(group.count, group.gpu_milli) for group in again.demand.tasks] == [(1, 1000), (4, 1000)]
    await completes(users, "train", tmp_path)
    await until_condition(users, "jobsets", "train", "Completed")
    status = users.cluster.get("jobset", "train", "-n", users.namespace)["status"]
    assert status.get("restarts", 0) == 0, f"a preemption is no failure: {status}"
    await users.watch.verify()


async def test_suspending_a_jobset_pauses_its_job(jobset_controller: Path, users: Users, system: BridgeSystem) -> None:
    users.may_use("jobsets")
    suspended = jobset(pod_template(POOL), POOL)
    suspended["spec"]["suspend"] = True
    users.apply(suspended)
    await life_of_suspensions(users, system, "jobset", SELECTOR, lambda on: {"suspend": on})


async def test_a_jobset_fails(jobset_controller: Path, users: Users) -> None:
    users.may_use("jobsets")
    template = pod_template(POOL)
    template["metadata"]["annotations"] = {"offline-kubernetes/runs-for": "1s", "offline-kubernetes/exit-code": "3"}
    users.apply(jobset(template, POOL))
    await fails(users, "jobset", "train", "Failed")


async def test_the_size_of_a_jobset_is_fixed_by_its_own_webhook(jobset_controller: Path, users: Users) -> None:
    users.may_use("jobsets")
    users.apply(jobset(pod_template(POOL), POOL))
    job = await users.until_phase("train", "running")
    larger = [{"op": "replace", "path": "/spec/replicatedJobs/1/replicas", "value": 3}]
    refused = users.refused("patch", "jobset", "train", "--type=json", "-p", json.dumps(larger))
    assert "field is immutable" in refused
    assert users.of("train").size == job.size


async def test_a_jobset_that_ends_its_own_workers_is_started_once(jobset_controller: Path, users: Users) -> None:
    users.may_use("jobsets")
    driver, workers = pod_template(POOL), pod_template(POOL)
    driver["metadata"]["annotations"] = {"offline-kubernetes/runs-for": "1s"}
    workers["metadata"]["annotations"] = {"offline-kubernetes/stops-after": "3"}
    ends_with_driver = jobset(workers, POOL)
    ends_with_driver["spec"]["successPolicy"] = {"operator": "All", "targetReplicatedJobs": ["driver"]}
    ends_with_driver["spec"]["replicatedJobs"][0]["template"]["spec"]["template"] = driver
    users.apply(ends_with_driver)
    job = await users.until_phase("train", "cancelled", "succeeded", "failed")
    await until_condition(users, "jobsets", "train", "Completed")
    assert (job.phase, job.request_reason) == ("cancelled", "the JobSet has completed")
    assert [fact.attempt for fact in users.watch.facts(JobPlaced, job=job.id)] == [1], "its GPUs were not taken once more"


async def test_the_jobs_of_a_jobset_start_in_order(jobset_controller: Path, users: Users) -> None:
    users.may_use("jobsets")
    in_order = jobset(pod_template(POOL), POOL)
    in_order["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    users.apply(in_order)
    found = await users.until_pods(SELECTOR, "all run", all_running(PODS))
    started = {pod["metadata"]["name"]: pod["metadata"]["creationTimestamp"] for pod in found}
    (driver,) = (name for name in started if name.startswith("train-driver"))
    assert started[driver] == min(started.values())
    assert (await users.until_phase("train", "running")).attempt == 1
