"""A pod until a scheduler has bound it to this node: created once, or taken over from a workload's controller, or given up.

And the other end: its removal once its devices are free.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace

from bailiff_kubernetes import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Object,
    TooManyRequests,
    Unreachable,
    pod_name,
    task_hash,
)
from bailiff_kubernetes.disruption import mark_disrupted
from bailiff_kubernetes.names import CLAIMS_GATE, FINALIZER, TASK_HASH, TASK_RECORD
from bailiff_kubernetes.resources import PODS, uid_of
from bailiff_node_agent.runtime.port import Running
from bailiff_node_agent.runtime.supervisor.host import boottime_us

from . import pod_status
from .claims import is_shared, own_claim
from .manifest import affinity, key_of_pod
from .pod_node import PodNode
from .pod_record import PodRecord, record_in
from .task_files import TaskOrder

POLL_S = 1.0


class NotStarted(Exception):
    """The task's pod never ran; the message says why."""


class Placement:
    """order: with the pod's uid, once that is known. wait: until something happens to the pod, at most so many seconds."""

    def __init__(
        self, node: PodNode, order: TaskOrder, manifest: Object | None, wait: Callable[[float], Awaitable[None]]
    ) -> None:
        self.order = order
        self._node, self._manifest, self._wait = node, manifest, wait
        self._hash = task_hash(str(order.key))
        self._claims = node.files.claims.read(order.key) or []
        """Those that the pod is to own. Shared ones are looked at until it is bound: they may go with their other owners."""
        self._missing: list[Object] = []
        """Those that it did not own when they were looked at."""
        self._is_gated = any(map(is_shared, self._claims))

    async def placed(self) -> Object:
        """The pod, once a scheduler has bound it to this node. Raises `NotStarted`."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._node.settings.placement_timeout_s
        while True:
            pod = self._node.find(self._hash, self.order.uid, self.order.namespace)
            if pod is not None:
                await self._take(pod)
                return pod
            if self._node.files.stop.read(self.order.key) is not None:
                await self._removed_unbound("it was stopped before it was placed")
            if self._manifest is not None and not self.order.uid:
                await self._create(self._manifest)
            if self._claims and self.order.uid:
                await self._own_claims()
            if loop.time() >= give_up_at:
                await self._removed_unbound(None)
            await self._wait(min(POLL_S, max(0.0, give_up_at - loop.time()) or POLL_S))

    async def _create(self, manifest: Object) -> None:
        namespace = self.order.namespace
        try:
            async with self._node.starting:
                pod = await self._node.api.create(PODS, manifest, namespace)
        except AlreadyExists:
            pod = await self._node.api.get(PODS, self.order.name, namespace)
            if key_of_pod(pod) != self.order.key:
                raise NotStarted(f"a pod of its name exists that is not Bailiff's: {namespace}/{self.order.name}") from None
        except (Invalid, Forbidden, NotFound) as error:
            raise NotStarted(f"its pod cannot be created: {error.message}") from None
        except (Unreachable, TooManyRequests, Conflict):
            return
        await self._remember(pod)

    async def _own_claims(self) -> None:
        """Own every claim, then let kube-scheduler have the pod."""
        try:
            self._missing = [claim for claim in self._claims if not await own_claim(self._node, self.order, claim)]
            self._claims = [claim for claim in self._claims if claim in self._missing or is_shared(claim)]
            if self._is_gated and not self._missing:
                await self._open_gate()
        except (Invalid, Forbidden, NotFound) as error:
            await self._removed_unbound(f"the claim of its devices cannot be created: {error.message}")
        except (Unreachable, TooManyRequests, Conflict):
            return

    async def _open_gate(self) -> None:
        """Only its own: others may have gates of theirs."""
        gates = [{"name": CLAIMS_GATE, "$patch": "delete"}]
        patch: Object = {"metadata": {"uid": self.order.uid}, "spec": {"schedulingGates": gates}}
        with contextlib.suppress(NotFound):  # the pod has gone, which is noticed by itself
            await self._node.api.patch(PODS, self.order.name, patch, self.order.namespace, form="strategic")
        self._is_gated = False

    async def _remember(self, pod: Object) -> None:
        metadata = pod["metadata"]
        self.order = replace(self.order, uid=metadata["uid"], name=metadata["name"], namespace=metadata["namespace"])
        await self._node.files.off_loop(self._node.files.write_order, self.order)

    async def _take(self, pod: Object) -> None:
        """Take over the pod of a workload: from now on its object stays until its devices are proven free."""
        if not self.order.uid:
            await self._remember(pod)
        if self._manifest is not None or _has_finalizer(pod):
            return
        patch: Object = {
            "metadata": {
                "uid": uid_of(pod),
                "annotations": {TASK_RECORD: record_of(self.order)},
                "finalizers": [FINALIZER],  # added to those that it has by then
            }
        }
        with contextlib.suppress(ApiError):  # without it, an end that nobody reported is proven by the kubelet and the cgroup
            async with self._node.starting:
                await self._node.api.patch(PODS, self.order.name, patch, self.order.namespace, form="strategic")

    async def _removed_unbound(self, why: str | None) -> None:
        """Give up a pod that has no node: delete exactly that version. Returns where it is bound, or nobody answers."""
        api, namespace = self._node.api, self.order.namespace
        try:
            pods = (await api.list(PODS, namespace or None, labels=f"{TASK_HASH}={self._hash}")).items
            pod = next((each for each in pods if not self.order.uid or uid_of(each) == self.order.uid), None)
            if pod is None:
                raise NotStarted(why or "no pod of the workload was opened for this task: its bridge or its controller made none")
            if pod_status.is_bound(pod):
                node = pod["spec"]["nodeName"]
                if node != self._node.node:
                    raise NotStarted(f"its pod was bound to another node, {node}")
                return
            timeout = f"not placed within {self._node.settings.placement_timeout_s:.0f} s: {self._why_not_placed(pod)}"
            metadata = pod["metadata"]
            if self._manifest is None:  # its controller is to make another one, and to count no failure
                pod = await mark_disrupted(api, metadata["namespace"], metadata["name"], metadata["uid"], why or timeout)
                metadata = pod["metadata"]
                if pod_status.is_bound(pod):
                    return
            await api.delete(
                PODS, metadata["name"], metadata["namespace"], uid=metadata["uid"], resource_version=metadata["resourceVersion"]
            )
            await drop_finalizer(self._node, metadata["namespace"], metadata["name"], metadata["uid"])
        except (Unreachable, TooManyRequests, Conflict, NotFound):
            return
        raise NotStarted(why or timeout)

    def _why_not_placed(self, pod: Object) -> str:
        if not self._missing:
            return pod_status.why_not_placed(pod)
        names = ", ".join(claim["metadata"]["name"] for claim in self._missing)
        return f"an earlier ResourceClaim {names} has not gone: a pod that has ended or is not Bailiff's may still use it"


async def drop_finalizer(node: PodNode, namespace: str, name: str, uid: str, seen: Object | None = None) -> None:
    """Let the API server remove the pod's object. seen: as the view has it, which may be old. Raises `Unreachable`."""
    while True:
        pod = seen if seen is not None and _has_finalizer(seen) else await node.api.find(PODS, name, namespace)
        seen = None
        if pod is None or uid_of(pod) != uid or not _has_finalizer(pod):
            return
        left = [each for each in pod["metadata"]["finalizers"] if each != FINALIZER]
        version = pod["metadata"]["resourceVersion"]
        patch: Object = {"metadata": {"uid": uid, "resourceVersion": version, "finalizers": left or None}}
        with contextlib.suppress(Conflict, NotFound):
            await node.api.patch(PODS, name, patch, namespace)
            return


