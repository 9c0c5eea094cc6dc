"""Devices as drivers publish them in Kubernetes."""

from collections.abc import Mapping
from typing import Any

from bailiff_node_agent.kubernetes_settings import KubernetesSettings
from bailiff_node_agent.runtime.kubernetes.published import PublishedDevices

Object = dict[str, Any]
DRIVER, GPU, MIG = "gpu.nvidia.com", "nvidia.com/gpu", "nvidia.com/mig-3g.40gb"


def device(number: int, uuid: str | None = None, *, fields: Mapping[str, Any] | None = None, **attributes: str) -> Object:
    texts = {"type": "gpu", "uuid": f"GPU-{number}" if uuid is None else uuid, "productName": "NVIDIA H100", **attributes}
    found = {"attributes": {name: {"string": text} for name, text in texts.items()}, "capacity": {"memory": {"value": "80Gi"}}}
    return {"name": f"gpu-{number}", **found, **(fields or {})}


def resource_slice(*devices: Object, pool: str = "n1", generation: int = 1) -> Object:
    return {"spec": {"driver": DRIVER, "pool": {"name": pool, "generation": generation}, "devices": [*devices]}}


def published_by(*slices: Object, **settings: Any) -> PublishedDevices:
    found = PublishedDevices(KubernetesSettings(**settings), "n1")
    found.update(slices)
    return found
