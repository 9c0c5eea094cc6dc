"""The cluster as `reconcile` sees it: workloads with Bailiff's label, and their pods, made from the API's objects."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from bailiff_kubernetes import names, resources
from bailiff_kubernetes.task_keys import attempt_of

from .memo import Memo
from .responder import active_evictions
from .workloads.adapters import ADAPTERS, Adapter, is_of_group, pod_keys
from .workloads.common import checkpoint_of
from .workloads.model import Pod, Workload
from .workloads.node_affinity import required_terms
from .workloads.pod_groups import GroupKey, group_key, group_uid, is_finished, pod_group, role_of
from .workloads.replicas import budget_of
from .workloads.volumes import Storage, claim_names, claiming


@dataclass(frozen=True)
class ClusterView:
    """Workloads by uid, and their pods by the workload's uid. kinds: the kinds whose objects are known completely.

    nodes: by name. shown: the objects of `kubectl get bailiffjobs`, by namespace and name; None: the cluster does not have
    them. evictions: those to which Bailiff is to respond, by the pod's uid. storage: the claims of pods, and what may serve
    them. workflows: of Argo and Katib, by uid. quotas: of each namespace.
    """

    workloads: Mapping[str, Workload] = field(default_factory=dict)
    pods: Mapping[str, Sequence[Pod]] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset()
    nodes: Mapping[str, resources.Object] = field(default_factory=dict)
    shown: Mapping[tuple[str, str], resources.Object] | None = None
    evictions: Mapping[str, resources.Object] = field(default_factory=dict)
    storage: Storage = field(default_factory=Storage)
    workflows: Mapping[str, resources.Object] = field(default_factory=dict)
    quotas: Mapping[str, Sequence[resources.Object]] = field(default_factory=dict)


def cluster_view(
    pods: Iterable[resources.Object],
    objects: Mapping[str, Iterable[resources.Object]],
    nodes: Iterable[resources.Object] = (),
    memo: Memo | None = None,
    shown: Iterable[resources.Object] | None = None,
    evictions: Iterable[resources.Object] = (),
    storage: Sequence[resources.Object] = (),
    workflows: Iterable[resources.Object] = (),
    budgets: Iterable[resources.Object] = (),
    quotas: Iterable[resources.Object] = (),
) -> ClusterView:
    """objects: by kind; a kind that the cluster does not have is left out. memo: of the view before. storage: of all three kinds.
    budgets: PodDisruptionBudgets. quotas: ResourceQuotas.

    With it, a workload whose object and pods have not changed is the same `Workload` with the same pods.
    """
    kept = Memo() if memo is None else memo
    items = {kind: list(found) for kind, found in objects.items()}
    jobsets = {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in items.get(resources.JOBSETS.kind, ())}
    budgets_of, quotas_of = _by_namespace(budgets), _by_namespace(quotas)
    known: list[tuple[Adapter, resources.Object, Workload]] = []
    for adapter in ADAPTERS:
        for item in items.get(adapter.resource.kind, ()):
            beside = None
            if adapter.resource == resources.TRAIN_JOBS:
                beside = jobsets.get(resources.key_of(item))
            elif adapter.resource in (resources.REPLICA_SETS, resources.STATEFUL_SETS):
                beside = budget_of(item, budgets_of.get(item["metadata"]["namespace"], ()))
            workload = kept.of(("workload", resources.uid_of(item)), partial(adapter.workload, item, beside), item, beside)
            if workload.pool:
                known.append((adapter, item, workload))
    workloads = {workload.uid: workload for _, _, workload in known}
    owners = {adapter.key(item): (adapter, item, workload) for adapter, item, workload in known}
    members: dict[str, list[Pod]] = {}
    groups: dict[GroupKey, list[resources.Object]] = {}
    apart: dict[GroupKey, Workload] = {}
    for pod in pods:
        owner = next((owners[key] for key in pod_keys(pod) if key in owners), None)
        if owner is not None and owner[2].apart:
            groups.setdefault(group_key(pod), []).append(pod)
            apart[group_key(pod)] = owner[2]
        elif owner is not None:
            adapter, item, workload = owner
            members.setdefault(workload.uid, []).append(
                kept.of(("pod", resources.uid_of(pod)), partial(_member, adapter, item, workload.uid, pod), pod, item)
            )
        elif resources.labels_of(pod).get(names.POOL) and not _is_controlled_by_known_kind(pod):
            groups.setdefault(group_key(pod), []).append(pod)
    found: dict[str, Sequence[Pod]] = {
        uid: kept.of(("members", uid), partial(tuple, those), *those) for uid, those in members.items()
    }
    for key, those in groups.items():
        of = apart.get(key)
        workload, group = kept.of(("group", key), partial(_group, key, those, of), *those, of)
        workloads[workload.uid], found[workload.uid] = workload, group
    stored = kept.of(("storage",), partial(_storage, storage), *storage)
    kept.forget()
    by_name = {node["metadata"]["name"]: node for node in nodes}
    by_uid = {resources.uid_of(item): item for item in workflows}
    by_key = None if shown is None else {resources.key_of(item): item for item in shown}
    return ClusterView(
        workloads, found, frozenset(items) | {"Pod"}, by_name, by_key, active_evictions(evictions), stored, by_uid, quotas_of
    )


def _by_namespace(objects: Iterable[resources.Object]) -> Mapping[str, Sequence[resources.Object]]:
    found: dict[str, list[resources.Object]] = {}
    for item in objects:
        found.setdefault(item["metadata"]["namespace"], []).append(item)
    return found


def _storage(objects: Iterable[resources.Object]) -> Storage:
    found: dict[str, dict[tuple[str, str], resources.Object]] = {}
    for item in objects:
        found.setdefault(item["kind"], {})[resources.key_of(item)] = item
    volumes, classes = (
        {name: item for (_, name), item in found.get(each.kind, {}).items()}
        for each in (resources.VOLUMES, resources.STORAGE_CLASSES)
    )
    return Storage(found.get(resources.VOLUME_CLAIMS.kind, {}), volumes, classes)


def _member(adapter: Adapter, item: resources.Object, workload: str, pod: resources.Object) -> Pod:
    return _pod(pod, workload, *adapter.place(item, pod))


def _group(key: GroupKey, pods: Sequence[resources.Object], of: Workload | None) -> tuple[Workload, Sequence[Pod]]:
    uid = group_uid(key)
    return pod_group(key, pods, of), tuple(_pod(pod, uid, role_of(pod), None) for pod in pods)


def _is_controlled_by_known_kind(pod: resources.Object) -> bool:
    """Of a workload that is not labelled, or not listed yet: not a plain pod."""
    owner = resources.controller_of(pod)
    if is_of_group(resources.labels_of(pod)):
        return False
    return owner is not None and owner.get("kind") in {adapter.resource.kind for adapter in ADAPTERS} | {"RayCluster"}


def _is_disrupted(pod: resources.Object) -> bool:
    """Whether Bailiff has ended it: with exit code 0 that is no completion, neither for its Job nor for Bailiff."""
    return (resources.condition_of(pod, names.DISRUPTION_TARGET) or {}).get("status") == "True"


def _pod(item: resources.Object, workload: str, role: str, index: int | None) -> Pod:
    spec, condition = item.get("spec") or {}, resources.condition_of(item, names.PLACED)
    return Pod(
        namespace=item["metadata"]["namespace"],
        name=item["metadata"]["name"],
        uid=resources.uid_of(item),
        resource_version=str(item["metadata"].get("resourceVersion", "")),
        workload=workload,
        role=role,
        index=index,
        gated=resources.is_gated(item),
        node_terms=len(required_terms(spec)),
        tolerations=tuple(spec.get("tolerations") or ()),
        deleting=item["metadata"].get("deletionTimestamp") is not None,
        finished=is_finished(item),
        succeeded=(item.get("status") or {}).get("phase") == "Succeeded" and not _is_disrupted(item),
        preempts=spec.get("preemptionPolicy") != "Never",
        task_hash=resources.labels_of(item).get(names.TASK_HASH, ""),
        attempt=attempt_of(resources.annotations_of(item).get(names.TASK, "")),
        job=resources.annotations_of(item).get(names.JOB, ""),
        node=spec.get("nodeName") or "",
        nominated=(item.get("status") or {}).get("nominatedNodeName") or "",
        placed=None if condition is None else (str(condition.get("status")), str(condition.get("message") or "")),
        checkpoint=checkpoint_of(item),
        claims=claim_names(claiming(spec)),
        is_held=names.FINALIZER in (item["metadata"].get("finalizers") or ()),
    )
