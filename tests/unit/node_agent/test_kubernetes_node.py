"""What an agent reports about its Kubernetes node: capacity without what others use, labels, and why nothing may be placed."""

from typing import Any

import pytest

from bailiff_kubernetes.names import CORDONED_BY, TASK_HASH
from bailiff_kubernetes.quantities import quantity
from bailiff_node_agent.kubernetes_node import facts_of

GIB = 1 << 30


def node(**spec: Any) -> dict[str, Any]:
    metadata = {
        "name": "n1",
        "labels": {"zone": "a", "node-role.kubernetes.io/worker": ""},
        "managedFields": [{"manager": "kubectl-cordon", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}],
    }
    return {"metadata": metadata, "spec": spec, "status": {"allocatable": {"cpu": "8", "memory": "16Gi"}}}


def pod(cpu: str, memory: str, *, task: bool = False, phase: str = "Running") -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    labels = {TASK_HASH: "0" * 40} if task else {}
    return {"metadata": {"labels": labels}, "spec": {"containers": [container, {"name": "none"}]}, "status": {"phase": phase}}


def test_what_pods_of_others_request_is_not_bailiffs() -> None:
    facts = facts_of(node(), [pod("1500m", "1Gi"), pod("2", "2Gi", task=True), pod("4", "4Gi", phase="Succeeded")])
    assert (facts.cpu_milli, facts.memory_bytes) == (6500, 15 * GIB)
    assert facts.labels == {"zone": "a"}
    assert facts.cordon == ""


def test_sidecars_init_containers_and_requests_of_the_pod_itself_count() -> None:
    other = pod("1", "1Gi")
    sidecar = {"resources": {"requests": {"cpu": "500m"}}, "restartPolicy": "Always"}
    other["spec"] |= {"initContainers": [sidecar, {"resources": {"requests": {"memory": "3Gi"}}}]}
    assert (facts_of(node(), [other]).cpu_milli, facts_of(node(), [other]).memory_bytes) == (6500, 13 * GIB)
    other["spec"]["resources"] = {"requests": {"cpu": "4"}}
    assert facts_of(node(), [other]).cpu_milli == 4000


def test_a_node_that_others_fill_has_nothing_left() -> None:
    assert facts_of(node(), [pod("9", "20Gi")]).cpu_milli == 0


@pytest.mark.parametrize(
    ("spec", "cordon"),
    [
        ({"unschedulable": True}, "cordoned by kubectl-cordon"),
        ({"taints": [{"key": "gpu", "value": "broken", "effect": "NoSchedule"}]}, "taint gpu=broken:NoSchedule"),
        ({"taints": [{"key": "gpu", "effect": "PreferNoSchedule"}]}, ""),
    ],
)
def test_why_nothing_new_is_placed(spec: dict[str, Any], cordon: str) -> None:
    assert facts_of(node(**spec), []).cordon == cordon


def test_a_node_that_was_deleted_takes_nothing() -> None:
    facts = facts_of(None, [])
    assert (facts.cpu_milli, facts.cordon) == (0, "the node is not known in Kubernetes")


@pytest.mark.parametrize(
    ("text", "scale", "value"),
    [
        ("500m", 1000, 500),
        ("2", 1000, 2000),
        ("1.5Gi", 1, 3 * GIB // 2),
        ("128974848", 1, 128974848),
        ("1e3", 1, 1000),
        ("1n", 1, 1),
    ],
)
def test_quantities(text: str, scale: int, value: int) -> None:
    assert quantity(text, scale=scale) == value


@pytest.mark.parametrize("text", ["", "Gi", "1Qi", "one"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity(text)


def test_a_cordon_that_follows_a_drain_of_bailiffs_is_not_reported_back() -> None:
    drained = node(unschedulable=True)
    drained["metadata"]["annotations"] = {CORDONED_BY: "drain/pool-a/97"}
    assert facts_of(drained, []).cordon == ""


def test_a_taint_that_bailiffs_pods_tolerate_keeps_nothing_away() -> None:
    tainted = node(taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}])
    assert facts_of(tainted, [], ["nvidia.com/gpu"]).cordon == ""
    assert facts_of(tainted, []).cordon == "taint nvidia.com/gpu=present:NoSchedule"


def test_a_node_that_is_not_ready_takes_nothing_new() -> None:
    silent = node()
    silent["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}]
    assert facts_of(silent, []).cordon == "its condition Ready is Unknown: Kubelet stopped posting node status."
