"""TrainJobs with Kubeflow Trainer, which makes JobSets, whose real controller makes Jobs."""

from pathlib import Path
from typing import Any

import pytest
from tests.kits.controllers import JOBSET_NAME
from tests.kubernetes.bridge_system import POOL, BridgeSystem, Users
from tests.kubernetes.controller_story import (
    PODS,
    completes,
    fails,
    life_of_suspensions,
    pod_template,
    preempted_and_back,
    until_condition,
)

from bailiff_kubernetes import names

pytestmark = [pytest.mark.kubernetes, pytest.mark.long, pytest.mark.timeout(1800)]
SELECTOR = f"{JOBSET_NAME}=train"
API = "trainer.kubeflow.org/v1alpha1"


def runtime(template: dict[str, Any], limit: str = "backoffLimit") -> dict[str, Any]:
    """What the platform team installs: it knows nothing of Bailiff, but that an eviction is no failure.

    limit: the field by which no failure is allowed. By `backoffLimitPerIndex` the Job controller makes five evicted pods anew
    after 10 s, else after 160 s; but pods that a suspension ends count there.
    """
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
    step = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    job = {limit: 0, "podFailurePolicy": policy, "template": {"spec": template["spec"]}}
    node = {"name": "node", "template": {"metadata": step, "spec": job}}
    spec = {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [node]}}}
    return {"apiVersion": API, "kind": "TrainingRuntime", "metadata": {"name": "torch"}, "spec": spec}


def trainjob(template: dict[str, Any], pool: str) -> dict[str, Any]:
    """What the user writes. The label of its pods is an override of the runtime's template."""
    override = {"targetJobs": [{"name": "node"}], "metadata": template["metadata"]}
    spec = {
        "runtimeRef": {"name": "torch", "kind": "TrainingRuntime"},
        "trainer": {"numNodes": PODS},
        "podTemplateOverrides": [override],
    }
    metadata = {"name": "train", "labels": {names.POOL: pool}}
    return {"apiVersion": API, "kind": "TrainJob", "metadata": metadata, "spec": spec}


async def test_a_trainjob_is_preempted_comes_back_and_completes(trainer: Path, kubelet_users: Users, tmp_path: Path) -> None:
    users = kubelet_users
    users.may_use("trainjobs", "trainingruntimes")
    template = pod_template(users.watch.pool, tmp_path, name="node")
    users.apply(runtime(template, "backoffLimitPerIndex"))
    users.apply(trainjob(template, users.watch.pool))
    again = await preempted_and_back(users, "train", SELECTOR, tmp_path)
    assert [(group.count, group.gpu_milli) for group in again.demand.tasks] == [(PODS, 1000)]
    await completes(users, "train", tmp_path)
    await until_condition(users, "trainjobs", "train", "Complete")
    await users.watch.verify()


async def test_suspending_a_trainjob_pauses_its_job(trainer: Path, users: Users, system: BridgeSystem) -> None:
    users.may_use("trainjobs", "trainingruntimes")
    template = pod_template(POOL, name="node")
    suspended = trainjob(template, POOL)
    suspended["spec"]["suspend"] = True
    users.apply(runtime(template))
    users.apply(suspended)
    await life_of_suspensions(users, system, "trainjob", SELECTOR, lambda on: {"suspend": on})


async def test_a_trainjob_fails(trainer: Path, users: Users) -> None:
    users.may_use("trainjobs", "trainingruntimes")
    template = pod_template(POOL, name="node")
    template["metadata"]["annotations"] = {"offline-kubernetes/runs-for": "1s", "offline-kubernetes/exit-code": "3"}
    users.apply(runtime(template))
    users.apply(trainjob(template, POOL))
    await fails(users, "trainjob", "train", "Failed")
