"""PyTorchJobs with Kubeflow's training operator, which makes the pods itself, each again under its name."""

from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.bridge_system import POOL, BridgeSystem, Users, all_running
from tests.kubernetes.controller_story import (
    completes,
    fails,
    life_of_suspensions,
    patch,
    pod_template,
    preempted_and_back,
    until_condition,
)

from bailiff_kubernetes import names

pytestmark = [pytest.mark.kubernetes, pytest.mark.long, pytest.mark.timeout(1800)]
SELECTOR = "training.kubeflow.org/job-name=train"


def pytorchjob(template: dict[str, Any], pool: str, *, restart: str = "OnFailure", workers: int = 4) -> dict[str, Any]:
    """A master and its workers. restart: the policy of the operator, which overrides that of the pods."""
    spec = {"restartPolicy": restart, "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "labels": {names.POOL: pool}},
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, **spec}, "Worker": {"replicas": workers, **spec}}},
    }


def on_fake_nodes(**annotations: str) -> dict[str, Any]:
    template = pod_template(POOL, name="pytorch")
    template["metadata"]["annotations"] = {
        f"offline-kubernetes/{name.replace('_', '-')}": value for name, value in annotations.items()
    }
    return template


async def test_a_pytorchjob_is_preempted_comes_back_and_completes(
    training_operator: Path, kubelet_users: Users, tmp_path: Path
) -> None:
    users = kubelet_users
    users.may_use("pytorchjobs")
    users.apply(pytorchjob(pod_template(users.watch.pool, tmp_path, name="pytorch"), users.watch.pool))
    again = await preempted_and_back(users, "train", SELECTOR, tmp_path)
    assert [(group.count, group.gpu_milli) for group in again.demand.tasks] == [(1, 1000), (4, 1000)]
    await completes(users, "train", tmp_path)
    await until_condition(users, "pytorchjobs", "train", "Succeeded")
    await users.watch.verify()


async def test_suspending_a_pytorchjob_pauses_its_job(training_operator: Path, users: Users, system: BridgeSystem) -> None:
    users.may_use("pytorchjobs")
    suspended = pytorchjob(on_fake_nodes(), POOL)
    suspended["spec"]["runPolicy"] = {"suspend": True}
    users.apply(suspended)
    await life_of_suspensions(users, system, "pytorchjob", SELECTOR, lambda on: {"runPolicy": {"suspend": on}})


async def test_a_pytorchjob_is_scaled(training_operator: Path, users: Users) -> None:
    users.may_use("pytorchjobs")
    job = pytorchjob(on_fake_nodes(), POOL, workers=2)
    job["metadata"]["annotations"] = {names.MIN_TASKS: "2"}
    users.apply(job)
    await users.until_pods(SELECTOR, "it runs", all_running(3))
    patch(users, "pytorchjob", "train", {"pytorchReplicaSpecs": {"Worker": {"replicas": 4}}})
    await users.until_pods(SELECTOR, "it runs with two workers more", all_running(5))
    await users.watch.until("the log has it", lambda _: users.of("train").size == 5)
    patch(users, "pytorchjob", "train", {"pytorchReplicaSpecs": {"Worker": {"replicas": 1}}})
    await users.until_pods(SELECTOR, "it runs with one worker", all_running(2))
    await users.watch.until("the log has it", lambda _: users.of("train").size == 2)
    await users.watch.verify()


async def test_a_pytorchjob_fails(training_operator: Path, users: Users) -> None:
    users.may_use("pytorchjobs")
    users.apply(pytorchjob(on_fake_nodes(runs_for="1s", exit_code="3"), POOL, restart="Never"))
    await fails(users, "pytorchjob", "train", "Failed")
