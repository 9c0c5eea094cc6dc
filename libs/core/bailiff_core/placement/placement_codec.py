"""Encodes a unit's placement in the compact form of records, and decodes it."""

from collections.abc import Iterable
from itertools import pairwise

from bailiff_core.model.gpu_shares import devices_of, shares_devices
from bailiff_core.model.placement_ranges import NodeShare, bits, numbers, ranges
from bailiff_core.model.state import Job

from .gang import GangPlacement, TaskPlacement


def encode_placement(place: GangPlacement) -> tuple[NodeShare, ...]:
    """One entry per node, or several if assigning devices in task order, lowest first, would not reproduce the placement."""
    if len(place.tasks) == 1:
        (task,) = place.tasks
        return (_share(task.node, [task.index], task.devices),)
    by_node: dict[int, list[TaskPlacement]] = {}
    for task in sorted(place.tasks, key=lambda task: task.index):
        by_node.setdefault(task.node, []).append(task)
    shares = []
    for node in sorted(by_node):
        indices: list[int] = []
        devices = 0
        for task in by_node[node]:
            if task.devices and (task.devices & -task.devices) <= devices:
                shares.append(_share(node, indices, devices))
                indices, devices = [], 0
            indices.append(task.index)
            devices |= task.devices
        shares.append(_share(node, indices, devices))
    return tuple(shares)


def decode_placement(job: Job, shares: tuple[NodeShare, ...], indices: Iterable[int] | None = None) -> list[TaskPlacement]:
    """Placement of each of these tasks (default: all), by index.

    Raises:
        ValueError: The placement is inconsistent.
    """
    groups = job.groups()
    places: dict[int, TaskPlacement] = {}
    whole_devices: dict[int, int] = {}
    shared_devices: dict[int, int] = {}
    for share in shares:
        tasks, devices = _numbers(share.tasks, "tasks"), _numbers(share.devices, "devices")
        if not tasks:
            raise ValueError(f"the entry for node {share.node} has no tasks")
        if any(number >= 64 for number in devices):
            raise ValueError(f"node {share.node} has no device {max(devices)}")
        if tasks[-1] >= len(groups):
            raise ValueError(f"job {job.id} has {len(groups)} tasks, but no task {tasks[-1]}")
        needed = sum(devices_of(groups[index]) for index in tasks)
        if needed != len(devices):
            raise ValueError(f"tasks {share.tasks} need {needed} devices on node {share.node}, got {len(devices)}")
        for index in tasks:
            if index in places:
                raise ValueError(f"task {index} is placed twice")
            count, group = devices_of(groups[index]), groups[index]
            # An entry lists the devices of its tasks one after the other.
            task_devices, devices = sum(1 << number for number in devices[:count]), devices[count:]
            shared = shares_devices(group)
            # Tasks may share a device with each other, but with none that has it whole.
            taken = task_devices & (whole_devices.get(share.node, 0) | (0 if shared else shared_devices.get(share.node, 0)))
            if taken:
                raise ValueError(f"device {bits(taken)[0]} of node {share.node} is assigned twice")
            assigned = shared_devices if shared else whole_devices
            assigned[share.node] = assigned.get(share.node, 0) | task_devices
            places[index] = TaskPlacement(index, share.node, task_devices)
    wanted = range(len(groups)) if indices is None else sorted(indices)
    for index in wanted:
        if index not in places:
            raise ValueError(f"task {index} of job {job.id} has no place")
    if len(places) > len(wanted):
        allowed = dict.fromkeys(wanted)
        extra = min(index for index in places if index not in allowed)
        raise ValueError(f"task {extra} of job {job.id} is not among the tasks to place")
    return [places[index] for index in wanted]


def _share(node: int, indices: list[int], devices: int) -> NodeShare:
    return NodeShare(node=node, tasks=ranges(indices), devices=ranges(bits(devices)))


def _numbers(text: str, what: str) -> list[int]:
    try:
        found = numbers(text)
    except ValueError as error:
        raise ValueError(f"{what} {text!r}: {error}") from None
    if any(first >= second for first, second in pairwise(found)):
        raise ValueError(f"{what} {text!r} are not in ascending order")
    return found
