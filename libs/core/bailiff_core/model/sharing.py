"""Shares of a device, exactly: thousandths and bytes on one scale of whole numbers.

A device has `1000 × its memory in bytes` units; a thousandth of it is its memory in bytes, a byte is 1000.
"""

from .demand import TaskGroup
from .pool import Device


def units_of(device: Device) -> int:
    """All units of the device."""
    return 1000 * max(1, device.memory_bytes)


def share_of(group: TaskGroup, device: Device) -> int:
    """Units that each task of the group takes of each of its `gpu_devices` devices."""
    if group.gpu_share_bytes is not None:
        return 1000 * group.gpu_share_bytes
    return (group.gpu_share_milli or 0) * max(1, device.memory_bytes)


def shares_devices(group: TaskGroup) -> bool:
    """Whether its tasks take parts of devices instead of whole ones."""
    return group.gpu_share_milli is not None or group.gpu_share_bytes is not None
