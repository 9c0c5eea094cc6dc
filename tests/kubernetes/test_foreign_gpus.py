"""Pods that are in no pool get no GPUs of a cluster whose GPUs Bailiff gives out."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.kits.kubernetes_cluster import IMAGE, Cluster, wait_for
from tests.kubernetes.bridge_system import MANIFESTS

from bailiff_kubernetes import names

pytestmark = pytest.mark.kubernetes
SAYS = "Bailiff gives out the GPUs of this cluster: add the label bailiff.io/pool"
Try = Callable[..., str]


@pytest.fixture
def policy(kubernetes: Cluster, attempt: Try) -> Iterator[None]:
    """The policy, once it is in force."""
    kubernetes.kubectl("apply", "-f", str(MANIFESTS / "foreign-gpus.yaml"))
    wait_for(lambda: SAYS in attempt(1), "the policy is in force")
    yield
    kubernetes.kubectl("delete", "-f", str(MANIFESTS / "foreign-gpus.yaml"))


@pytest.fixture
def attempt(kubernetes: Cluster, kubernetes_namespace: str) -> Try:
    """Has the API server judge a user's pod with so many GPUs, without making it; returns what it answers."""
    kubernetes.kubectl("create", "rolebinding", "ada", "--user=ada", "--clusterrole=edit", "-n", kubernetes_namespace)

    def judge(
        gpus: int, *, where: str = "containers", labels: dict[str, str] | None = None, resource: str = "nvidia.com/gpu"
    ) -> str:
        plain = {"name": "plain", "image": IMAGE}
        asks = {"name": "asks", "image": IMAGE, "resources": {"limits": {resource: gpus, "cpu": "1"}}}
        spec = {"containers": [plain], "restartPolicy": "Never"}
        spec[where] = [*spec.get(where, ()), asks]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "foreign", "labels": labels or {}}, "spec": spec}
        try:
            return kubernetes.kubectl(
                "--as", "ada", "create", "--dry-run=server", "-n", kubernetes_namespace, "-f", "-", stdin=json.dumps(pod)
            )
        except AssertionError as refused:
            return str(refused)

    return judge


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize("where", ["containers", "initContainers"])
@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb"])
def test_a_pod_in_no_pool_is_refused_its_gpus(attempt: Try, where: str, resource: str) -> None:
    assert SAYS in attempt(1, where=where, resource=resource)


@pytest.mark.usefixtures("policy")
def test_all_rights_in_a_namespace_give_none_of_its_gpus(kubernetes: Cluster, kubernetes_namespace: str, attempt: Try) -> None:
    kubernetes.kubectl("create", "rolebinding", "all", "--user=ada", "--clusterrole=cluster-admin", "-n", kubernetes_namespace)
    assert SAYS in attempt(1)


@pytest.mark.usefixtures("policy")
def test_a_user_cannot_call_a_pod_a_task_of_bailiffs(attempt: Try) -> None:
    refusal = attempt(1, labels={names.TASK_HASH: "0" * 40})
    guarded = "only Bailiff sets the label bailiff.io/task-hash"  # where the bridge's policies are installed, too
    assert SAYS in refusal or guarded in refusal


@pytest.mark.usefixtures("policy")
def test_pods_of_a_pool_and_pods_without_gpus_are_not_concerned(attempt: Try) -> None:
    assert "created" in attempt(1, labels={names.POOL: "pool-a"})
    assert "created" in attempt(0)


@pytest.mark.usefixtures("policy")
def test_a_namespace_can_be_free_of_it(kubernetes: Cluster, kubernetes_namespace: str, attempt: Try) -> None:
    kubernetes.kubectl("label", "namespace", kubernetes_namespace, "bailiff.io/foreign-gpus=allowed")
    assert "created" in attempt(1)


@pytest.mark.usefixtures("policy")
def test_the_pods_of_a_deployment_are_refused_where_its_user_looks(kubernetes: Cluster, kubernetes_namespace: str) -> None:
    container = {"name": "serve", "image": IMAGE, "resources": {"limits": {"nvidia.com/gpu": 1}}}
    template = {"metadata": {"labels": {"app": "serve"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "serve"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "serve"}, "spec": spec}
    kubernetes.kubectl("apply", "-n", kubernetes_namespace, "-f", "-", stdin=json.dumps(deployment))

    def failures() -> list[str]:
        status: dict[str, Any] = kubernetes.get("deployment", "serve", "-n", kubernetes_namespace).get("status", {})
        return [each["message"] for each in status.get("conditions", []) if each["type"] == "ReplicaFailure"]

    wait_for(lambda: bool(failures()), "the Deployment says why it has no pod")
    assert SAYS in failures()[0]
