"""Plain pods with Bailiff's label: a gang of `bailiff.io/gang-size` pods with one `bailiff.io/pod-group`, or one pod alone."""

import hashlib
from collections.abc import Iterable

from bailiff_kubernetes import names
from bailiff_kubernetes.resources import PODS, Object, annotations_of, controller_of, labels_of, uid_of
from bailiff_kubernetes_bridge.annotations import POD_GROUP, STATUS

from .common import checkpoint_of
from .model import PodResources, Role, Workload
from .quantities import BadPodSpec, pod_resources


def group_key(pod: Object) -> tuple[str, str]:
    """Namespace and name of the pod's group; a pod without a group is its own, with its uid as the name."""
    return pod["metadata"]["namespace"], labels_of(pod).get(POD_GROUP) or f"pod/{uid_of(pod)}"


def group_uid(key: tuple[str, str]) -> str:
    """An id of the group for as long as its name is used."""
    namespace, name = key
    return (
        name.removeprefix("pod/") if name.startswith("pod/") else hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:32]
    )


def role_of(pod: Object) -> str:
    """Pods with the same requests and node selector are one role."""
    try:
        resources = pod_resources(pod["spec"])
    except BadPodSpec:
        return "unknown"
    text = f"{resources}/{sorted((pod['spec'].get('nodeSelector') or {}).items())}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def pod_group(key: tuple[str, str], pods: Iterable[Object]) -> Workload:
    """The workload of these pods."""
    namespace, name = key
    members = sorted(pods, key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]))
    first, active = members[0], [pod for pod in members if not is_finished(pod) and not pod["metadata"].get("deletionTimestamp")]
    counts: dict[str, list[Object]] = {}
    for pod in active:
        counts.setdefault(role_of(pod), []).append(pod)
    roles, problem = [], ""
    for role, those in sorted(counts.items()):
        try:
            resources = pod_resources(those[0]["spec"])
        except BadPodSpec as error:
            resources, problem = PodResources(), f"pod {those[0]['metadata']['name']}: {error}"
        roles.append(Role(role, len(those), resources, dict(those[0]["spec"].get("nodeSelector") or {})))
    sizes = {_text(pod, names.GANG_SIZE) for pod in members}
    size = sizes.pop() if len(sizes) == 1 else None
    alone = name.startswith("pod/")
    expected = 1 if alone else int(size) if size is not None and size.isdecimal() else 0
    if not expected:
        problem = problem or f"all pods of a group need the same {names.GANG_SIZE}, a whole number"
    elif len(active) != expected:
        problem = problem or f"{len(active)} of its {expected} pods are there"
    users = {annotations_of(pod).get(names.SUBMITTED_BY, "") for pod in members}
    if len(users) > 1:
        problem = problem or "its pods were created by several users"
    minimum = _text(first, names.MIN_TASKS)
    return Workload(
        resource=PODS,
        namespace=namespace,
        name=first["metadata"]["name"] if alone else name,
        uid=group_uid(key),
        resource_version="",
        generation=1,
        pool=labels_of(first).get(names.POOL, ""),
        roles=tuple(roles),
        submitted_by=users.pop() if len(users) == 1 else "",
        min_tasks=int(minimum) if minimum is not None and minimum.isdecimal() else None,
        priority_class=labels_of(first).get(names.PRIORITY_CLASS, ""),
        kubernetes_priority_class=first["spec"].get("priorityClassName") or "",
        project=labels_of(first).get(names.PROJECT, ""),
        grace=annotations_of(first).get(names.GRACE, ""),
        can_suspend=False,
        requeues=not alone and all(controller_of(pod) is not None for pod in members),
        problem=problem,
        is_single_pod=alone,
        status=annotations_of(first).get(STATUS, ""),
        checkpoint=checkpoint_of(first),
    )


def is_finished(pod: Object) -> bool:
    """Whether its containers have ended for good."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _text(pod: Object, name: str) -> str | None:
    return annotations_of(pod).get(name) or labels_of(pod).get(name)
