"""The GPUs of a Kubernetes node: those that the kubelet offers and gives to pods, with NVML's readings where there is a driver.

Where a DRA driver publishes devices, they are the node's, and what a device plugin offers beside them is not.

A device that a pod holds is in use as a whole, whatever the driver reads: also by pods that are not Bailiff's, and for as long as
the kubelet keeps it for a pod that has ended.
"""

import time
from dataclasses import replace
from pathlib import Path

from bailiff_node_agent.runtime import Pod
from bailiff_node_agent.runtime.kubernetes.pod_resources import KubeletUnavailable, PodResources
from bailiff_node_agent.runtime.kubernetes.published import MIG_RESOURCE, PublishedDevices

from .inventory import Device, DeviceInventory, DeviceProblem, DeviceUnavailable, DeviceUsage, NoDriver
from .kubelet_offers import KubeletOffers
from .nvml import NvmlInventory

FRESH_S = 0.05
HELD_BYTES = 1 << 30
"""In use on a held device whose memory nobody can read."""


class KubernetesInventory(DeviceInventory):
    """kubelet_socket: of the pod-resources API. resource: of whole GPUs, such as `nvidia.com/gpu`.

    Other resources of the same vendor whose names begin with `mig-` are MIG devices of that profile. grace_s: so long the kubelet
    may offer none, as while it restarts.
    """

    blocking = True
    chooser = "kubernetes"

    def __init__(self, kubelet_socket: Path, resource: str, grace_s: float, published: PublishedDevices | None = None) -> None:
        self._resources, self._published = PodResources(kubelet_socket, published), published
        self._vendor = f"{resource.partition('/')[0]}/"
        self._offers = KubeletOffers(
            self._resources, lambda name: name == resource or name.startswith(f"{self._vendor}{MIG_RESOURCE}"), grace_s
        )
        try:
            self._driver: NvmlInventory | None = NvmlInventory()
        except NoDriver:
            self._driver = None
        self._held: dict[str, frozenset[Pod]] = {}
        self._read_at = -FRESH_S

    def list(self) -> list[Device]:
        """Also while the kubelet is away."""
        healthy = self._offers.healthy().keys() - self._tainted().keys()
        devices = {each.id: each for each in self._driver.list()} if self._driver is not None else {}
        found = []
        for index, (device, resource) in enumerate(sorted(self._known().items())):
            known, published = devices.get(device), self._published.get(device) if self._published is not None else None
            name = resource.removeprefix(self._vendor)
            is_mig = name.startswith(MIG_RESOURCE)
            found.append(
                Device(
                    index=index,
                    id=device,
                    kind="mig" if is_mig else "gpu",
                    model=known.model if known is not None else (published.model if published else "") or resource,
                    memory=known.memory if known is not None else published.memory if published else 0,
                    parent=known.parent if known is not None else published.parent if published else None,
                    healthy=device in healthy and (known is None or known.healthy),
                    labels={"resource": resource},
                    profile=name.removeprefix(MIG_RESOURCE) if is_mig else "",
                    island=known.island if known is not None else "",
                )
            )
        return found

    def usage(self, device_id: str) -> DeviceUsage:
        pods = self._pods_of(device_id)
        usage = self._driver.usage(device_id) if self._driver is not None else DeviceUsage(0, ())
        return replace(usage, memory_used=usage.memory_used or (HELD_BYTES if pods else 0), pods=pods)

    def utilization(self, device_id: str) -> int | None:
        return self._driver.utilization(device_id) if self._driver is not None else None

    def problems(self) -> dict[str, DeviceProblem]:
        """The driver's, and devices that the kubelet does not offer although it offers others of their resource."""
        found = self._driver.problems() if self._driver is not None else {}
        gone = {device: self._fault(device) for device in self._known().keys() - self._offers.healthy().keys()} | self._tainted()
        return found | {device: DeviceProblem("driver", why) for device, why in gone.items() if device not in found}

    def _fault(self, device: str) -> str:
        published = self._published.get(device) if self._published is not None else None
        return "the device plugin reports it as unhealthy" if published is None else published.fault

    def _tainted(self) -> dict[str, str]:
        return self._published.tainted() if self._published is not None else {}

    def _known(self) -> dict[str, str]:
        """The resource of each device of the node."""
        published = self._published.resources() if self._published is not None else {}
        return published or self._offers.known

    def away(self) -> str:
        return self._offers.away()

    def holders(self) -> dict[str, frozenset[Pod]]:
        found: dict[str, frozenset[Pod]] = {}
        for each in self._resources.pod_devices():
            for device in each.devices:
                found[device] = found.get(device, frozenset()) | {(each.namespace, each.pod)}
        return found

    def _pods_of(self, device_id: str) -> tuple[Pod, ...]:
        if time.monotonic() - self._read_at >= FRESH_S:
            try:
                held = self.holders()
            except KubeletUnavailable as problem:
                raise DeviceUnavailable(str(problem)) from None
            self._held, self._read_at = held, time.monotonic()
        return tuple(sorted(self._held.get(device_id, ())))
