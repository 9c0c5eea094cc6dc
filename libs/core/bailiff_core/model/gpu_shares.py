"""GPU shares as exact integers: thousandths and bytes in one unit.

A device has `1000 × its memory in bytes` units; 1/1000 of the device is its memory in bytes, one byte is 1000 units.
"""

from collections.abc import Mapping

from .demand import JobDemand, TaskGroup
from .placement_ranges import bits
from .state import Device, Node

NO_SHARES: Mapping[int, int] = {}


def units_of(device: Device) -> int:
    """Returns the number of share units of the device."""
    return 1000 * max(1, device.memory_bytes)


def share_of(group: TaskGroup, device: Device) -> int:
    """Returns the share units that each task of the group takes of each of its `gpu_devices` devices."""
    if group.gpu_share_bytes is not None:
        return 1000 * group.gpu_share_bytes
    return (group.gpu_share_milli or 0) * max(1, device.memory_bytes)


def shares_devices(group: TaskGroup) -> bool:
    """Whether the group requests shares of devices instead of whole ones."""
    return group.gpu_share_milli is not None or group.gpu_share_bytes is not None


def uses_parts(group: TaskGroup) -> bool:
    """Whether its devices count as less than a GPU each: shares, or MIG devices."""
    return group.mig_profile is not None or shares_devices(group)


def devices_of(group: TaskGroup) -> int:
    """Returns the number of devices that each task of the group uses: whole GPUs, shared ones, or MIG devices."""
    return (group.gpu_devices or 1) if uses_parts(group) else group.gpu_milli // 1000


def task_resources(node: Node, group: TaskGroup, devices: int) -> tuple[int, int, int, Mapping[int, int]]:
    """Returns the resources of a task on these devices: mask of whole devices, CPU, memory, share units by device number."""
    if not shares_devices(group):
        return devices, group.cpu_milli, group.memory_bytes, NO_SHARES
    shares = {number: share_of(group, node.devices[number]) for number in bits(devices)}
    return 0, group.cpu_milli, group.memory_bytes, shares


def share_problem(demand: JobDemand) -> str | None:
    """Returns why the job's GPU request is invalid, or `None`."""
    for number, group in enumerate(demand.tasks):
        if group.gpu_share_milli is not None and group.gpu_share_bytes is not None:
            return f"tasks.{number} requests gpu_share_milli and gpu_share_bytes: a share is one or the other"
        if shares_devices(group) and group.gpu_milli:
            return f"tasks.{number} requests whole GPUs (gpu_milli) and shares of GPUs: leave one out"
        if group.mig_profile is not None and (group.gpu_milli or shares_devices(group)):
            return f"tasks.{number} requests MIG devices (mig_profile) and GPUs or shares of GPUs: leave one out"
        if group.gpu_devices is not None and not shares_devices(group) and group.mig_profile is None:
            return f"tasks.{number} requests gpu_devices without a share: set gpu_share_milli, gpu_share_bytes or gpu_milli"
        if group.gpu_milli % 1000:
            return f"tasks.{number}.gpu_milli is {group.gpu_milli}: whole GPUs are thousands, a part of one is gpu_share_milli"
    return None
