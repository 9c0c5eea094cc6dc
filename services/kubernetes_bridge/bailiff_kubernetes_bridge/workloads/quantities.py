"""What a pod requests, as a task group counts it."""

import math
from decimal import Decimal
from typing import Any

from bailiff_kubernetes.quantities import pod_requests

from .model import PodResources

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-"


class BadPodSpec(Exception):
    """Why a pod's requests cannot be placed by Bailiff."""


def pod_resources(spec: dict[str, Any]) -> PodResources:
    """Requests of a pod. Raises `BadPodSpec`."""
    try:
        total = pod_requests(spec)
    except ValueError as error:
        raise BadPodSpec(str(error)) from None
    profiles = [(name.removeprefix(MIG), int(value)) for name, value in total.items() if name.startswith(MIG) and value]
    gpus, cpu, memory = (total.get(name, Decimal(0)) for name in (GPU, "cpu", "memory"))
    if len(profiles) > 1 or (profiles and gpus):
        raise BadPodSpec("a pod requests either whole GPUs or MIG devices of one profile")
    return PodResources(int(gpus), math.ceil(cpu * 1000), math.ceil(memory), profiles[0] if profiles else None)
