"""Carries out actions on the cluster. Each change names the version or uid of the object that it was computed from."""

import hashlib
from datetime import UTC, datetime
from typing import Any

from bailiff_kubernetes import AlreadyExists, Api, names
from bailiff_kubernetes.client import micro_time, reference_to, seconds_time
from bailiff_kubernetes.disruption import mark_disrupted
from bailiff_kubernetes.names import task_hash
from bailiff_kubernetes.resources import BAILIFF_JOBS, EVENTS, EVICTIONS, JOBS, NODES, PODS, Object, annotations_of

from .actions import (
    Change,
    CopyCheckpoint,
    CordonNode,
    DeletePod,
    EndPod,
    MarkPod,
    Nominate,
    OpenGate,
    Respond,
    SetPodStatus,
    SetWorkloadStatus,
    Show,
    StopWorkload,
)
from .annotations import DELETION_COST, STATUS, STOPPED_FOR
from .cluster import ClusterWatch
from .messages import Status
from .workloads.adapters import BY_KIND
from .workloads.model import Pod, Workload
from .workloads.node_affinity import NODE_TERMS


class CarryOut:
    """instance: this replica's name, in Events."""

    def __init__(self, api: Api, watch: ClusterWatch, instance: str) -> None:
        self._api, self._watch, self._instance = api, watch, instance

    async def __call__(self, action: Change) -> None:
        """Raises `ApiError`: of a conflict, if the object has changed meanwhile."""
        match action:
            case OpenGate():
                await self._open_gate(action)
            case MarkPod(pod, job):
                await self._patch_pod(pod, {"metadata": {"annotations": {names.JOB: job}}})
            case Nominate(pod, node, job):
                annotations = {"annotations": {names.JOB: job}} if job else {}  # the victims' agents wait for it
                patch: Object = {"metadata": annotations, "status": {"nominatedNodeName": node or None}}
                await self._patch_pod(pod, patch, subresource="status")
            case CopyCheckpoint(pod, checkpoint):
                await self._patch_pod(pod, {"metadata": {"annotations": dict(checkpoint)}})
            case DeletePod(pod, message):
                await self._event(_pod_reference(pod), Status("JobEnded", message))
                await self._api.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
            case EndPod(pod, message):
                await self._end_pod(pod, message)
            case SetPodStatus(pod, status, job):
                await self._set_pod_status(pod, status, job)
            case SetWorkloadStatus(workload, status, job):
                await self._set_workload_status(workload, status, job)
            case Show():
                await self._show(action)
            case StopWorkload(workload, job, message):
                await self._event(_workload_reference(workload), Status("Suspended", message))
                suspended = BY_KIND[workload.resource.kind].suspend(True)
                await self._patch_workload(workload, {**suspended, "metadata": {"annotations": {STOPPED_FOR: job}}})
            case Respond(eviction, message, is_complete):
                await self._respond(eviction, message, is_complete)
            case CordonNode(name, version, mark):
                metadata = {"resourceVersion": version, "annotations": {names.CORDONED_BY: mark or None}}
                patch = {"metadata": metadata, "spec": {"unschedulable": bool(mark) or None}}
                await self._api.patch(NODES, name, patch)

    async def _open_gate(self, action: OpenGate) -> None:
        """Labels, node and gate change in one patch: no scheduler sees the pod without its node."""
        pod = self._watch.pods.get(action.pod.name, action.pod.namespace)
        if pod is None or pod["metadata"]["resourceVersion"] != action.pod.resource_version:
            return  # it has changed: it is computed anew
        spec = pod["spec"]
        gates = [gate for gate in spec.get("schedulingGates") or [] if gate["name"] != names.GATE]
        affinity = pinned(spec.get("affinity") or {}, action.node)
        has_cost = not action.deletion_cost or DELETION_COST in annotations_of(pod)  # its user's own
        cost = {} if has_cost else {DELETION_COST: action.deletion_cost}
        await self._patch_pod(
            action.pod,
            {
                "metadata": {
                    "labels": {names.TASK_HASH: task_hash(action.task_key)},
                    "annotations": {names.TASK: action.task_key, names.JOB: action.job, **cost},
                },
                "spec": {"schedulingGates": gates, "affinity": affinity},
            },
        )

    async def _patch_pod(self, pod: Pod, patch: Object, subresource: str | None = None) -> None:
        metadata = {**patch["metadata"], "resourceVersion": pod.resource_version, "uid": pod.uid}
        await self._api.patch(PODS, pod.name, {**patch, "metadata": metadata}, pod.namespace, subresource=subresource)

    async def _patch_workload(self, workload: Workload, patch: Object) -> None:
        metadata = {**patch["metadata"], "uid": workload.uid}
        await self._api.patch(workload.resource, workload.name, {**patch, "metadata": metadata}, workload.namespace)

    async def _end_pod(self, pod: Pod, message: str) -> None:
        """Its controller counts nothing. Only as it is: it may have ended by itself meanwhile."""
        await self._event(_pod_reference(pod), Status("AttemptOver", message, warning=True))
        marked = await mark_disrupted(self._api, pod.namespace, pod.name, pod.uid, message, resource_version=pod.resource_version)
        version = marked["metadata"]["resourceVersion"]
        await self._api.delete(PODS, pod.name, pod.namespace, uid=pod.uid, resource_version=version)

    async def _set_pod_status(self, pod: Pod, status: Status, job: str) -> None:
        """`status.message` is what `kubectl describe pod` shows. A gated pod's `PodScheduled` gets the text as well.

        With the version of the pod: otherwise a late write could say of a scheduled pod that it is gated. The API server takes a
        pod's annotations with its status.
        """
        await self._event(_pod_reference(pod), status)
        conditions = [_condition(status)]
        if pod.gated:
            gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": status.message}
            conditions.append(gated)
        annotations = {"annotations": {names.JOB: job}} if job else {}
        patch = {
            "metadata": {"uid": pod.uid, "resourceVersion": pod.resource_version, **annotations},
            "status": {"conditions": conditions, "message": status.message if pod.gated else None},
        }
        await self._api.patch(PODS, pod.name, patch, pod.namespace, form="strategic", subresource="status")

    async def _set_workload_status(self, workload: Workload, status: Status, job: str) -> None:
        """The annotation comes last: while it has the old text, all of this is done again."""
        await self._event(_workload_reference(workload), status)
        if workload.resource == JOBS:
            await self._api.patch_status(
                JOBS, workload.name, {"conditions": [_condition(status)]}, workload.namespace, workload.uid
            )
        await self._patch_workload(workload, {"metadata": {"annotations": {STATUS: status.line, names.JOB: job or None}}})

    async def _show(self, action: Show) -> None:
        item, metadata = action.item, action.item["metadata"]
        if not action.shown_version:
            await self._api.create(BAILIFF_JOBS, item, metadata["namespace"])
            return
        patch: list[Object] = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": action.shown_version},
            {"op": "add", "path": "/metadata/ownerReferences", "value": metadata["ownerReferences"]},
            {"op": "add", "path": "/status", "value": item["status"]},
        ]
        await self._api.patch(BAILIFF_JOBS, metadata["name"], patch, metadata["namespace"], form="json")

    async def _respond(self, eviction: Object, message: str, is_complete: bool) -> None:
        now = seconds_time(datetime.now(UTC))
        answer = {"name": names.RESPONDER, "message": message, "heartbeatTime": now}
        if is_complete:
            answer["completionTime"] = now
        metadata = {name: eviction["metadata"][name] for name in ("uid", "resourceVersion")}
        patch = {"metadata": metadata, "status": {"responders": [answer]}}
        name, namespace = eviction["metadata"]["name"], eviction["metadata"]["namespace"]
        await self._api.patch(EVICTIONS, name, patch, namespace, form="strategic", subresource="status")

    async def _event(self, about: Object, status: Status) -> None:
        """Its name follows from object and text, so that a repeat makes no second Event."""
        digest = hashlib.sha256(f"{about['uid']}/{status.line}".encode()).hexdigest()[:16]
        body: Object = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": f"{about['name'][:200]}.{digest}", "namespace": about["namespace"]},
            "eventTime": micro_time(datetime.now(UTC)),
            "reportingController": "bailiff.io/kubernetes-bridge",
            "reportingInstance": self._instance[:128],
            "action": "Scheduling",
            "reason": status.reason,
            "regarding": about,
            "note": status.message.encode()[:1024].decode(errors="ignore"),
            "type": "Warning" if status.warning else "Normal",
        }
        try:
            await self._api.create(EVENTS, body, about["namespace"])
        except AlreadyExists:
            return


def pinned(affinity: dict[str, Any], node: str) -> dict[str, Any]:
    """The pod's affinity, and this node only. A gated pod's terms may only become narrower: each gets the node."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    node_affinity = affinity.get("nodeAffinity") or {}
    terms = (node_affinity.get(NODE_TERMS) or {}).get("nodeSelectorTerms") or [{}]
    narrowed = [{**term, "matchFields": [*(term.get("matchFields") or []), field]} for term in terms]
    return {**affinity, "nodeAffinity": {**node_affinity, NODE_TERMS: {"nodeSelectorTerms": narrowed}}}


def _condition(status: Status) -> Object:
    return {
        "type": names.PLACED,
        "status": "True" if status.placed else "False",
        "reason": status.reason,
        "message": status.message,
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _pod_reference(pod: Pod) -> Object:
    return _reference(PODS.api_version, PODS.kind, pod)


def _workload_reference(workload: Workload) -> Object:
    return _reference(workload.resource.api_version, workload.resource.kind, workload)


def _reference(api_version: str, kind: str, item: Pod | Workload) -> Object:
    metadata = {"name": item.name, "namespace": item.namespace, "uid": item.uid}
    return reference_to({"apiVersion": api_version, "kind": kind, "metadata": metadata})
