"""Demand of tasks, units and jobs as vectors of the three resources: GPU, CPU, memory.

The demand of tasks that request bytes of a device depends on the device: a placed task is measured by its own devices, any
other by a device of the size that the caller gives (semantics §3, Placement). MIG devices count by the policy's weights.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple, Protocol

from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.gpu_shares import devices_of
from bailiff_core.model.mig import mig_gpu_milli
from bailiff_core.model.resource_vector import ZERO, Amount, ResourceVector
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit


class Scale(Protocol):
    """What makes GPUs of requests in bytes and of MIG devices: the memory of the GPU assumed, and the weights by MIG profile."""

    @property
    def mig_weights(self) -> Mapping[str, int]: ...
    def bytes_for(self, group: TaskGroup) -> int: ...


class DeviceScale(NamedTuple):
    """One memory size for all requests."""

    device_bytes: int
    mig_weights: Mapping[str, int] = {}

    def bytes_for(self, group: TaskGroup) -> int:  # noqa: ARG002
        """The memory of the GPU that is assumed."""
        return self.device_bytes


class Placed(Protocol):
    """A placed task: node number and device mask."""

    @property
    def index(self) -> int: ...
    @property
    def node(self) -> int: ...
    @property
    def devices(self) -> int: ...


def of_task(group: TaskGroup, scale: Scale) -> ResourceVector:
    """Demand of one task of the group, on devices of this scale."""
    gpus: Amount = group.gpu_milli
    if group.gpu_share_bytes is not None:
        gpus = whole(Fraction(1000 * group.gpu_share_bytes * (group.gpu_devices or 1), scale.bytes_for(group)))
    elif group.gpu_share_milli is not None:
        gpus = group.gpu_share_milli * (group.gpu_devices or 1)
    elif group.mig_profile is not None:
        gpus = whole(Fraction(mig_gpu_milli(group.mig_profile, scale.mig_weights) * devices_of(group)))
    return ResourceVector(gpus, group.cpu_milli, group.memory_bytes)


def size_of(group: TaskGroup, scale: Scale) -> Amount:
    """What the group asks of one device, in thousandths of a GPU; 0: it uses none."""
    devices = devices_of(group)
    return whole(Fraction(of_task(group, scale).gpu_milli, devices)) if devices else 0


def of_job(job: Job, scale: Scale) -> ResourceVector:
    """Demand of all tasks of the job."""
    found = ZERO
    for group in job.demand.tasks:
        found = found.plus(of_task(group, scale).times(group.count))
    return exact(found)


def of_unit(unit: Unit, scale: Scale) -> ResourceVector:
    """Demand of the unit's tasks, regardless of their placement."""
    return of_members(unit.job, unit.indices, scale)


def of_members(job: Job, indices: Iterable[int], scale: Scale) -> ResourceVector:
    """Demand of these tasks of the job."""
    if len(job.demand.tasks) == 1:
        return exact(of_task(job.demand.tasks[0], scale).times(sum(1 for _ in indices)))
    counts = [0] * len(job.demand.tasks)
    group_of = [at for at, group in enumerate(job.demand.tasks) for _ in range(group.count)]
    for index in indices:
        counts[group_of[index] if index < len(group_of) else -1] += (
            1  # tasks of a job that was scaled down may still be allocated
        )
    found = ZERO
    for group, count in zip(job.demand.tasks, counts, strict=True):
        found = found.plus(of_task(group, scale).times(count))
    return exact(found)


def of_places(state: PoolState, job: Job, places: Iterable[Placed], scale: Scale) -> ResourceVector:
    """Demand of these tasks on their devices.

    Args:
        scale: Assumed for a device that no longer exists.
    """
    places = list(places)
    if not by_bytes(job):
        return of_members(job, (place.index for place in places), scale)
    groups = job.groups()
    found = ZERO
    for place in places:
        group = groups[place.index]
        amounts = of_task(group, scale)
        if group.gpu_share_bytes is not None:
            memories = _device_memories(state, place)
            if memories:
                gpus = sum((Fraction(1000 * group.gpu_share_bytes, memory) for memory in memories), Fraction())
                amounts = amounts._replace(gpu_milli=whole(gpus))
        found = found.plus(amounts)
    return exact(found)


def by_bytes(job: Job) -> bool:
    """Whether the job's demand depends on the devices of its placement."""
    return any(group.gpu_share_bytes is not None for group in job.demand.tasks)


def exact(amounts: ResourceVector) -> ResourceVector:
    """The same amounts, with a whole number of milli-GPUs as an `int`."""
    return amounts if type(amounts[0]) is int else amounts._replace(gpu_milli=whole(amounts[0]))


def whole(amount: Amount) -> Amount:
    """The same number, as an `int` if it is whole."""
    return amount.numerator if amount.denominator == 1 else amount


def _device_memories(state: PoolState, place: Placed) -> list[int]:
    node = state.nodes.get(place.node)
    if node is None:
        return []
    return [device.memory_bytes for device in node.devices if place.devices >> device.number & 1 and device.memory_bytes]
