"""Free resources of every node, on which placements and evictions are tried and rolled back."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from bailiff_core.model.gpu_shares import task_resources, units_of
from bailiff_core.model.mig import profile_of
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.resources import add, contains, intersection, release, subtract
from bailiff_core.model.state import Node, PoolState, Resources
from bailiff_core.model.units import Unit, has_resources

from .result import GangPlacement
from .task_requirements import NodeSelector, TaskRequirements

Allocation = list[tuple["NodeResources", Resources]]
AllocationKey = tuple[str, int, tuple[int, ...]]
Masks = Mapping[str, int]
EligibleKey = tuple[NodeSelector, tuple[str, ...], int, int]
ELIGIBLE_CACHE_SIZE = 64
MAX_CHANGES = 100_000


class NodeResources:
    """Free resources of one node.

    `unallocated` is not allocated to any task, reserved or not. `future` is what is neither allocated nor reserved once all
    releasing resources are free. A task may start now on what both contain: a reservation is backed by releasing resources
    first (model/resources.py). Both are replaced, never mutated, so that a rollback restores the old objects.
    units: total units of each usable device, by number. profiles: usable devices by MIG profile, GPUs under `""`. islands:
    of two or more usable GPUs each, by name. removed: the node is no longer schedulable.
    """

    __slots__ = (
        "_devices",
        "_now",
        "future",
        "islands",
        "labels",
        "models",
        "name",
        "node",
        "number",
        "profiles",
        "removed",
        "unallocated",
        "units",
        "usable",
    )

    def __init__(self, node: Node, usable: int, unallocated: Resources, future: Resources) -> None:
        self.node = node
        self.number = node.number
        self.name = node.name
        self.labels = node.labels
        self.usable = usable
        self.removed = False
        self._devices = node.devices
        self.models, self.profiles, self.islands, self.units = _kinds(
            tuple([(d.number, d.model, profile_of(d), d.island, units_of(d)) for d in node.devices if usable >> d.number & 1])
        )
        self.set(unallocated, future)

    def describes(self, node: Node) -> bool:
        """Whether name, labels and devices of the node are unchanged. The device list is replaced when devices change."""
        if self._devices is not node.devices:
            return False
        return (self.name, self.usable) == (node.name, usable_devices(node)) and self.labels == node.labels

    def set(self, unallocated: Resources, future: Resources) -> None:
        """Replace the free resources."""
        self.unallocated, self.future = unallocated, future
        self._now: Resources | None = None

    def now(self) -> Resources:
        """Resources on which a task may start now."""
        if self._now is None:
            self._now = intersection(self.unallocated, self.future)
        return self._now

    def devices_of(self, models: Sequence[str], profile: str) -> int:
        """Mask of the usable devices, free or not, of this profile and one of these models; of any model if none is given."""
        of_profile = self.profiles.get(profile, 0)
        if not models:
            return of_profile
        mask = 0
        for model in models:
            mask |= self.models.get(model, 0)
        return mask & of_profile

    def is_shared(self, number: int) -> bool:
        """Whether a share of the device is allocated or reserved."""
        return number in self.unallocated.shares or number in self.future.shares

    def fits_now(self, amount: Resources) -> bool:
        """Whether this amount is free now."""
        return contains(self.now(), amount)

    def fits_again(self, amount: Resources) -> bool:
        """Whether tasks evicted from this node still fit in their original placement. Devices that failed since do not count."""
        shares = {number: share for number, share in amount.shares.items() if number in self.units}
        return contains(self.future, replace(amount, devices=amount.devices & self.usable, shares=shares))


class ClusterView(Protocol):
    """An index derived from the free resources, updated by `refresh`.

    Attributes:
        seen: Number of entries of `changed` processed.
    """

    seen: int

    def refresh(self) -> None: ...


View = TypeVar("View", bound=ClusterView)


class ClusterResources:
    """Free resources of all schedulable nodes, and a log of changes for rollback.

    node_diagnostics: cached facts for unschedulable reasons, valid while no node changes (unschedulable_reasons.py).
    changed: every node that changed, in order, from which the `views` (indices over this object) are updated.
    labels: of all nodes, including those not schedulable now. empty: the same pool without any task.
    """

    def __init__(self, nodes: Iterable[NodeResources], state: PoolState) -> None:
        self.nodes = {node.number: node for node in sorted(nodes, key=lambda node: node.number)}
        self.policy = state.policy
        self.labels = {number: node.labels for number, node in state.nodes.items()}
        self.changed: list[NodeResources] = []
        self._views: dict[type[ClusterView], dict[Hashable, Any]] = {}
        self._changes: list[tuple[NodeResources, Resources, Resources]] = []
        self._allocations: dict[AllocationKey, Allocation] = {}
        self._allocations_on: dict[int, dict[AllocationKey, None]] = {}
        self.empty: ClusterResources | None = None
        self._by_name: dict[str, NodeResources] | None = None
        self._largest: int | None = None
        self.node_diagnostics: dict[EligibleKey, tuple[int, list[str]]] = {}
        self._eligible: dict[EligibleKey, list[tuple[NodeResources, int]]] = {}

    @classmethod
    def of(cls, state: PoolState, besides: Iterable[Node] = ()) -> "ClusterResources":
        """Free resources of the schedulable nodes, and of others besides."""
        schedulable = (node for node in state.nodes.values() if node.schedulable)
        return cls(map(_node_resources, (*schedulable, *besides)), state)

    @classmethod
    def of_empty_pool(cls, state: PoolState) -> "ClusterResources":
        """The pool without tasks, with all devices healthy and unreachable nodes reachable: an upper bound of free resources.

        Devices that are gone do not come back.
        """
        found = []
        for node in state.nodes.values():
            if node.state != "lost":
                devices = sum(1 << device.number for device in node.devices if not device.gone)
                capacity = replace(node.capacity, devices=devices)
                found.append(NodeResources(node, devices, capacity, capacity))
        return cls(found, state)

    def views(self, kind: type[View]) -> dict[Hashable, View]:
        """The indices of this kind on these resources, by key; callers add and drop entries."""
        found: dict[Hashable, View] = self._views.setdefault(kind, {})
        return found

    def refresh(self, state: PoolState, nodes: Iterable[int]) -> None:
        """Roll back all trials and reload these nodes from the state. No other node may have changed."""
        self.rollback(0)
        self.policy = state.policy
        for number in nodes:
            for key in self._allocations_on.pop(number, ()):
                self._allocations.pop(key, None)
            node, known = state.nodes[number], self.nodes.get(number)
            self.labels[number] = node.labels
            if known is not None and node.schedulable and known.describes(node):
                known.node = node
                unallocated, future = _free(node, known.usable, known.units)
                if (known.unallocated, known.future) != (unallocated, future):
                    known.set(unallocated, future)
                    self.changed.append(known)
            elif known is not None or node.schedulable:
                self._replace_node(number, known, _node_resources(node) if node.schedulable else None)
        self._trim_changes()

    def _replace_node(self, number: int, removed: NodeResources | None, replacement: NodeResources | None) -> None:
        self._eligible.clear()
        self.node_diagnostics.clear()
        self._by_name = self._largest = None
        if removed is not None:
            removed.removed = True
            self.changed.append(removed)
            del self.nodes[number]
        if replacement is not None:
            self.changed.append(replacement)
            last = next(reversed(self.nodes), -1)
            self.nodes[number] = replacement
            if number < last:
                self.nodes = dict(sorted(self.nodes.items()))

    def _trim_changes(self) -> None:
        """Update all views and clear `changed` when it is long, so that it does not grow without bound."""
        if len(self.changed) > MAX_CHANGES:
            for views in self._views.values():
                for view in views.values():
                    view.refresh()
                    view.seen = 0
            self.changed.clear()

    def by_name(self) -> dict[str, NodeResources]:
        """All nodes, ordered by name."""
        if self._by_name is None:
            self._by_name = {node.name: node for node in sorted(self.nodes.values(), key=lambda node: node.name)}
        return self._by_name

    def largest_device(self) -> int:
        """Units of the largest GPU of any node; at least 1."""
        if self._largest is None:
            gpus = ((node, bits(node.profiles.get("", 0))) for node in self.nodes.values())
            self._largest = max((node.units[number] for node, numbers in gpus for number in numbers), default=1)
        return self._largest

    def eligible_nodes(self, need: TaskRequirements) -> list[tuple[NodeResources, int]]:
        """Nodes that match the requirements, full or not, ordered by name, each with the mask of matching devices."""
        key = eligible_key(need)
        if key not in self._eligible:
            if len(self._eligible) >= ELIGIBLE_CACHE_SIZE:
                self._eligible.clear()
            by_name = self.by_name()
            listed = [by_name[name] for name in sorted(dict.fromkeys(need.nodes)) if name in by_name]
            any_node = need._replace(nodes=())  # `listed` contains only nodes that the task names
            searched = listed if need.nodes else by_name.values()
            self._eligible[key] = [
                (node, node.devices_of(need.models, need.profile)) for node in searched if is_eligible(any_node, node)
            ]
        return self._eligible[key]

    def mark(self) -> int:
        """A savepoint for `rollback`."""
        return len(self._changes)

    def rollback(self, mark: int) -> None:
        """Undo all changes since `mark`, last first."""
        while len(self._changes) > mark:
            node, unallocated, future = self._changes.pop()
            node.set(unallocated, future)
            self.changed.append(node)

    def take(self, node: NodeResources, amount: Resources, *, future: bool) -> None:
        """Take resources of the node: for tasks that start now, or with `future` as a reservation."""
        self._change(
            node,
            node.unallocated if future else subtract(node.unallocated, amount, node.units),
            subtract(node.future, amount, node.units),
        )

    def set_future(self, node: NodeResources, future: Resources) -> None:
        """Set the node's `future` free resources."""
        self._change(node, node.unallocated, future)

    def close(self, node: NodeResources) -> None:
        """Make the node unavailable: no resources are free on it, now or in future."""
        self._change(node, Resources(), Resources())

    def evict(self, unit: Unit) -> None:
        """Simulate the unit's eviction: its resources become releasing; reservations of tasks not started are dropped."""
        for node, amount in self.allocation_of(unit):
            self._change(node, node.unallocated, release(node.future, amount, node.units, node.usable))

    def restore(self, unit: Unit) -> None:
        """Undo `evict` of this unit."""
        for node, amount in self.allocation_of(unit):
            self._change(node, node.unallocated, subtract(node.future, amount, node.units))

    def place(self, unit: Unit, place: GangPlacement) -> None:
        """Take the resources of a placement, which was found on these or on equal resources."""
        groups = unit.job.groups()
        for task in place.tasks:
            node = self.nodes[task.node]
            devices, cpu_milli, memory_bytes, shares = task_resources(node.node, groups[task.index], task.devices)
            self.take(node, Resources(devices, cpu_milli, memory_bytes, 1, dict(shares)), future=place.future)

    def original_place_is_free(self, unit: Unit) -> bool:
        """Whether an evicted unit still fits in its original placement."""
        return all(node.fits_again(amount) for node, amount in self.allocation_of(unit))

    def allocation_of(self, unit: Unit) -> Allocation:
        """Resources allocated to or reserved for the unit's tasks, summed by node, in task order; cached until a node changes."""
        job = unit.job
        key = (job.id, job.attempt, unit.indices)
        found = self._allocations.get(key)
        if found is not None:
            return found
        groups = job.groups()
        sums: dict[int, Resources] = {}
        for index in unit.indices:
            task = job.task(index)
            if task is None:
                continue
            self._allocations_on.setdefault(task.node, {})[key] = None
            if has_resources(task) and task.node in self.nodes:
                amount = sums.setdefault(task.node, Resources())
                add(amount, *task_resources(self.nodes[task.node].node, groups[index], task.devices))
        found = [(self.nodes[number], amount) for number, amount in sums.items()]
        if found:
            self._allocations[key] = found
        return found

    def _change(self, node: NodeResources, unallocated: Resources, future: Resources) -> None:
        self._changes.append((node, node.unallocated, node.future))
        self.changed.append(node)
        node.set(unallocated, future)


