"""Shares of a device, exactly: thousandths and bytes on one scale of whole numbers.

A device has `1000 × its memory in bytes` units; a thousandth of it is its memory in bytes, a byte is 1000.
"""

from collections.abc import Mapping

from .demand import JobDemand, TaskGroup
from .placement_ranges import bits
from .state import Device, Node

NO_SHARES: Mapping[int, int] = {}


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


def devices_of(group: TaskGroup) -> int:
    """How many devices each task of the group stands on, whole or in part."""
    return (group.gpu_devices or 1) if shares_devices(group) else group.gpu_milli // 1000


def task_resources(node: Node, group: TaskGroup, devices: int) -> tuple[int, int, int, Mapping[int, int]]:
    """What a task of the group takes of the node on these devices: whole ones, CPU, memory, and shares by device."""
    if not shares_devices(group):
        return devices, group.cpu_milli, group.memory_bytes, NO_SHARES
    shares = {number: share_of(group, node.devices[number]) for number in bits(devices)}
    return 0, group.cpu_milli, group.memory_bytes, shares


def share_problem(demand: JobDemand) -> str | None:
    """What makes no sense in how the job asks for GPUs, as a sentence, or `None`."""
    for number, group in enumerate(demand.tasks):
        if group.gpu_share_milli is not None and group.gpu_share_bytes is not None:
            return f"tasks.{number} asks for gpu_share_milli and for gpu_share_bytes: a share is one or the other"
        if shares_devices(group) and group.gpu_milli:
            return f"tasks.{number} asks for whole GPUs (gpu_milli) and for shares of some: leave one out"
        if group.gpu_devices is not None and not shares_devices(group):
            return f"tasks.{number} asks for gpu_devices and no share: say gpu_share_milli or gpu_share_bytes, or gpu_milli"
        if group.gpu_milli % 1000:
            return f"tasks.{number}.gpu_milli is {group.gpu_milli}: whole GPUs are thousands, a part of one is gpu_share_milli"
    return None
