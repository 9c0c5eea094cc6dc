"""Demand of tasks, units and jobs as vectors of the three resources: GPU, CPU, memory.

The demand of tasks that request bytes of a device depends on the device: a placed task is measured by its own devices, any
other by a device of the size that the caller gives (semantics §3, Placement). MIG devices count by the policy's weights. Where
the policy names kinds of GPU, a placed task counts as of the kinds of its devices, any other as of the only kind that it accepts.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, Protocol

from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.gpu_kinds import NO_KINDS, GpuKinds
from bailiff_core.model.gpu_shares import devices_of
from bailiff_core.model.mig import mig_gpu_milli, profile_of
from bailiff_core.model.resource_vector import ZERO, Amount, ResourceVector, shortened
from bailiff_core.model.state import Device, Job, PoolState
from bailiff_core.model.units import Unit


class Scale(Protocol):
    """What makes GPUs of requests in bytes and of MIG devices: the memory of the GPU assumed, and the weights by MIG profile.

    And the kinds of GPU that the policy names, of which are those as which a task of the group counts before it is placed.
    """

    @property
    def mig_weights(self) -> Mapping[str, int]: ...
    @property
    def kinds(self) -> GpuKinds: ...
    def bytes_for(self, group: TaskGroup) -> int: ...
    def kinds_for(self, group: TaskGroup) -> Sequence[int]: ...


class DeviceScale(NamedTuple):
    """One memory size for all requests."""

    device_bytes: int
    mig_weights: Mapping[str, int] = {}
    kinds: GpuKinds = NO_KINDS

    def bytes_for(self, group: TaskGroup) -> int:  # noqa: ARG002
        """The memory of the GPU that is assumed."""
        return self.device_bytes

    def kinds_for(self, group: TaskGroup) -> Sequence[int]:  # noqa: ARG002
        """None: what is measured so is not divided by kind."""
        return ()


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
    amounts = _without_kinds(group, scale)
    if scale.kinds and devices_of(group):
        found = scale.kinds.amounts((at, size_of_kind(group, scale, at) * devices_of(group)) for at in scale.kinds_for(group))
        return shortened((*amounts, *found))
    return amounts


def size_of_kind(group: TaskGroup, scale: Scale, at: int) -> Amount:
    """What the group asks of one device of the kind at this place, in thousandths: of a MIG device, if that is a profile."""
    return 1000 if at in scale.kinds.profiles.values() else size_of(group, scale)


def _without_kinds(group: TaskGroup, scale: Scale) -> ResourceVector:
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
    return whole(Fraction(_without_kinds(group, scale).gpu_milli, devices)) if devices else 0


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
    if not by_bytes(job) and not scale.kinds:
        return of_members(job, (place.index for place in places), scale)
    groups = job.groups()
    found = ZERO
    for place in places:
        group = groups[place.index]
        devices = _devices(state, place)
        amounts = of_task(group, scale) if not devices else _without_kinds(group, scale)
        if group.gpu_share_bytes is not None:
            memories = [device.memory_bytes for device in devices if device.memory_bytes]
            if memories:
                gpus = sum((Fraction(1000 * group.gpu_share_bytes, memory) for memory in memories), Fraction())
                amounts = amounts.with_gpus(whole(gpus))
        if scale.kinds and devices:
            kinds = [(scale.kinds.at(device.model, profile_of(device)), device) for device in devices]
            counted = ((at, _on_device(group, scale, at, device)) for at, device in kinds)
            amounts = shortened((*amounts, *scale.kinds.amounts(counted)))
        found = found.plus(amounts)
    return exact(found)


def _on_device(group: TaskGroup, scale: Scale, at: int, device: Device) -> Amount:
    """What the task counts as on this device of the kind at this place."""
    if group.gpu_share_bytes is not None and device.memory_bytes:
        return whole(Fraction(1000 * group.gpu_share_bytes, device.memory_bytes))
    return size_of_kind(group, scale, at)


def by_bytes(job: Job) -> bool:
    """Whether the job's demand depends on the devices of its placement."""
    return any(group.gpu_share_bytes is not None for group in job.demand.tasks)


def exact(amounts: ResourceVector) -> ResourceVector:
    """The same amounts, with a whole number of milli-GPUs as an `int`."""
    if len(amounts) > 3:
        return ResourceVector(whole(amounts[0]), amounts[1], amounts[2], *map(whole, amounts[3:]))
    return amounts if type(amounts[0]) is int else amounts.with_gpus(whole(amounts[0]))


def whole(amount: Amount) -> Amount:
    """The same number, as an `int` if it is whole."""
    return amount.numerator if amount.denominator == 1 else amount


def _devices(state: PoolState, place: Placed) -> list[Device]:
    node = state.nodes.get(place.node)
    return [] if node is None else [device for device in node.devices if place.devices >> device.number & 1]
