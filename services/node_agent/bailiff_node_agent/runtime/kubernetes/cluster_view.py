"""What one process without access to its nodes knows of them: the nodes and pods of the API server, watched once for all nodes.

Devices are slots here: the API says how many a node has and how many each pod requests, and not which. A slot whose pod was
removed without a reported end is in doubt: nothing proves that its device is free until the node has booted anew, or an
operator clears it.
"""

import asyncio
import json
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from bailiff_core.records.facts import MAX_DEVICES
from bailiff_kubernetes import Api, LocalView, Object
from bailiff_kubernetes.names import TASK_HASH
from bailiff_kubernetes.quantities import pod_requests, quantity
from bailiff_kubernetes.resources import NODES, PODS, key_of, labels_of, uid_of
from bailiff_node_agent.disk.storage import write_durably
from bailiff_service.race import race

from .pod_record import record_in
from .published import MIG_RESOURCE

ENDED = ("Succeeded", "Failed")
DOUBTS = "doubts.json"
STARTS_AT_ONCE = 32
"""Pods that are created or taken over at a time on all nodes. More would not be faster; each needs a connection of its own."""


class ClusterView:
    """gpu_resource: of whole GPUs; resources of the same vendor that begin with `mig-` are MIG devices of that profile."""

    def __init__(self, kubeconfig: Path | None, gpu_resource: str) -> None:
        self._kubeconfig, self.gpu_resource = kubeconfig, gpu_resource
        self.task_changed: dict[str, asyncio.Event] = {}
        """By the hash of each followed task: something happened to its pod."""
        self.starting = asyncio.Semaphore(STARTS_AT_ONCE)
        self._members: dict[str, ClusterNode] = {}
        self._new_nodes = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect, and wait until all nodes and pods are known."""
        self.api = await Api.connect(self._kubeconfig)
        self.nodes = LocalView(self.api, NODES, trim=_without_managed_fields_of_others)
        self.pods = LocalView(self.api, PODS, fields="spec.nodeName!=", trim=_trimmed_pod)
        self._following = asyncio.create_task(self._follow())
        await race(self._synced(), asyncio.shield(self._following))

    async def _synced(self) -> None:
        await self.nodes.synced.wait()
        await self.pods.synced.wait()

    async def run(self) -> None:
        """Follow the API server, without end."""
        assert self._following is not None, "open comes first"
        try:
            await self._following
        finally:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
            await self.api.close()

    def node(self, name: str, folder: Path) -> "ClusterNode":
        """The node of this name, which may not exist now. folder: where doubts about it are kept."""
        member = self._members[name] = ClusterNode(name, self, folder)
        for pod in self.pods.objects.values():
            if pod["spec"].get("nodeName") == name:
                member.pods[uid_of(pod)] = pod
        return member

    def selected(self, labels: dict[str, str]) -> list[str]:
        """Names of nodes with these labels, sorted."""
        return sorted(name for (_, name), node in self.nodes.objects.items() if labels.items() <= labels_of(node).items())

    async def wait_node(self) -> None:
        """Until a node was added or has other labels."""
        await self._new_nodes.wait()
        self._new_nodes.clear()

    async def _follow(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_nodes())
            group.create_task(self._follow_pods())

    async def _follow_nodes(self) -> None:
        async for change in self.nodes.changes():
            member = self._members.get(change.object["metadata"]["name"])
            if member is not None:
                member.note_change()
            if change.before is None or labels_of(change.before) != labels_of(change.object):
                self._new_nodes.set()

    async def _follow_pods(self) -> None:
        async for change in self.pods.changes():
            pod = change.object
            member = self._members.get(pod["spec"].get("nodeName", ""))
            if member is not None:
                if change.kind == "deleted":
                    member.pods.pop(uid_of(pod), None)
                else:
                    member.pods[uid_of(pod)] = pod
                member.note_change()
            event = self.task_changed.get(labels_of(pod).get(TASK_HASH, ""))
            if event is not None:
                event.set()


@dataclass
class ClusterNode:
    """One node. pods: those that are bound to it, by uid. changed: set when the node or one of its pods has changed."""

    name: str
    cluster: ClusterView
    folder: Path
    pods: dict[str, Object] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _slots: dict[str, str] = field(default_factory=dict)
    _foreign: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _doubts: dict[str, dict[str, str]] = field(default_factory=dict)
    _holders: dict[str, tuple[str, str]] | None = None
    _unhealthy: set[str] | None = None
    _holders_of: Object | None = None
    """The Node for which holders and unhealthy slots were computed."""

    def __post_init__(self) -> None:
        with suppress(FileNotFoundError):
            self._doubts = json.loads((self.folder / DOUBTS).read_text())

    def note_change(self) -> None:
        """The node or one of its pods has changed."""
        self._holders = self._unhealthy = None
        self.changed.set()

    @property
    def object(self) -> Object | None:
        """The Node; None if the cluster has none of this name."""
        return self.cluster.nodes.get(self.name)

    @property
    def boot_id(self) -> str:
        """Of the node's machine. A node that states none has another one when its object was made anew."""
        node = self.object
        return "" if node is None else _info(node, "bootID") or uid_of(node)

    @property
    def machine_id(self) -> str:
        """The node is known by its name: whether another machine has taken it is the API server's to say."""
        return f"kubernetes-node/{self.name}"

    # --- devices

    def slots(self) -> dict[str, str]:
        """The resource of each slot that the node has, or had when it was there last: `MAX_DEVICES` of those it claims."""
        node = self.object
        if node is not None:
            capacity = node.get("status", {}).get("capacity") or {}
            counts = {name: quantity(count) for name, count in capacity.items() if self._is_device(name)}
            numbered = ((name, number) for name, count in sorted(counts.items()) for number in range(count))
            self._slots = {
                f"{self.name}/{name.partition('/')[2]}/{number}": name for name, number in islice(numbered, MAX_DEVICES)
            }
        return self._slots

    def unhealthy(self) -> set[str]:
        """As many slots as the device plugin does not offer now. Which devices they are is unknown: free slots are taken."""
        self._forget_of_other_version()
        if self._unhealthy is None:
            self._unhealthy = self._find_unhealthy()
        return self._unhealthy

    def _find_unhealthy(self) -> set[str]:
        node = self.object
        if node is None:
            return set()
        allocatable, busy, found = node.get("status", {}).get("allocatable") or {}, self.holders(), set[str]()
        slots = self.slots()
        for resource in set(slots.values()):
            all_slots = [slot for slot, name in slots.items() if name == resource]
            missing = len(all_slots) - quantity(allocatable.get(resource, 0))
            free_first = sorted(all_slots, key=lambda slot: (slot in busy, -all_slots.index(slot)))
            found.update(free_first[: max(0, missing)])
        return found

    def holders(self) -> dict[str, tuple[str, str]]:
        """Namespace and name of the pod that has each slot: as the log gave it to a task, else free ones from the end."""
        self._forget_of_other_version()
        if self._holders is None:
            self._holders = self._find_holders()
        return self._holders

    def _forget_of_other_version(self) -> None:
        node = self.object
        if node is not self._holders_of:
            self._holders_of, self._holders, self._unhealthy = node, None, None

    def _find_holders(self) -> dict[str, tuple[str, str]]:
        slots, found = self.slots(), dict[str, tuple[str, str]]()
        others: list[Object] = []
        for pod in self.pods.values():
            if pod.get("status", {}).get("phase") in ENDED:
                continue
            if TASK_HASH in labels_of(pod):
                found.update(dict.fromkeys(slots_of_task(pod), key_of(pod)))
            else:
                others.append(pod)
        self._foreign = {uid: held for uid, held in self._foreign.items() if uid in self.pods}
        for pod in sorted(others, key=uid_of):
            taken = self._slots_of_other(pod, slots, found)
            found.update(dict.fromkeys(taken, key_of(pod)))
        return {slot: pod for slot, pod in found.items() if slot in slots}

    def _slots_of_other(self, pod: Object, slots: dict[str, str], taken: Collection[str]) -> tuple[str, ...]:
        """Slots for a pod that is not Bailiff's; it keeps them. Slots that a task's pod has meanwhile are replaced."""
        kept = [slot for slot in self._foreign.get(uid_of(pod), ()) if slot not in taken]
        held = list(kept)
        for resource, count in _device_requests(pod).items():
            if self._is_device(resource):
                have = sum(slots.get(slot) == resource for slot in kept)
                free = [slot for slot, name in slots.items() if name == resource and slot not in taken and slot not in kept]
                held += free[::-1][: max(0, count - have)]
        self._foreign[uid_of(pod)] = tuple(held)
        return tuple(held)

    def _is_device(self, resource: str) -> bool:
        vendor, _, name = self.cluster.gpu_resource.partition("/")
        return resource == self.cluster.gpu_resource or (resource.startswith(f"{vendor}/{MIG_RESOURCE}") and bool(name))

    # --- doubts

    def doubt(self, slots: Iterable[str], pod: str) -> None:
        """The pod was removed without a reported end: its slots may still be in use."""
        for slot in slots:
            self._doubts[slot] = {"pod": pod, "boot_id": self.boot_id}
        self._write_doubts()

    def doubts(self) -> dict[str, str]:
        """Slots in doubt, each with the pod that had it. Another boot of the node ends a doubt."""
        node = self.object
        if node is not None and any(each["boot_id"] not in ("", self.boot_id) for each in self._doubts.values()):
            self._doubts = {slot: each for slot, each in self._doubts.items() if each["boot_id"] in ("", self.boot_id)}
            self._write_doubts()
        return {slot: each["pod"] for slot, each in self._doubts.items()}

    def accept(self, slot: str) -> None:
        """An operator vouches for the slot."""
        if self._doubts.pop(slot, None) is not None:
            self._write_doubts()

    def _write_doubts(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_durably(self.folder / DOUBTS, json.dumps(self._doubts).encode())


def slots_of_task(pod: Object) -> tuple[str, ...]:
    """The slots that the log gave to the task, as its pod's record has them."""
    record = record_in(pod)
    return record.devices if record is not None else ()  # somebody has changed it: the agent's own table still has them


def _device_requests(pod: Object) -> dict[str, int]:
    return {resource: int(count) for resource, count in pod_requests(pod["spec"]).items() if "/" in resource}


def _info(node: Object, name: str) -> str:
    return str((node.get("status", {}).get("nodeInfo") or {}).get(name) or "")


def _without_managed_fields_of_others(node: Object) -> Object:
    """Of the managed fields only those that say who has cordoned the node; and neither images nor volumes."""
    metadata, status = node["metadata"], node.get("status", {})
    fields = [each for each in metadata.get("managedFields") or () if "f:unschedulable" in str(each.get("fieldsV1"))]
    kept = {name: status[name] for name in ("capacity", "allocatable", "conditions", "nodeInfo") if name in status}
    return {**node, "metadata": {**metadata, "managedFields": fields}, "status": kept}


def _trimmed_pod(pod: Object) -> Object:
    """A task's pod without managed fields; of others only what says which resources they use."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    is_task = TASK_HASH in labels_of(pod)
    names = ("name", "namespace", "uid", "resourceVersion", "labels", "finalizers", "deletionTimestamp")
    of_tasks = ("annotations", "ownerReferences") if is_task else ()
    kept = {name: metadata[name] for name in (*names, *of_tasks) if name in metadata}
    trimmed_spec = {name: spec[name] for name in ("nodeName", "restartPolicy", "overhead", "resources") if name in spec}
    for kind in ("initContainers", "containers"):
        fields = ("name", "resources", "restartPolicy")
        trimmed_spec[kind] = [{name: each[name] for name in fields if name in each} for each in spec.get(kind) or ()]
    trimmed_status = status if is_task else {"phase": status.get("phase")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": trimmed_spec, "status": trimmed_status}
