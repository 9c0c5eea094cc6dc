"""Node filtering and scoring for a task: which nodes fit it, and which is best (docs/concepts/semantics/placement.md)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.state import Resources

from .cluster_resources import NodeResources, slots_for
from .task_requirements import TaskRequirements

RATIO_SCALE = 10**9


@dataclass(frozen=True, slots=True)
class Offer:
    """The node fits `count` tasks, on devices of the mask `devices`."""

    node: NodeResources
    devices: int
    count: int

    def free_cpu(self, *, future: bool) -> int:
        """Free millicores of the node."""
        return (self.node.future if future else self.node.now()).cpu_milli


def offer_of(need: TaskRequirements, node: NodeResources, eligible: int, *, future: bool) -> Offer | None:
    """The node's offer for tasks of these requirements now, or with `future` once all releasing resources are free."""
    count = slots_for(need, node, node.future if future else node.now(), eligible)
    return Offer(node, eligible, count) if count else None


def offers_of(
    need: TaskRequirements, eligible: Iterable[tuple[NodeResources, int]], *, future: bool, spread: bool
) -> list[Offer]:
    """Offers of these nodes, best first."""
    found = []
    for node, mask in eligible:
        offer = offer_of(need, node, mask, future=future)
        if offer is not None:
            free = node.future if future else node.now()
            cpu = -free.cpu_milli if spread and not need.devices else 0
            key = node_rank(need, node.usable.bit_count(), free.devices.bit_count(), cpu, spread=spread)
            found.append(((*key, node.name, node.number), offer))
    found.sort(key=lambda entry: entry[0])
    return [offer for _, offer in found]


def node_rank(need: TaskRequirements, devices: int, free: int, cpu: int, *, spread: bool) -> tuple[int, ...]:
    """Sort key (smaller is better) of a node that fits the task, by its number of devices and of free devices.

    Tasks without GPUs avoid nodes with GPUs. Binpack prefers the node with the fewest free GPUs, spread the one with the
    most; among equals the one that becomes full, then one that does not become partially used.
    """
    broken_before = 0 < free < devices
    broken_after = 0 < free - need.devices < devices
    return (not need.devices and devices > 0, -free if spread else free, cpu, broken_after - broken_before)


def shared_gpu_rank(need: TaskRequirements, node: NodeResources, eligible: int, *, spread: bool) -> tuple[object, ...] | None:
    """Sort key (smaller is better) of a node for a task that shares GPUs, if at least one is shared already; else `None`.

    First the number of GPUs that it would newly share, then how free its GPUs are, then whether it needs releasing resources.
    """
    future = node.future
    if future.slots < 1 or future.cpu_milli < need.cpu_milli > 0 or future.memory_bytes < need.memory_bytes > 0:
        return None
    found = _with_shared(need, node, eligible)
    if found is None:
        return None
    newly_shared, free_part, mask = found
    needs_releasing = not node.fits_now(need.amount(node.units, mask))
    free = future if needs_releasing else node.now()
    packing_rank = node_rank(need, node.usable.bit_count(), free.devices.bit_count(), 0, spread=spread)
    return (newly_shared, free_part, needs_releasing, *packing_rank, node.name, node.number)


def _with_shared(need: TaskRequirements, node: NodeResources, eligible: int) -> tuple[int, int, int] | None:
    """Number of devices newly shared, free part of all chosen devices, and their mask; `None` if none is shared already."""
    capacities = need.capacities(node.future, node.units, eligible)
    newly_shared = max(0, need.devices - sum(node.is_shared(number) for number in capacities))
    if newly_shared == need.devices or len(capacities) < need.devices:
        return None
    mask = choose_devices(need, node, eligible, 1, future=True)[0]
    return newly_shared, sum(_free_part(node.future, number, node.units) for number in bits(mask)), mask


def _free_part(free_resources: Resources, number: int, units: Mapping[int, int]) -> int:
    return RATIO_SCALE if free_resources.devices >> number & 1 else free_resources.shares[number] * RATIO_SCALE // units[number]


def choose_devices(
    need: TaskRequirements, node: NodeResources, eligible: int, count: int, *, future: bool, task_count: int = 0
) -> list[int]:
    """Device masks for `count` tasks that share GPUs: GPUs that are shared already first, the fullest before the others.

    The devices of one task are distinct, so a device that all remaining tasks (`task_count`, at least `count`) need must not
    be skipped.
    """
    free_resources, now, units = node.future if future else node.now(), node.now(), node.units
    remaining = need.capacities(free_resources, units, eligible)
    free = {
        number: units[number] if free_resources.devices >> number & 1 else free_resources.shares[number] for number in remaining
    }
    shared = {number: node.is_shared(number) for number in remaining}
    idle = {number: units[number] if now.devices >> number & 1 else now.shares.get(number, 0) for number in remaining}
    task_count = max(task_count, count)
    masks = []
    for tasks_left in range(task_count, task_count - count, -1):
        # The tasks after this one need `need.devices * (tasks_left - 1)` places. A device with room for all remaining tasks
        # offers them `tasks_left - 1` places, whether this task uses it or not; any other one that it uses offers one place
        # less. `skippable` is how many of these they can do without.
        most_needed = sum(places >= tasks_left for places in remaining.values())
        skippable = sum(min(places, tasks_left) for places in remaining.values()) - most_needed - need.devices * (tasks_left - 1)
        order = sorted(
            (not shared[number], free[number] * RATIO_SCALE // units[number], idle[number] < need.share(units[number]), number)
            for number in remaining
        )
        chosen: list[int] = []
        for *_, number in order:
            if remaining[number] < tasks_left:
                if not skippable:
                    continue
                skippable -= 1
            chosen.append(number)
            if len(chosen) == need.devices:
                break
        for number in chosen:
            share = need.share(units[number])
            free[number] -= share
            idle[number] -= share
            shared[number] = True
            remaining[number] -= 1
            if not remaining[number]:
                del remaining[number]
        masks.append(sum(1 << number for number in chosen))
    return masks


def lowest(mask: int, count: int) -> int:
    """The `count` lowest bits of the mask; all of them if it has fewer."""
    taken = 0
    for _ in range(count):
        bit = mask & -mask
        taken |= bit
        mask ^= bit
    return taken
