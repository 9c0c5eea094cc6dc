"""What the API server says about this agent's node: labels, what pods may use, what others use, and whether it is cordoned."""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from bailiff_kubernetes import Api, LocalView, Object
from bailiff_kubernetes.names import CORDONED_BY, TASK_HASH
from bailiff_kubernetes.quantities import pod_requests, quantity
from bailiff_kubernetes.resources import NODES, PODS, RESOURCE_SLICES, annotations_of, condition_of, labels_of
from bailiff_node_agent.kubernetes_settings import KubernetesSettings
from bailiff_node_agent.runtime.kubernetes.cluster_view import ClusterNode
from bailiff_node_agent.runtime.kubernetes.published import EXACT_LABEL, PublishedDevices
from bailiff_service.race import race

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
ENDED = ("Succeeded", "Failed")
MAX_LABEL = 253
SETTLE_S = 0.5
"""Changes within this time are announced together."""


@dataclass(frozen=True)
class NodeFacts:
    """cpu_milli, memory_bytes: what is left for Bailiff's pods. cordon: why no new pod may be placed there; empty: it may."""

    cpu_milli: int
    memory_bytes: int
    labels: dict[str, str] = field(default_factory=dict)
    cordon: str = ""


class KubernetesNode(Protocol):
    """Follows one node. `open` reads it once; `watch` keeps it up to date."""

    facts: NodeFacts

    async def open(self) -> None:
        """Read the node and its pods, so that the first announcement is right."""
        ...

    async def watch(self, announce: Callable[[], None], rebooted: Callable[[str], None]) -> None:
        """Announce the node whenever its facts change, without end. rebooted: called with another boot id of the node."""
        ...


class NodeOfApi:
    """A node of which only the API server knows: its facts come from the view of the whole cluster."""

    def __init__(self, member: ClusterNode, settings: KubernetesSettings) -> None:
        self._member, self._settings = member, settings
        self._boot_id = member.boot_id
        self.facts = self._read()

    async def open(self) -> None:
        """The view of the cluster is complete."""

    async def watch(self, announce: Callable[[], None], rebooted: Callable[[str], None]) -> None:
        while True:
            self._member.changed.clear()
            facts, boot_id = self._read(), self._member.boot_id
            is_new_boot = boot_id not in ("", self._boot_id)
            if facts != self.facts or is_new_boot:
                self.facts = facts
                self._boot_id = boot_id or self._boot_id
                (rebooted(boot_id) if is_new_boot else announce())
            await self._member.changed.wait()
            await asyncio.sleep(SETTLE_S)

    def _read(self) -> NodeFacts:
        return facts_of(self._member.object, [*self._member.pods.values()], self._settings.tolerated_taints)


