"""A gang's placement in the compact form of the records, and back."""

from itertools import pairwise

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.places import NodeShare, bits, numbers, ranges
from bailiff_core.model.pool import Job

from .gang import GangPlace, TaskPlace, lowest


def to_shares(place: GangPlace) -> tuple[NodeShare, ...]:
    """One entry per node, or several where dealing devices in index order, lowest first, would deal them otherwise."""
    by_node: dict[int, list[TaskPlace]] = {}
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


def from_shares(job: Job, shares: tuple[NodeShare, ...]) -> list[TaskPlace]:
    """The place of every task, by index. Raises `ValueError` where the shares are no placement of this whole gang."""
    gpus = _gpus_of_tasks(job.demand)
    places: dict[int, TaskPlace] = {}
    dealt: dict[int, int] = {}
    for share in shares:
        tasks, devices = _numbers(share.tasks, "tasks"), _numbers(share.devices, "devices")
        if not tasks:
            raise ValueError(f"an entry for node {share.node} holds no task")
        if any(number >= 64 for number in devices):
            raise ValueError(f"node {share.node} has no device {max(devices)}")
        mask = sum(1 << number for number in devices)
        if mask & dealt.get(share.node, 0):
            twice = bits(mask & dealt[share.node])[0]
            raise ValueError(f"device {twice} of node {share.node} is given out twice")
        dealt[share.node] = dealt.get(share.node, 0) | mask
        for index in tasks:
            if index >= len(gpus):
                raise ValueError(f"job {job.id} has {len(gpus)} tasks, there is no task {index}")
            if index in places:
                raise ValueError(f"task {index} is placed twice")
            mine = lowest(mask, gpus[index])
            mask &= ~mine
            places[index] = TaskPlace(index, share.node, mine)
        needed = sum(gpus[index] for index in tasks)
        if needed != len(devices):
            raise ValueError(f"tasks {share.tasks} need {needed} devices on node {share.node}, got {len(devices)}")
    if len(places) < len(gpus):
        missing = next(index for index in range(len(gpus)) if index not in places)
        raise ValueError(f"task {missing} of job {job.id} has no place")
    return [places[index] for index in range(len(gpus))]


def _share(node: int, indices: list[int], devices: int) -> NodeShare:
    return NodeShare(node=node, tasks=ranges(indices), devices=ranges(bits(devices)))


def _numbers(text: str, what: str) -> list[int]:
    try:
        found = numbers(text)
    except ValueError as error:
        raise ValueError(f"{what} {text!r}: {error}") from None
    if any(one >= two for one, two in pairwise(found)):
        raise ValueError(f"{what} {text!r} are not in ascending order")
    return found


def _gpus_of_tasks(demand: JobDemand) -> list[int]:
    return [group.gpu_milli // 1000 for group in demand.tasks for _ in range(group.count)]
