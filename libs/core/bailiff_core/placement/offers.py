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
    if not slots_for(need, node, node.later, suited):
        return None
    capacities = need.capacities(node.later, node.units, suited)
    opens = max(0, need.devices - sum(node.is_shared(number) for number in capacities))
    if opens == need.devices:
        return None
    mask = choose_devices(need, node, suited, 1, later=True)[0]
    emptiness = sum(_free_part(node.later, number, node.units) for number in bits(mask))
    waits = not node.fits_now(need.amount(node.units, mask))
    room = node.later if waits else node.now()
    how_packed = rank(need, node.usable.bit_count(), room.devices.bit_count(), 0, spread=spread)
    return (opens, emptiness, waits, *how_packed, node.name, node.number)


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
