"""What of the pool counts for shares (semantics, quotas: "What counts").

A node counts while it takes tasks and some claimant's task would fit on it if it were empty; a device of it, if such a task
accepts the device. What an eviction that is stuck keeps does not count. A claimant is a job that runs, or that is pending
and would fit on the empty nodes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.gpu_kinds import NO_KINDS, GpuKinds
from bailiff_core.model.gpu_shares import units_of
from bailiff_core.model.mig import device_gpu_milli, profile_of
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.resource_vector import ZERO, Amount, ResourceVector, shortened
from bailiff_core.model.resources import subtract
from bailiff_core.model.state import Job, Node, Resources
from bailiff_core.model.units import next_unit
from bailiff_core.placement.cluster_resources import NodeResources, slots_for, usable_devices
from bailiff_core.placement.task_requirements import TaskRequirements, requirements_of, requirements_of_unit

from .demand_vector import exact

NO_DEVICE = 1 << 37  # bytes; GPU size assumed for requests in bytes where no GPU is accepted


class Fit(NamedTuple):
    """Number of equal tasks that fit on an empty node, and the mask of the devices that they accept."""

    tasks: int
    devices: int


class Accepted(NamedTuple):
    """Of the nodes that may host a task: how many such tasks fit on them, and the memory of the devices that it accepts.

    Attributes:
        models: Where the policy names kinds of GPU: the place of the kind and the model of these devices, each once, sorted.
    """

    tasks: int
    smallest: int
    largest: int
    models: tuple[tuple[int, str], ...] = ()

    @property
    def kinds(self) -> tuple[int, ...]:
        """The places of the kinds of these devices."""
        return tuple(dict.fromkeys(at for at, _ in self.models))


class Shape(NamedTuple):
    """What equal nodes have in common, but for names and labels: the usable devices, and all that tasks can get.

    Attributes:
        devices: Of each, its number, model, MIG profile, share units and thousandths of a GPU.
    """

    devices: tuple[tuple[int, str, str, int, Amount], ...]
    mask: int
    cpu_milli: int
    memory_bytes: int
    slots: int
    shares: tuple[tuple[int, int], ...]

    def resources(self, devices: int, kinds: GpuKinds) -> ResourceVector:
        """Those of one such node, with these of its devices."""
        gpus = sum((milli for number, *_, milli in self.devices if devices >> number & 1), start=0)
        if not kinds:
            return ResourceVector(gpus, self.cpu_milli, self.memory_bytes)
        counted = [
            (kinds.at(model, profile), 1000 if profile in kinds.profiles else milli)
            for number, model, profile, _, milli in self.devices
            if devices >> number & 1
        ]
        return shortened((gpus, self.cpu_milli, self.memory_bytes, *kinds.amounts(counted)))


class CountedCapacity:
    """Capacity of the nodes that take tasks, by who could use it. Updated node by node and claimant by claimant."""

    def __init__(self, kinds: GpuKinds = NO_KINDS) -> None:
        self.kinds = kinds
        self._shapes: dict[int, Shape] = {}
        self._nodes: dict[Shape, dict[int, Node]] = {}
        self._examples: dict[Shape, NodeResources] = {}
        self._fits: dict[tuple[TaskRequirements, Shape], Fit] = {}
        self._accepted: dict[TaskRequirements, Accepted] = {}
        self._claims: dict[TaskRequirements, int] = {}
        self._labels: dict[int, tuple[str, dict[str, str]]] = {}
        self._counted: tuple[ResourceVector, Amount] | None = None

    def set_node(self, node: Node, stuck: Resources | None, mig_weights: Mapping[str, int]) -> bool:
        """Take over the node as it is now; returns whether what it could host changed.

        Args:
            stuck: What evictions that are stuck keep on it.
        """
        shape = _shape(node, stuck, mig_weights) if node.schedulable else None
        before, labelled = self._shapes.get(node.number), (node.name, node.labels)
        if shape == before and (shape is None or self._labels.get(node.number) == labelled):
            return False
        if before is not None:
            del self._shapes[node.number]
            del self._nodes[before][node.number]
            if not self._nodes[before]:
                del self._nodes[before], self._examples[before]
                self._fits = {key: fit for key, fit in self._fits.items() if key[1] != before}
        if shape is not None:
            self._shapes[node.number] = shape
            self._labels[node.number] = (node.name, dict(node.labels))
            self._nodes.setdefault(shape, {})[node.number] = node
            if shape not in self._examples:
                self._examples[shape] = NodeResources(node, shape.mask, Resources(), Resources())
        self._accepted.clear()
        self._counted = None
        return True

    def accepted(self, need: TaskRequirements) -> Accepted:
        """What the nodes could host of such tasks, if they were empty."""
        found = self._accepted.get(need)
        if found is None:
            found = self._accepted[need] = self._accept(need)
        return found

    def _accept(self, need: TaskRequirements) -> Accepted:
        tasks, smallest, largest = 0, 0, 0
        models: dict[tuple[int, str], None] = {}
        for shape in self._nodes:
            fit = self._fit(need, shape)
            count = sum(1 for _ in self._hosts(need, shape)) if fit.tasks else 0
            if not count:
                continue
            tasks += count * fit.tasks
            for number, model, profile, units, _ in shape.devices:
                if self.kinds and fit.devices >> number & 1:
                    models[self.kinds.at(model, profile), model] = None
                if fit.devices >> number & 1 and units > 1000 and not profile:
                    smallest = min(smallest or units, units)
                    largest = max(largest, units)
        return Accepted(tasks, smallest // 1000 or NO_DEVICE, largest // 1000 or NO_DEVICE, tuple(sorted(models)))

    def _hosts(self, need: TaskRequirements, shape: Shape) -> Iterable[int]:
        """The nodes of this shape whose name and labels the task accepts."""
        nodes = self._nodes[shape]
        if not _selects(need):
            return nodes
        admitted = (node for node in nodes.values() if not need.nodes or node.name in need.nodes)
        return (node.number for node in admitted if need.selector.admits(node.name, node.labels))

    def _fit(self, need: TaskRequirements, shape: Shape) -> Fit:
        need = need._replace(labels=(), nodes=(), excluded=())
        key = (need, shape)
        found = self._fits.get(key)
        if found is None:
            example = self._examples[shape]
            accepted = example.devices_of(need.models, need.profile) if need.devices else 0
            accepted = sum(
                1 << at for at in bits(accepted) if not need.shared or need.share(example.units[at]) <= example.units[at]
            )
            free = Resources(shape.mask, shape.cpu_milli, shape.memory_bytes, shape.slots, dict(shape.shares))
            tasks = slots_for(need, example, free, accepted)
            found = self._fits[key] = Fit(tasks, accepted if tasks else 0)
        return found

    def claim(self, needs: Iterable[TaskRequirements], claimants: int) -> None:
        """Add claimants, or remove some (-1), with tasks of these requirements."""
        for need in needs:
            count = self._claims.get(need, 0) + claimants
            if count in (0, claimants):
                self._counted = None
            if count:
                self._claims[need] = count
            else:
                del self._claims[need]

    @property
    def total(self) -> ResourceVector:
        return self._count()[0]

    @property
    def gpus(self) -> Amount:
        """The GPUs of the nodes that count, thousandths, whether or not a claimant accepts them."""
        return self._count()[1]

    def _count(self) -> tuple[ResourceVector, Amount]:
        if self._counted is None:
            total, gpus = ZERO, ZERO
            for shape, nodes in self._nodes.items():
                for devices, count in self._claimed(shape, len(nodes)).items():
                    total = total.plus(shape.resources(devices, self.kinds).times(count))
                    gpus = gpus.plus(shape.resources(shape.mask, NO_KINDS).times(count))
            self._counted = exact(total), exact(gpus).gpu_milli
        return self._counted

    @property
    def schedulable(self) -> ResourceVector:
        """The capacity of all nodes that take tasks, whether anybody could use it or not."""
        found = ZERO
        for shape, nodes in self._nodes.items():
            found = found.plus(shape.resources(shape.mask, self.kinds).times(len(nodes)))
        return exact(found)

    def _claimed(self, shape: Shape, nodes: int) -> dict[int, int]:
        """How many nodes of this shape count, by the mask of their devices that count."""
        everywhere, counts = 0, False
        of_some: list[tuple[TaskRequirements, int]] = []
        for need in self._claims:
            tasks, devices = self._fit(need, shape)
            if not tasks:
                continue
            if _selects(need):
                of_some.append((need, devices))
                continue
            everywhere, counts = everywhere | devices, True
            if everywhere == shape.mask:
                return {everywhere: nodes}
        on: dict[int, int] = dict.fromkeys(self._nodes[shape], everywhere) if counts else {}
        for need, devices in of_some:
            for number in self._hosts(need, shape):
                on[number] = on.get(number, everywhere) | devices
        found: dict[int, int] = {}
        for devices in on.values():
            found[devices] = found.get(devices, 0) + 1
        return found


def _selects(need: TaskRequirements) -> bool:
    """Whether the task accepts only some of the nodes, whatever their resources."""
    return bool(need.labels or need.nodes or need.excluded)


def _shape(node: Node, stuck: Resources | None, mig_weights: Mapping[str, int]) -> Shape:
    usable = usable_devices(node)
    units = {device.number: units_of(device) for device in node.devices if usable >> device.number & 1}
    free = Resources(usable, node.capacity.cpu_milli, node.capacity.memory_bytes, node.capacity.slots)
    if stuck is not None:
        free = subtract(free, stuck, units)
    left = {number: units[number] for number in bits(free.devices & usable)}
    left |= {number: share for number, share in free.shares.items() if number in units and share > 0}
    devices = tuple(
        (at, device.model, profile_of(device), units[at], _milli(device_gpu_milli(device, mig_weights), left[at], units[at]))
        for at, device in ((device.number, device) for device in node.devices)
        if at in left
    )
    mask = sum(1 << number for number in left)
    shares = tuple((number, share) for number, share in free.shares.items() if number in left)
    return Shape(devices, mask, max(0, free.cpu_milli), max(0, free.memory_bytes), max(0, free.slots), shares)


def _milli(milli: Amount, left: int, units: int) -> Amount:
    """The part of a device that is not stuck, in thousandths of a GPU, rounded down."""
    return milli if left == units else milli * left // units


class Needs(NamedTuple):
    """How many tasks of each requirements a job needs to run at all (`core`), and has as a whole."""

    core: Mapping[TaskRequirements, int]
    all: Mapping[TaskRequirements, int]

    @classmethod
    def of(cls, demand: JobDemand) -> "Needs":
        everything = {need: len(indices) for need, indices in requirements_of(demand).items()}
        if demand.min_tasks is None and not demand.sub_groups:
            return cls(everything, everything)
        unit = next_unit(Job(demand.job, 0, 0, demand, "", 0, True, True, ""))
        core = {} if unit is None else {need: len(indices) for need, indices in requirements_of_unit(unit).items()}
        return cls(core, everything)


class AcceptedSizes:
    """The GPU memory by which requests in bytes are measured: the smallest, or the largest, that the task accepts.

    A task counts as of a kind of GPU if it accepts no other device, or (`any_kind`) as of each kind that it accepts.
    """

    def __init__(
        self, capacity: CountedCapacity, mig_weights: Mapping[str, int], *, largest: bool, any_kind: bool = False
    ) -> None:
        self._capacity, self._largest, self._any_kind = capacity, largest, any_kind
        self.mig_weights = mig_weights
        self.kinds = capacity.kinds

    def bytes_for(self, group: TaskGroup) -> int:
        """Bytes of memory of the device that is assumed for a task of the group."""
        found = self._capacity.accepted(TaskRequirements.of(group))
        return found.largest if self._largest else found.smallest

    def kinds_for(self, group: TaskGroup) -> Sequence[int]:
        """The places of the kinds as which a task of the group counts before it is placed."""
        found = self.accepted_by(group).kinds
        return found if self._any_kind or len(found) == 1 else ()

    def accepted_by(self, group: TaskGroup) -> Accepted:
        """What the nodes could host of such tasks, if they were empty."""
        return self._capacity.accepted(TaskRequirements.of(group))
