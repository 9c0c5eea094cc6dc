"""In place of a node's processes, volumes and kubelet, for a process that is not on the node."""

from pathlib import Path

from bailiff_kubernetes.resources import key_of

from .cluster_view import ClusterNode, slots_of_task
from .pod_resources import PodDevices


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
