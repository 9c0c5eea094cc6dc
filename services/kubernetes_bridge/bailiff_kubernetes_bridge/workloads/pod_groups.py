"""Pods that are jobs without a workload: a gang of `bailiff.io/gang-size` pods with one `bailiff.io/pod-group`, a leader with its
workers, or one pod alone. A pod or group that has a number is the same one when its controller makes it anew."""

import hashlib
from collections.abc import Iterable

from bailiff_kubernetes import names
from bailiff_kubernetes.quantities import whole_number
from bailiff_kubernetes.resources import (
    JOBS,
    LEADER_WORKER_SETS,
    PODS,
    Object,
    annotations_of,
    controller_of,
    labels_of,
    owner_of,
    uid_of,
)
from bailiff_kubernetes_bridge.annotations import POD_GROUP, STATUS

from .adapters import COMPLETION_INDEX, LWS_GROUP, LWS_NAME, LWS_SIZE
from .common import checkpoint_of, grace_of, make_role
from .model import Workload
from .node_affinity import required_terms
from .quantities import BadPodSpec, pod_resources
from .volumes import claim_names, claiming

GroupKey = tuple[str, str, str]
"""Namespace, uid of the controller whose pods have numbers, and name of a group; without a group it is the uid of its pod."""


def group_key(pod: Object) -> GroupKey:
    labels, owner = labels_of(pod), controller_of(pod)
    namespace, index = pod["metadata"]["namespace"], annotations_of(pod).get(COMPLETION_INDEX)
    if POD_GROUP in labels:
        return namespace, "", labels[POD_GROUP]
    if LWS_NAME in labels:
        return namespace, LWS_NAME, f"{labels[LWS_NAME]}-{labels.get(LWS_GROUP, '')}"
    if owner is not None and owner["kind"] == JOBS.kind and index is not None:
        return namespace, owner["uid"], f"{owner['name']}-{index}"
    return namespace, "", f"pod/{uid_of(pod)}"


def maker_of(workload: Workload) -> str:
    """The second part of the keys of the groups that this workload makes."""
    return LWS_NAME if workload.resource == LEADER_WORKER_SETS else workload.uid


def _stays(pod: Object) -> bool:
    return not is_finished(pod) and not pod["metadata"].get("deletionTimestamp")


def _age(pod: Object) -> tuple[str, str]:
    return pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]


def group_uid(key: GroupKey) -> str:
    """An id of the group for as long as its name is used."""
    namespace, owner, name = key
    if name.startswith("pod/"):
        return name.removeprefix("pod/")
    return hashlib.sha256("/".join((namespace, *filter(None, (owner,)), name)).encode()).hexdigest()[:32]


def role_of(pod: Object) -> str:
    """Pods with the same requests, node selector, node affinity and claims are one role."""
    try:
        resources = pod_resources(pod["spec"])
    except BadPodSpec:
        return "unknown"
    text = f"{resources}/{sorted((pod['spec'].get('nodeSelector') or {}).items())}"
    affinity = [term["matchExpressions"] for term in required_terms(pod["spec"]) if term.get("matchExpressions")]
    if affinity:  # without the node that an open gate has added
        text += f"/{affinity}"
    if claims := sorted(claim_names(claiming(pod["spec"]))):
        text += f"/{claims}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def pod_group(key: GroupKey, pods: Iterable[Object], of: Workload | None) -> Workload:
    """The workload of these pods. of: the workload whose pods are apart, which says what they do not."""
    namespace, controller, name = key
    members = sorted(pods, key=_age)
    first, active = members[0], [pod for pod in members if _stays(pod)]
    counts: dict[str, list[Object]] = {}
    for pod in active:
        counts.setdefault(role_of(pod), []).append(pod)
    roles, problem = [], ""
    for role, those in sorted(counts.items()):
        try:
            roles.append(make_role(role, len(those), those[0]["spec"]))
        except BadPodSpec as error:
            problem = f"pod {those[0]['metadata']['name']}: {error}"
    alone, is_led = name.startswith("pod/"), controller == LWS_NAME
    sizes = {annotations_of(pod).get(LWS_SIZE) if is_led else _text(pod, names.GANG_SIZE) for pod in members}
    size = sizes.pop() if len(sizes) == 1 else None
    is_one = alone or bool(controller and not is_led)
    expected = 1 if is_one else max(0, whole_number(size) or 0)
    if not expected:
        problem = problem or f"all pods of a group need the same {names.GANG_SIZE}, a whole number"
    elif len(active) != expected:
        problem = problem or f"{len(active)} of its {expected} pods are there"
    users = {annotations_of(pod).get(names.SUBMITTED_BY, "") for pod in members} if of is None else {of.submitted_by}
    owners = {owner_of(pod) for pod in members} if of is None else {of.owner}
    if len(users) > 1:
        problem = problem or "its pods were created by several users"
    return Workload(
        resource=PODS,
        namespace=namespace,
        name=first["metadata"]["name"] if alone else name,
        uid=group_uid(key),
        resource_version="",
        generation=1,
        pool=labels_of(first).get(names.POOL, "") if of is None else of.pool,
        roles=tuple(roles),
        submitted_by=users.pop() if len(users) == 1 else "",
        owner=owners.pop() if len(owners) == 1 else "",
        min_tasks=whole_number(_text(first, names.MIN_TASKS)),
        priority_class=labels_of(first).get(names.PRIORITY_CLASS, "") if of is None else of.priority_class,
        kubernetes_priority_class=first["spec"].get("priorityClassName") or "",
        project=labels_of(first).get(names.PROJECT, "") if of is None else of.project,
        grace=annotations_of(first).get(names.GRACE) or grace_of(pod["spec"] for pod in members) if of is None else of.grace,
        preempts=all(pod["spec"].get("preemptionPolicy") != "Never" for pod in members),
        requeues=not alone and all(controller_of(pod) is not None for pod in members),
        problem=problem or ("" if of is None else of.problem),
        is_single_pod=alone,
        in_place=bool(controller),
        status=annotations_of(first).get(STATUS, ""),
        checkpoint=checkpoint_of(first),
    )


def is_finished(pod: Object) -> bool:
    """Whether its containers have ended for good."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _text(pod: Object, name: str) -> str | None:
    return annotations_of(pod).get(name) or labels_of(pod).get(name)
