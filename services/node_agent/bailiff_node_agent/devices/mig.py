"""MIG devices of a card, read through NVML: an administrator makes them, and each is a device of its own."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from .inventory import Device

PREFIX = "MIG-"
"""Of the UUID of every MIG device."""
GPU_INSTANCE = "gpu_instance"
"""Label with the id of the GPU instance, which the driver names in its events."""
NO_INSTANCE = 0xFFFF_FFFF
_IN_NAME = re.compile(r" MIG ((?:\dc\.)?\dg\.\d+gb(?:\+[a-z0-9.]+)?)$")
MEMORY_SLICES = 8
GIB = 1 << 30


def is_partitioned(nvml: Any, handle: Any) -> bool:
    """Whether the card is in MIG mode now: then its MIG devices can be used, and the card itself cannot."""
    try:
        current, _ = nvml.nvmlDeviceGetMigMode(handle)
    except (nvml.NVMLError, AttributeError):
        return False  # the card, the driver or an old nvidia-ml-py does not support MIG
    return bool(current == 1)


def mig_devices(nvml: Any, handle: Any, card: Device, text: Callable[..., str]) -> Iterator[Device]:
    """The card's MIG devices. text: the answer of a call as text. Raises the driver's errors if the card does not answer."""
    for number in range(int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))):
        try:
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
        except nvml.NVMLError_NotFound:
            continue  # numbers have gaps
        identity = text(nvml.nvmlDeviceGetUUID, instance)
        if not identity.startswith(PREFIX):
            continue  # being removed
        yield Device(
            index=card.index,
            id=identity,
            kind="mig",
            model=card.model,
            memory=int(nvml.nvmlDeviceGetMemoryInfo(instance).total),
            parent=card.id,
            healthy=card.healthy,
            labels={**card.labels, GPU_INSTANCE: str(_instance_id(nvml, instance))},
            profile=_profile(nvml, instance, card, text),
        )


def affected(devices: list[Device], reported: str, gpu_instance: int) -> list[str]:
    """The devices that an event of the driver is about. reported: the UUID in it; of a card without an instance: all on it."""
    if any(device.id == reported for device in devices):
        return [reported]
    on_card = [device for device in devices if device.parent == reported]
    named = [device.id for device in on_card if device.labels.get(GPU_INSTANCE) == str(gpu_instance)]
    return named or [device.id for device in on_card] or [reported]


def _instance_id(nvml: Any, instance: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetGpuInstanceId(instance))
    except (nvml.NVMLError, AttributeError):
        return NO_INSTANCE


def _profile(nvml: Any, instance: Any, card: Device, text: Callable[..., str]) -> str:
    """Such as `3g.40gb`: from the driver's name of the instance, or else from its slices. Empty: unknown."""
    found = _IN_NAME.search(text(nvml.nvmlDeviceGetName, instance))
    if found:
        return found[1]
    try:
        has = nvml.nvmlDeviceGetAttributes_v2(instance)
    except (nvml.NVMLError, AttributeError):
        return ""
    compute, slices = int(has.computeInstanceSliceCount), int(has.gpuInstanceSliceCount)
    if not slices or not card.memory:
        return ""
    memory_slices = -(-int(has.memorySizeMB) * (1 << 20) * MEMORY_SLICES // card.memory)
    gigabytes = (memory_slices * -(-card.memory // GIB) + MEMORY_SLICES // 2) // MEMORY_SLICES
    return f"{'' if compute == slices else f'{compute}c.'}{slices}g.{gigabytes}gb"