class NodeOfKubelet:
    """The node on which this agent runs. It does not outlive a boot. published: is kept up to date."""

    def __init__(self, name: str, settings: KubernetesSettings, published: PublishedDevices) -> None:
        self._name, self._settings, self._published = name, settings, published
        self._has_slices = False
        self._api: Api | None = None
        self._node: Object | None = None
        self._pods: LocalView | None = None
        self._changed = asyncio.Event()
        self.facts = NodeFacts(0, 0, {}, "the node is not known in Kubernetes")

    async def open(self) -> None:
        self._api = await Api.connect(self._settings.kubeconfig)
        self._node = await self._api.find(NODES, self._name)
        pods = await self._api.list(PODS, fields=f"spec.nodeName={self._name}")
        self._has_slices = await self._published.read(self._api)
        self.facts = self._facts(self._node, pods.items)

    async def watch(self, announce: Callable[[], None], rebooted: Callable[[str], None]) -> None:  # noqa: ARG002
        assert self._api is not None, "open comes first"
        nodes = LocalView(self._api, NODES, fields=f"metadata.name={self._name}")
        pods = LocalView(self._api, PODS, fields=f"spec.nodeName={self._name}")
        slices = LocalView(self._api, RESOURCE_SLICES, fields=self._published.fields) if self._has_slices else None
        views = [view for view in (nodes, pods, slices) if view is not None]
        try:
            await race(*map(self._follow, views), self._announce(nodes, pods, slices, announce))
        finally:
            await self._api.close()

    async def _follow(self, view: LocalView) -> None:
        async for _ in view.changes():
            self._changed.set()

    async def _announce(self, nodes: LocalView, pods: LocalView, slices: LocalView | None, announce: Callable[[], None]) -> None:
        for view in (nodes, pods, *([slices] if slices is not None else [])):
            await view.synced.wait()
        while True:
            if slices is not None:
                self._published.update(slices.objects.values())
            facts = self._facts(nodes.get(self._name), [*pods.objects.values()])
            if facts != self.facts:
                self.facts = facts
                announce()
            await self._changed.wait()
            await asyncio.sleep(SETTLE_S)
            self._changed.clear()

    def _facts(self, node: Object | None, pods: list[Object]) -> NodeFacts:
        """The facts, and whether tasks get exactly the devices that they are placed on."""
        facts = facts_of(node, pods, self._settings.tolerated_taints)
        labels = {name: value for name, value in facts.labels.items() if name != EXACT_LABEL}
        return replace(facts, labels=labels | ({EXACT_LABEL: "true"} if self._published.are_exact else {}))


def facts_of(node: Object | None, pods: list[Object], tolerated: Sequence[str] = ()) -> NodeFacts:
    """The facts, from the node and all of its pods. tolerated: keys of taints that Bailiff's pods tolerate."""
    if node is None:
        return NodeFacts(0, 0, {}, "the node is not known in Kubernetes")
    allocatable = node.get("status", {}).get("allocatable") or {}
    foreign = [pod for pod in pods if TASK_HASH not in labels_of(pod) and pod.get("status", {}).get("phase") not in ENDED]
    requests = [pod_requests(pod["spec"]) for pod in foreign]
    cpu = quantity(allocatable.get("cpu", 0), scale=1000) - math.ceil(sum(each.get("cpu", 0) for each in requests) * 1000)
    memory = quantity(allocatable.get("memory", 0)) - math.ceil(sum(each.get("memory", 0) for each in requests))
    labels = {name: value for name, value in labels_of(node).items() if value and len(name) <= MAX_LABEL}
    return NodeFacts(max(0, cpu), max(0, memory), labels, _cordon(node, tolerated))


def _cordon(node: Object, tolerated: Sequence[str]) -> str:
    """Why kube-scheduler places no new pod of Bailiff's on the node; empty if it does.

    A cordon that follows a drain of Bailiff's is none: the drain is on record. Nor are taints that Bailiff's pods tolerate.
    """
    spec = node["spec"]
    if spec.get("unschedulable") and CORDONED_BY not in annotations_of(node):
        return f"cordoned by {_who_cordoned(node) or 'somebody'}"
    taints = [taint for taint in spec.get("taints") or () if taint["effect"] in ("NoSchedule", "NoExecute")]
    ignored = (UNSCHEDULABLE, *tolerated)
    others = [f"{taint['key']}={taint.get('value', '')}:{taint['effect']}" for taint in taints if taint["key"] not in ignored]
    if others:
        return f"taint {', '.join(others)}"[:400]
    ready = condition_of(node, "Ready")
    if ready is not None and ready.get("status") != "True":
        return f"its condition Ready is {ready.get('status')}: {ready.get('message', '')}"[:400].rstrip(": ")
    return ""


def _who_cordoned(node: Object) -> str | None:
    """The program that set `unschedulable`, as the API server recorded it."""
    fields = node["metadata"].get("managedFields") or ()
    return next((each["manager"] for each in fields if "f:unschedulable" in each.get("fieldsV1", {}).get("f:spec", {})), None)
