"""The GPUs of a node that only the Kubernetes API describes: as many slots as it has, in use while a pod has or may have them.

No driver is read and no device is named: slot 3 is some GPU of the node, and the kubelet knows which.
"""

from bailiff_kubernetes.resources import labels_of
from bailiff_node_agent.runtime import Pod
from bailiff_node_agent.runtime.kubernetes.cluster_view import ClusterNode
from bailiff_node_agent.runtime.kubernetes.published import MIG_RESOURCE

from .inventory import Device, DeviceInventory, DeviceProblem, DeviceUnavailable, DeviceUsage

MIB = 1 << 20
MAX_MEGABYTES = 1 << 30
"""A label that tells more memory is not believed: whoever may label the node writes it."""
IN_USE = 1 << 30
"""Bytes in use on a slot whose memory nobody can read."""
NOT_OFFERED = "the node's device plugin offers one device less than the node has"


class ClusterInventory(DeviceInventory):
    """The slots of one node."""

    chooser = "kubernetes"

    def __init__(self, node: ClusterNode) -> None:
        self._node = node

    def list(self) -> list[Device]:
        unhealthy = self._node.unhealthy()
        found = []
        for index, (slot, resource) in enumerate(self._node.slots().items()):
            name = resource.partition("/")[2]
            is_mig = name.startswith(MIG_RESOURCE)
            found.append(
                Device(
                    index=index,
                    id=slot,
                    kind="mig" if is_mig else "gpu",
                    model=self._label(resource, "product") or resource,
                    memory=self._memory(resource),
                    parent=None,
                    healthy=slot not in unhealthy,
                    labels={"resource": resource},
                    profile=name.removeprefix(MIG_RESOURCE) if is_mig else "",
                )
            )
        return found

    def usage(self, device_id: str) -> DeviceUsage:
        pod = self._node.doubts().get(device_id)
        if pod is not None:
            raise DeviceUnavailable(f"its pod {pod} was removed without a reported end: nothing proves that it is free")
        holder = self._node.holders().get(device_id)
        return DeviceUsage(0, ()) if holder is None else DeviceUsage(IN_USE, (), pods=(holder,))

    def problems(self) -> dict[str, DeviceProblem]:
        return {slot: DeviceProblem("driver", NOT_OFFERED) for slot in self._node.unhealthy()}

    def holders(self) -> dict[str, frozenset[Pod]]:
        return {slot: frozenset({pod}) for slot, pod in self._node.holders().items()}

    def accept(self, device_id: str) -> None:
        self._node.accept(device_id)

    def _memory(self, resource: str) -> int:
        megabytes = self._label(resource, "memory")
        return int(megabytes) * MIB if megabytes.isdecimal() and int(megabytes) <= MAX_MEGABYTES else 0

    def _label(self, resource: str, name: str) -> str:
        """As GPU feature discovery labels the node, such as `nvidia.com/gpu.product`."""
        node = self._node.object
        return "" if node is None else labels_of(node).get(f"{resource}.{name}", "")
