"""Resource requirements and node selector of a task, and which tasks of a gang have equal requirements."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bailiff_core.humanize import count_text
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.gpu_shares import devices_of, shares_devices
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.state import Resources
from bailiff_core.model.units import Unit


class NodeSelector(NamedTuple):
    """What a task requires of a node. Without a MIG profile it uses GPUs, and no MIG devices.

    Attributes:
        models: GPU models.
        labels: The node's labels.
        profile: MIG profile.
        excluded: Names of nodes that it may not use.
    """

    models: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]
    profile: str = ""
    excluded: tuple[str, ...] = ()

    def admits(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the node of this name, with these labels, matches."""
        return all(labels.get(key) == value for key, value in self.labels) and name not in self.excluded


class TaskRequirements(NamedTuple):
    """Requirements of one task. Tasks with equal requirements are interchangeable.

    Attributes:
        gpus: Number of whole devices; 0: `share_milli` thousandths or `share_bytes` bytes of each of `devices` distinct ones.
        profile: The devices are MIG devices of this profile; empty: GPUs.
        nodes: Names of the nodes that it may use; empty: any.
        excluded: Names of nodes that it may not use.
    """

    gpus: int
    cpu_milli: int
    memory_bytes: int
    models: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    nodes: tuple[str, ...] = ()
    devices: int = 0
    share_milli: int = 0
    share_bytes: int = 0
    profile: str = ""
    excluded: tuple[str, ...] = ()

    @classmethod
    def of(cls, group: TaskGroup) -> "TaskRequirements":
        """Requirements of each task of the group. GPU models are ignored for tasks without GPUs."""
        nodes = group.nodes or group.excluded_nodes
        if not (group.gpu_models or group.node_labels or nodes or group.mig_profile or shares_devices(group)):
            gpus = group.gpu_milli // 1000
            return cls(gpus, group.cpu_milli, group.memory_bytes, devices=gpus)
        devices, shared = devices_of(group), shares_devices(group)
        return cls(
            0 if shared else devices,
            group.cpu_milli,
            group.memory_bytes,
            tuple(sorted(dict.fromkeys(group.gpu_models))) if devices else (),
            tuple(sorted(group.node_labels.items())),
            tuple(sorted(dict.fromkeys(group.nodes))),
            devices,
            group.gpu_share_milli or 0,
            group.gpu_share_bytes or 0,
            group.mig_profile or "",
            tuple(sorted(dict.fromkeys(group.excluded_nodes))),
        )

    @property
    def selector(self) -> NodeSelector:
        return NodeSelector(self.models, self.labels, self.profile, self.excluded)

    @property
    def shared(self) -> bool:
        """Whether it takes shares of devices instead of whole ones."""
        return self.devices > self.gpus

    def share(self, units: int) -> int:
        """Its share, in units, of a device with that many units."""
        return 1000 * self.share_bytes if self.share_bytes else self.share_milli * (units // 1000)

    def amount(self, units: Mapping[int, int], devices: int) -> Resources:
        """Resources that one task takes on these devices of a node."""
        shares = {number: self.share(units[number]) for number in bits(devices)} if self.shared else {}
        return Resources(0 if self.shared else devices, self.cpu_milli, self.memory_bytes, 1, shares)

    def hosts(self, units: Mapping[int, int], eligible: int) -> int:
        """Number of the node's devices that are large enough for it, full or not."""
        return sum(self.share(units[number]) <= units[number] for number in bits(eligible))

    def capacities(self, free: Resources, units: Mapping[int, int], eligible: int) -> dict[int, int]:
        """Number of further shares that fit on each device, by device number; full devices are left out."""
        found = {}
        for number in bits(eligible):
            free_units = units[number] if free.devices >> number & 1 else free.shares.get(number, 0)
            count = free_units // self.share(units[number])
            if count > 0:
                found[number] = count
        return found

    def max_sharing_tasks(self, most: int, capacities: Mapping[int, int]) -> int:
        """Number of tasks, up to `most`, that fit on devices with these capacities, each task on `devices` distinct ones."""
        counts = capacities.values()
        low, high = 0, min(most, sum(counts) // self.devices)
        while low < high:  # n tasks fit exactly when the devices take n parts per task slot, at most one of each task
            middle = (low + high + 1) // 2
            if sum(min(count, middle) for count in counts) >= self.devices * middle:
                low = middle
            else:
                high = middle - 1
        return low

    def __str__(self) -> str:
        """Human-readable: `8 GPUs (h100), 4 CPUs, 16 GiB of memory`."""
        parts = []
        of_model = f" ({' or '.join(self.models)})" if self.models else ""
        if self.profile:
            parts.append(f"{count_text(self.gpus, f'{self.profile} MIG device')}{of_model}")
        elif self.gpus:
            parts.append(f"{count_text(self.gpus, 'GPU')}{of_model}")
        elif self.devices:
            part = f"{_decimal(self.share_bytes, 2**20)} MiB" if self.share_bytes else f"{_decimal(self.share_milli, 1000)}"
            parts.append(f"{part} of {'each of ' if self.devices > 1 else ''}{count_text(self.devices, 'GPU')}{of_model}")
        if self.cpu_milli:
            parts.append(f"{_decimal(self.cpu_milli, 1000)} CPU{'s' if self.cpu_milli > 1000 else ''}")
        if self.memory_bytes:
            parts.append(f"{_decimal(self.memory_bytes, 2**30)} GiB of memory")
        return ", ".join(parts) or "1 task slot"


TasksByRequirements = dict[TaskRequirements, list[int]]


def requirements_of(demand: JobDemand, indices: Iterable[int] | None = None) -> TasksByRequirements:
    """Task indices by requirements, of these tasks (default: all), in order of first appearance."""
    groups = demand.tasks
    if indices is None:
        indices = range(sum(group.count for group in groups))
    if len(groups) == 1:
        members = list(indices)
        return {TaskRequirements.of(groups[0]): members} if members else {}
    of_group = [TaskRequirements.of(group) for group in groups]
    need_at = [need for need, group in zip(of_group, demand.tasks, strict=True) for _ in range(group.count)]
    found: TasksByRequirements = {}
    for index in indices:
        found.setdefault(need_at[index], []).append(index)
    return found


def requirements_of_unit(unit: Unit) -> TasksByRequirements:
    """Task indices by requirements, of the unit's tasks."""
    return requirements_of(unit.job.demand, unit.indices)


def _decimal(amount: int, unit: int) -> str:
    """`1.5` for 1500 milli, without floats; rounded up to hundredths."""
    hundredths = -(-amount * 100 // unit)
    return f"{hundredths // 100}.{hundredths % 100:02}".rstrip("0").rstrip(".")
