"""The node's side of a pod where there is none: all that is known is what the API server says."""

import asyncio
from dataclasses import dataclass, field
from typing import ClassVar

from bailiff_kubernetes import Object
from bailiff_kubernetes.names import TASK_HASH
from bailiff_kubernetes.resources import labels_of

from .cluster_view import ClusterNode
from .pod_node import PodNode


@dataclass
class ClusterPodNode(PodNode):
    """A `PodNode` whose pods come from the view of the whole cluster, and whose kubelet is out of reach."""

    member: ClusterNode = field(kw_only=True)
    reaches_node: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.changed, self.starting = self.member.cluster.task_changed, self.member.cluster.starting

    async def follow(self) -> None:
        """The view of the cluster is followed once for all nodes."""
        await asyncio.get_running_loop().create_future()

    async def wait_for_list(self) -> None:
        await self.member.cluster.pods.synced.wait()

    def task_pods(self) -> list[Object]:
        return [pod for pod in self.member.pods.values() if TASK_HASH in labels_of(pod)]

    def find(self, task_hash: str, uid: str = "", namespace: str = "") -> Object | None:
        if uid:
            return self.member.pods.get(uid)
        found = [pod for pod in self.member.pods.values() if labels_of(pod).get(TASK_HASH) == task_hash]
        return next((pod for pod in found if not namespace or pod["metadata"]["namespace"] == namespace), None)

    def doubt(self, slots: tuple[str, ...], namespace: str, name: str) -> None:
        self.member.doubt(slots, f"{namespace}/{name}")
