"""Objects as the API server has them, for tests of the bridge without a cluster."""

from collections.abc import Iterable, Mapping
from typing import Any

from bailiff_kubernetes import names

Object = dict[str, Any]
POOL = "test"


def pod_template(gpus: int = 1, labels: Mapping[str, str] | None = None, **spec: Any) -> Object:
    """A pod template with Bailiff's label and gate, whose one container requests these GPUs."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": str(gpus)}}}
    return {
        "metadata": {"labels": {names.POOL: POOL, **(labels or {})}},
        "spec": {"schedulingGates": [{"name": names.GATE}], "containers": [container], **spec},
    }


def job_object(
    name: str,
    pods: int = 1,
    gpus: int = 1,
    *,
    user: str = "ada",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A Job as the admission policies leave it."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": f"0a0a0a0a-{name}",
            "generation": 1,
            "resourceVersion": "1",
            "labels": {names.POOL: POOL, **(labels or {})},
            "annotations": {names.SUBMITTED_BY: user, **(annotations or {})},
        },
        "spec": {"parallelism": pods, "completions": pods, "template": pod_template(gpus), **spec},
        "status": {},
    }


def replicas_object(kind: str, name: str, replicas: int, gpus: int = 1, user: str = "ada", **spec: Any) -> Object:
    """A ReplicaSet or StatefulSet as the admission policies leave it."""
    item = job_object(name)
    template = pod_template(gpus, {"app": name})
    template["metadata"]["annotations"] = {names.SUBMITTED_BY: user}
    del item["metadata"]["annotations"][names.SUBMITTED_BY]
    return item | {"apiVersion": "apps/v1", "kind": kind, "spec": {"replicas": replicas, "template": template, **spec}}


def budget_object(name: str, **spec: Any) -> Object:
    """The PodDisruptionBudget of the pods of such an object."""
    metadata = {"name": name, "namespace": "team-a", "uid": f"budget-{name}", "resourceVersion": "1"}
    spec = {"selector": {"matchLabels": {"app": name}}, **spec}
    return {"kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def plain_pod(name: str, group: str = "", size: int = 1, gpus: int = 1, user: str = "ada") -> Object:
    """A pod that a user has made, of a pod group or alone."""
    labels = {"bailiff.io/pod-group": group, names.GANG_SIZE: str(size)} if group else {}
    pod = pod_template(gpus, labels)
    metadata = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": name}
    pod["metadata"] |= {**metadata, "annotations": {names.SUBMITTED_BY: user}}
    return {"apiVersion": "v1", "kind": "Pod", **pod, "status": {"phase": "Pending"}}


def gated(pods: Iterable[Object]) -> list[bool]:
    """Whether each pod has Bailiff's gate."""
    return [bool(pod["spec"].get("schedulingGates")) for pod in pods]


def message(pod: Object) -> str:
    """What its condition says."""
    return str(pod["status"]["conditions"][0]["message"])
