"""The devices that a DRA driver publishes for this node in ResourceSlices (`resource.k8s.io/v1`), to be claimed by their UUIDs.

Without such a driver there are none, and the kubelet's device plugin chooses. A device that was published stays known: who has it
can still be named while its driver is replaced.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from bailiff_core.records.facts import MAX_DEVICES
from bailiff_kubernetes import Api, Forbidden, NotFound, Object
from bailiff_kubernetes.quantities import quantity
from bailiff_kubernetes.resources import RESOURCE_SLICES
from bailiff_node_agent.kubernetes_settings import KubernetesSettings
from bailiff_service.logs import logger

EXACT_LABEL = "bailiff.gpu/exact-devices"
"""Node label: `true` where a task gets exactly the devices that it was placed on."""
MIG_RESOURCE = "mig-"
"""Begins the name of a resource of MIG devices, after the vendor, as NVIDIA's device plugin offers them; the profile follows."""
NOT_PUBLISHED = "its DRA driver does not publish it any more"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}")
_KEEPS_AWAY = ("NoSchedule", "NoExecute")


@dataclass(frozen=True)
class PublishedDevice:
    """A device. resource: the name that a device plugin would offer it by. fault: why it can be claimed no longer."""

    id: str
    resource: str
    model: str
    memory: int
    parent: str | None
    fault: str = ""

    @property
    def is_mig(self) -> bool:
        """Whether it is a MIG device."""
        return self.resource.partition("/")[2].startswith(MIG_RESOURCE)


class PublishedDevices:
    """Of one node and one driver. `update` is called whenever the slices have changed; other threads may read meanwhile."""

    def __init__(self, settings: KubernetesSettings, node: str) -> None:
        self.driver, self._uuid, self._gpu_resource = settings.dra_driver, settings.dra_uuid_attribute, settings.gpu_resource
        self.fields = f"spec.nodeName={node},spec.driver={self.driver}"
        """Selects the node's slices of the driver."""
        self._by_name: dict[tuple[str, str], str] = {}
        self._known: dict[str, PublishedDevice] = {}

    async def read(self, api: Api) -> bool:
        """Read them once. Whether the API server has slices, and they may be read: otherwise they are never asked for again."""
        if not self.driver:
            return False
        try:
            slices = await api.list(RESOURCE_SLICES, fields=self.fields)
        except (NotFound, Forbidden) as problem:
            logger().warning("devices cannot be claimed one by one", driver=self.driver, why=problem.message)
            return False
        self.update(slices.items)
        return True

    def update(self, slices: Iterable[Object]) -> None:
        """These are the node's slices now."""
        found, names, several = dict[str, PublishedDevice](), dict[tuple[str, str], str](), set[str]()
        for pool, item in _newest(slices):
            device = self._device(item)
            if device is not None:
                (several.add(device.id) if device.id in found else found.setdefault(device.id, device))
                names[pool, str(item["name"])] = device.id
        for device_id in several:  # as a card and its partitions: the UUID selects none of them for sure
            del found[device_id]
        now = dict([*found.items()][:MAX_DEVICES])
        gone = {name: replace(each, fault=NOT_PUBLISHED) for name, each in self._known.items() if name not in now}
        self._by_name, self._known = {**self._by_name, **names}, gone | now

    @property
    def are_exact(self) -> bool:
        """Whether tasks claim their devices one by one here."""
        return bool(self._known)

    def get(self, device_id: str) -> PublishedDevice | None:
        """The device of this UUID."""
        return self._known.get(device_id)

    def resources(self) -> dict[str, str]:
        """The resource of each device that is known."""
        return {each.id: each.resource for each in self._known.values()}

    def healthy(self) -> dict[str, str]:
        """The resource of each device that can be claimed now."""
        return {each.id: each.resource for each in self._known.values() if not each.fault}

    def tainted(self) -> dict[str, str]:
        """Devices that the driver publishes with a taint, and what it is."""
        return {each.id: each.fault for each in self._known.values() if each.fault not in ("", NOT_PUBLISHED)}

    def find(self, driver: str, pool: str, name: str) -> tuple[str, str] | None:
        """Resource and id of what a claim has; None for another driver's. One that was never published has its names as id."""
        if not self.driver or driver != self.driver:
            return None
        device_id = self._by_name.get((pool, name))
        if device_id is None:
            return self._gpu_resource, f"{driver}/{pool}/{name}"
        device = self._known.get(device_id)
        return self._gpu_resource if device is None else device.resource, device_id

    def _device(self, item: Object) -> PublishedDevice | None:
        """None for what is no GPU or MIG device with an id of its own, or can be given to several pods at a time."""
        attributes = {name.rpartition("/")[2]: value for name, value in (item.get("attributes") or {}).items()}
        device_id, kind = _text(attributes, self._uuid), _text(attributes, "type") or "gpu"
        if not _ID.fullmatch(device_id) or kind not in ("gpu", "mig") or item.get("allowMultipleAllocations"):
            return None
        profile = _text(attributes, "profile")
        vendor = self._gpu_resource.partition("/")[0]
        return PublishedDevice(
            device_id,
            f"{vendor}/{MIG_RESOURCE}{profile}" if kind == "mig" else self._gpu_resource,
            _text(attributes, "productName") or _text(attributes, "model"),
            _memory(item),
            _text(attributes, "parentUUID") or None,
            _taint(item),
        )


def _newest(slices: Iterable[Object]) -> Iterable[tuple[str, Object]]:
    """Pool and device, of the newest generation of each pool; in a fixed order."""
    specs = sorted((item["spec"] for item in slices), key=lambda spec: str(spec["pool"]["name"]))
    newest: dict[str, int] = {}
    for spec in specs:
        pool = spec["pool"]
        newest[pool["name"]] = max(newest.get(pool["name"], 0), int(pool.get("generation", 0)))
    for spec in specs:
        if int(spec["pool"].get("generation", 0)) == newest[spec["pool"]["name"]]:
            for device in spec.get("devices") or ():
                yield spec["pool"]["name"], device


def _text(attributes: dict[str, Any], name: str) -> str:
    return str((attributes.get(name) or {}).get("string") or "")


def _memory(item: Object) -> int:
    capacity = {name.rpartition("/")[2]: value for name, value in (item.get("capacity") or {}).items()}
    return quantity((capacity.get("memory") or {}).get("value", 0))


def _taint(item: Object) -> str:
    taints = [each for each in item.get("taints") or () if each.get("effect") in _KEEPS_AWAY]
    return "" if not taints else f"its DRA driver taints it: {', '.join(str(each.get('key')) for each in taints)}"[:400]
