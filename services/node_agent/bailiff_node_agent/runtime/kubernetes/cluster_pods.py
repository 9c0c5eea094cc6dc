"""The node's side of a pod where there is none: all that is known is what the API server says."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from bailiff_kubernetes import Object
from bailiff_kubernetes.names import TASK_HASH
from bailiff_kubernetes.resources import key_of, labels_of

from .cluster_view import ClusterNode, slots_of_task
from .pod_node import PodNode
from .pod_resources import PodDevices


@dataclass
class ClusterPodNode(PodNode):
    """A `PodNode` whose pods come from the view of the whole cluster, and whose kubelet is out of reach."""

    member: ClusterNode = field(kw_only=True)
    reaches_node: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.changed = self.member.cluster.task_changed

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


class NoProcesses:
    """Processes are not visible from here."""

    def pids(self, uid: str) -> tuple[int, ...]:  # noqa: ARG002
        return ()

    def memory(self, uid: str) -> int:  # noqa: ARG002
        return 0

    def forget(self, uid: str) -> None:
        pass


class NoVolumes:
    """Neither are volumes: such a pod has no control directory and no lease."""

    def control_dir(self, uid: str) -> Path:
        return Path("/nonexistent") / uid

    def exists(self, uid: str) -> bool:  # noqa: ARG002
        return False

    def prepare(self, uid: str) -> None:
        pass

    def release(self, uid: str) -> None:
        pass

    def allow_until(self, uid: str, boottime_s: int) -> None:
        pass


class ClusterResources:
    """In place of the kubelet's pod-resources API: slots, as the tasks' pods record them."""

    def __init__(self, node: ClusterNode) -> None:
        self._node = node

    def pod_devices(self) -> list[PodDevices]:
        """The slots of every pod that the API server has."""
        return [PodDevices(*key_of(pod), "", slots_of_task(pod)) for pod in self._node.pods.values()]

    def devices_of(self, namespace: str, pod: str, prefix: str = "") -> tuple[str, ...]:  # noqa: ARG002 - slots have no prefix
        """The slots of one pod."""
        return next((each.devices for each in self.pod_devices() if (each.namespace, each.pod) == (namespace, pod)), ())

    def close(self) -> None:
        pass