def _has_finalizer(pod: Object) -> bool:
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


async def remove_pod(node: PodNode, order: TaskOrder) -> None:
    """Its devices are free: the finalizer goes, once the API server answers. A workload's pod is its controller's to delete."""
    while order.uid:
        pod = node.find(task_hash(str(order.key)), order.uid)
        try:
            if order.own_pod and (pod is None or "deletionTimestamp" not in pod["metadata"]):
                with contextlib.suppress(NotFound, Conflict):
                    await node.api.delete(PODS, order.name, order.namespace, uid=order.uid, grace_s=1)
                pod = None  # it has another version now
            await drop_finalizer(node, order.namespace, order.name, order.uid, pod)
        except (Unreachable, TooManyRequests):
            await asyncio.sleep(POLL_S)
        else:
            return


async def remove_unplaced(node: PodNode) -> None:
    """Remove pods for this node that no scheduler has bound, and of which no agent knows: its disk was lost as it made them."""
    try:
        pods = (await node.api.list(PODS, node.settings.namespace, labels=TASK_HASH, fields="spec.nodeName=")).items
        for pod in pods:
            key, metadata = key_of_pod(pod), pod["metadata"]
            is_for_node = pod["spec"].get("affinity", {}).get("nodeAffinity") == affinity(node.node)
            is_own = key is not None and metadata["name"] == pod_name(str(key))
            if key is None or not is_own or not is_for_node or (node.files.task_dir(key) / "order.json").exists():
                continue
            where = metadata["namespace"], metadata["name"], metadata["uid"]
            with contextlib.suppress(Conflict, NotFound):  # it was bound meanwhile, and is a task like any other; or is gone
                await node.api.delete(
                    PODS, metadata["name"], where[0], uid=where[2], resource_version=metadata["resourceVersion"]
                )
                await drop_finalizer(node, *where)
    except (Unreachable, TooManyRequests):
        return  # the next agent does it


def record_of(order: TaskOrder) -> str:
    """What a pod's annotation keeps about its task. devices: as the log gave them."""
    record = PodRecord(ordered_by=order.ordered_by, is_only_task=order.is_only_task, devices=order.devices, part=order.part)
    return record.model_dump_json()


def find_orders(node: PodNode) -> None:
    """Write the orders of pods that an earlier agent started, where its own record of them was lost with its disk."""
    for pod in node.task_pods():
        key, record = key_of_pod(pod), record_in(pod)
        if not _has_finalizer(pod):
            continue  # it was forgotten: its devices are free, and only its object is still there
        if key is None or record is None or (node.files.task_dir(key) / "order.json").exists():
            continue
        metadata = pod["metadata"]
        namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
        devices, is_own = node.resources.devices_of(namespace, name), name == pod_name(str(key))
        order = TaskOrder(key, namespace, name, is_own, devices, record.ordered_by, record.is_only_task, uid, record.part)
        node.files.write_order(order)
        node.files.write_running(Running(key, uid, boottime_us(), devices, record.ordered_by))