def eligible_key(need: TaskRequirements) -> EligibleKey:
    """Equal for requirements with the same eligible nodes and devices."""
    return need.selector, need.nodes, need.devices, need.share_bytes


def is_eligible(need: TaskRequirements, node: NodeResources) -> bool:
    """Whether the node matches the requirements, full or not."""
    if not need.selector.admits(node.name, node.labels) or (need.nodes and node.name not in need.nodes):
        return False
    return need.hosts(node.units, node.devices_of(need.models, need.profile)) >= need.devices


def slots_for(need: TaskRequirements, node: NodeResources, free: Resources, eligible: int) -> int:
    """Number of tasks with these requirements that fit in the node's `free` resources, on its `eligible` devices."""
    count = free.slots
    if need.cpu_milli:
        count = min(count, free.cpu_milli // need.cpu_milli)
    if need.memory_bytes:
        count = min(count, free.memory_bytes // need.memory_bytes)
    if count <= 0:
        return 0
    if need.gpus:
        count = min(count, (free.devices & eligible).bit_count() // need.gpus)
    elif need.devices:
        count = need.max_sharing_tasks(count, need.capacities(free, node.units, eligible))
    return count


def usable_devices(node: Node) -> int:
    """Mask of the node's devices that tasks may get: healthy and not quarantined."""
    usable = node.capacity.devices & ~node.quarantined
    for device in node.devices:
        if not device.healthy:
            usable &= ~(1 << device.number)
    return usable


@lru_cache(maxsize=1024)  # many nodes are identical
def _kinds(devices: tuple[tuple[int, str, str, str, int], ...]) -> tuple[Masks, Masks, Masks, Mapping[int, int]]:
    """Masks by model, profile and island, and total units by number, of these devices (number, model, profile, island, units)."""
    models: dict[str, int] = {}
    profiles: dict[str, int] = {}
    islands: dict[str, int] = {}
    for number, model, profile, island, _ in devices:
        models[model] = models.get(model, 0) | 1 << number
        profiles[profile] = profiles.get(profile, 0) | 1 << number
        if island and not profile:
            islands[island] = islands.get(island, 0) | 1 << number
    several = {name: islands[name] for name in sorted(islands) if islands[name].bit_count() > 1}
    return models, profiles, several, {number: units for number, *_, units in devices}


def _node_resources(node: Node) -> NodeResources:
    usable = usable_devices(node)
    resources = NodeResources(node, usable, Resources(), Resources())
    resources.set(*_free(node, usable, resources.units))
    return resources


def _free(node: Node, usable: int, units: Mapping[int, int]) -> tuple[Resources, Resources]:
    """`unallocated` and `future` of the node, see `NodeResources`."""
    allocated, releasing, reserved, capacity = node.allocated, node.releasing, node.reserved, node.capacity
    free = Resources(usable, capacity.cpu_milli, capacity.memory_bytes, capacity.slots)
    still_used = Resources(
        allocated.devices & ~releasing.devices | reserved.devices,
        allocated.cpu_milli - releasing.cpu_milli + reserved.cpu_milli,
        allocated.memory_bytes - releasing.memory_bytes + reserved.memory_bytes,
        allocated.slots - releasing.slots + reserved.slots,
    )
    for number in (*allocated.shares, *reserved.shares):
        used = allocated.shares.get(number, 0) - releasing.shares.get(number, 0) + reserved.shares.get(number, 0)
        if used:
            still_used.shares[number] = used
    return subtract(free, allocated, units), subtract(free, still_used, units)
