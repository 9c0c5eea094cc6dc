"""What the tasks of one node share: the API server, the view of the node's pods, and the kubelet's side of them."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from bailiff_kubernetes import Api, LocalView, Object
from bailiff_kubernetes.names import TASK_HASH
from bailiff_kubernetes.resources import PODS, labels_of, uid_of
from bailiff_node_agent.kubernetes_settings import KubernetesSettings
from bailiff_node_agent.runtime.port import TaskKey

from .cluster_view import STARTS_AT_ONCE
from .pod_processes import PodProcesses
from .pod_resources import PodResources
from .published import PublishedDevices
from .task_files import TaskFiles
from .unreached_node import ClusterResources, NoProcesses, NoVolumes
from .volumes import PodVolumes


@dataclass
class PodNode:
    """node: its name in Kubernetes. lease: until when (boot time) tasks may run without the agent, and their grace then, µs."""

    node: str
    settings: KubernetesSettings
    files: TaskFiles
    api: Api
    volumes: PodVolumes | NoVolumes
    processes: PodProcesses | NoProcesses
    resources: PodResources | ClusterResources
    lease: tuple[int, int] | None = None
    changed: dict[str, asyncio.Event] = field(default_factory=dict)
    """By the hash of each followed task: something happened to its pod."""
    starting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(STARTS_AT_ONCE), kw_only=True)
    """Held while a pod is created or taken over."""
    published: PublishedDevices = field(kw_only=True)
    reaches_node: ClassVar[bool] = True
    """Whether this process is on the node, and reaches its kubelet and the pods' volumes and processes."""

    def __post_init__(self) -> None:
        self.view = LocalView(self.api, PODS, labels=TASK_HASH, fields=f"spec.nodeName={self.node}")

    async def follow(self) -> None:
        """Keep the view of this node's tasks up to date, without end."""
        async for change in self.view.changes():
            event = self.changed.get(labels_of(change.object).get(TASK_HASH, ""))
            if event is not None:
                event.set()

    async def wait_for_list(self) -> None:
        """Until the node's pods are known."""
        await self.view.synced.wait()

    def task_pods(self) -> list[Object]:
        return [*self.view.objects.values()]

    def doubt(self, slots: tuple[str, ...], namespace: str, name: str) -> None:
        """The pod was removed without a reported end. Here the kubelet and the cgroup prove it."""

    def find(self, task_hash: str, uid: str = "", namespace: str = "") -> Object | None:
        """The task's pod on this node, as the view has it. namespace: others may have a pod of a task with the same key."""
        found = [pod for pod in self.view.objects.values() if labels_of(pod).get(TASK_HASH) == task_hash]
        pods = [pod for pod in found if not namespace or pod["metadata"]["namespace"] == namespace]
        return next((pod for pod in pods if not uid or uid_of(pod) == uid), None)

    def task_log(self, key: TaskKey) -> Path:
        """The task's log file."""
        return self.files.task_dir(key) / "log"
