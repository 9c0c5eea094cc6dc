"""Which nodes take a task, and which of two is the better one (semantics §3 "Placement")."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bailiff_core.model.places import bits
from bailiff_core.model.pool import Room

from .need import Need
from .rooms import NodeRoom, slots_for

FINENESS = 10**9


@dataclass(frozen=True, slots=True)
class Offer:
    """The node takes `count` tasks, on devices of the mask `suited`."""

    node: NodeRoom
    suited: int
    count: int

    def free_cpu(self, *, later: bool) -> int:
        """Millicores free on the node."""
        return (self.node.later if later else self.node.now()).cpu_milli


def offer_of(need: Need, node: NodeRoom, suited: int, *, later: bool) -> Offer | None:
    """What the node has to offer tasks of this need now, or with `later` once all that is leaving is gone."""
    count = slots_for(need, node, node.later if later else node.now(), suited)
    return Offer(node, suited, count) if count else None


def offers_of(need: Need, suited: Iterable[tuple[NodeRoom, int]], *, later: bool, spread: bool) -> list[Offer]:
    """What just these nodes have to offer, best first."""
    found = []
    for node, mask in suited:
        offer = offer_of(need, node, mask, later=later)
        if offer is not None:
            room = node.later if later else node.now()
            cpu = -room.cpu_milli if spread and not need.devices else 0
            key = rank(need, node.usable.bit_count(), room.devices.bit_count(), cpu, spread=spread)
            found.append(((*key, node.name, node.number), offer))
    found.sort(key=lambda entry: entry[0])
    return [offer for _, offer in found]


def rank(need: Need, devices: int, free: int, cpu: int, *, spread: bool) -> tuple[int, ...]:
    """Smaller is better, among nodes that take the task: by their devices, and how many of those are free.

    Tasks without GPUs leave nodes with GPUs to those that need them. Packing fills the node with fewest free GPUs,
    spreading takes the one with most; among equals the one that ends a broken node, or at least breaks none.
    """
    broken_before = 0 < free < devices
    broken_after = 0 < free - need.devices < devices
    return (not need.devices and devices > 0, -free if spread else free, cpu, broken_after - broken_before)


def sharing_rank(need: Need, node: NodeRoom, suited: int, *, spread: bool) -> tuple[object, ...] | None:
    """The place of a node for a task that shares devices, where it finds at least one that is shared already.

    First how many devices it would open, then how full those are that it would take, then whether it would have to
    wait. `None`: nothing here that is shared.
    """
    later = node.later
    if later.slots < 1 or later.cpu_milli < need.cpu_milli > 0 or later.memory_bytes < need.memory_bytes > 0:
        return None
    found = _one_shared(need, node, suited) if need.devices == 1 else _several_shared(need, node, suited)
    if found is None:
        return None
    opens, emptiness, mask = found
    waits = not node.fits_now(need.amount(node.units, mask))
    room = later if waits else node.now()
    how_packed = rank(need, node.usable.bit_count(), room.devices.bit_count(), 0, spread=spread)
    return (opens, emptiness, waits, *how_packed, node.name, node.number)


def _one_shared(need: Need, node: NodeRoom, suited: int) -> tuple[int, int, int] | None:
    """As `_several_shared` does for several devices, where one is wanted."""
    best: tuple[int, bool, int] | None = None
    now = node.now()
    for number in dict.fromkeys((*node.later.shares, *node.unheld.shares)):
        if not suited >> number & 1:
            continue
        units = node.units[number]
        share = need.share(units)
        whole = node.later.devices >> number & 1
        if not whole and node.later.shares.get(number, 0) < share:
            continue
        idle = units if now.devices >> number & 1 else now.shares.get(number, 0)
        key = (_free_part(node.later, number, node.units), idle < share, number)
        if share <= units and (best is None or key < best):
            best = key
    return None if best is None else (0, best[0], 1 << best[2])


def _several_shared(need: Need, node: NodeRoom, suited: int) -> tuple[int, int, int] | None:
    """How many devices would be opened, how much of all of them is free, and which; `None` where none is shared."""
    capacities = need.capacities(node.later, node.units, suited)
    opens = max(0, need.devices - sum(node.is_shared(number) for number in capacities))
    if opens == need.devices or len(capacities) < need.devices:
        return None
    mask = choose_devices(need, node, suited, 1, later=True)[0]
    return opens, sum(_free_part(node.later, number, node.units) for number in bits(mask)), mask


def _free_part(room: Room, number: int, units: Mapping[int, int]) -> int:
    return FINENESS if room.devices >> number & 1 else room.shares[number] * FINENESS // units[number]


def choose_devices(need: Need, node: NodeRoom, suited: int, count: int, *, later: bool, ahead: int = 0) -> list[int]:
    """The devices of each of `count` sharers: those that are shared already first, the fullest before the others.

    Each task stands on different devices, so one that all that are still to come need (`ahead`, at least `count`) must
    not be passed over.
    """
    room, now, units = node.later if later else node.now(), node.now(), node.units
    left = need.capacities(room, units, suited)
    free = {number: units[number] if room.devices >> number & 1 else room.shares[number] for number in left}
    shared = {number: node.is_shared(number) for number in left}
    idle = {number: units[number] if now.devices >> number & 1 else now.shares.get(number, 0) for number in left}
    ahead = max(ahead, count)
    masks = []
    for waiting in range(ahead, ahead - count, -1):
        most_needed = sum(places >= waiting for places in left.values())
        spare = sum(min(places, waiting) for places in left.values()) - most_needed - need.devices * (waiting - 1)
        order = sorted(
            (not shared[number], free[number] * FINENESS // units[number], idle[number] < need.share(units[number]), number)
            for number in left
        )
        chosen: list[int] = []
        for *_, number in order:
            if left[number] < waiting:
                if not spare:
                    continue
                spare -= 1
            chosen.append(number)
            if len(chosen) == need.devices:
                break
        for number in chosen:
            share = need.share(units[number])
            free[number] -= share
            idle[number] -= share
            shared[number] = True
            left[number] -= 1
            if not left[number]:
                del left[number]
        masks.append(sum(1 << number for number in chosen))
    return masks


def lowest(mask: int, count: int) -> int:
    """The `count` lowest bits of the mask."""
    taken = 0
    for _ in range(count):
        bit = mask & -mask
        taken |= bit
        mask ^= bit
    return taken
