"""Fills nodes with equal tasks, in the order of semantics §3."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bailiff_core.model.pool import Room

from .index import index_for
from .need import Kind, Need
from .offers import Offer, choose_devices, lowest, offer_of, offers_of, sharing_rank
from .rooms import NodeRoom, Rooms


@dataclass(frozen=True, slots=True)
class Chunk:
    """Equal tasks on one node: the devices of each. `later`: not all of that is free at once."""

    need: Need
    node: NodeRoom
    masks: tuple[int, ...]
    later: bool


@dataclass(frozen=True, slots=True)
class Where:
    """Where tasks may go: on these nodes only (`None`: on all), which are those with these labels; packed or spread."""

    within: Sequence[NodeRoom] | None = None
    labels: tuple[tuple[str, str], ...] = ()
    spread: bool = False

    def kind(self, need: Need) -> Kind:
        """The kind of node that is left for this need."""
        return Kind(need.models, tuple(sorted(dict.fromkeys(need.labels + self.labels)))) if self.labels else need.kind


ANYWHERE, SPREAD = Where(), Where(spread=True)
LISTED = 64


def offers(rooms: Rooms, need: Need, where: Where, *, later: bool) -> Iterator[Offer]:
    """Nodes that take a task of this need, best first: the order is as of now, should rooms change meanwhile."""
    suited = _listed(rooms, need, where)
    if suited is None:
        return index_for(rooms, where.kind(need)).offers(need, later=later, spread=where.spread)
    return iter(offers_of(need, suited, later=later, spread=where.spread))


def capacity(rooms: Rooms, need: Need, where: Where, *, later: bool) -> int:
    """How many tasks of this need there is room for."""
    return sum(offer.count for offer in offers(rooms, need, where, later=later))


def has_room(rooms: Rooms, need: Need, wanted: int, where: Where, *, later: bool) -> bool:
    """Whether there is room for so many tasks of this need, nobody else asking."""
    for offer in offers(rooms, need, where, later=later):
        wanted -= offer.count
        if wanted <= 0:
            return True
    return False


def fill(rooms: Rooms, need: Need, wanted: int, where: Where = ANYWHERE, *, later: bool) -> list[Chunk] | None:
    """Take room for `wanted` tasks, or `None` (with room taken: roll back). Only with `later` on room to come.

    Room now goes before room later. Sharers wait for a device that is shared already rather than open another.
    """
    if not (later or need.shared or where.spread):
        return _fill_now(rooms, need, wanted, where)
    if (wanted > 1 or need.shared) and not has_room(rooms, need, wanted, where, later=later or need.shared):
        return None
    if need.shared:
        mark = rooms.mark()
        found = _fill_shared(rooms, need, wanted, where, later=later)
        if found is None and later:
            rooms.rollback(mark)
            found = _fill_in_the_end(rooms, need, wanted, where)
        return found
    chunks = []
    for from_later in (False, True) if later else (False,):
        while wanted:
            # Packed, a node that got a task has fewer GPUs free than before and so stays the first choice until it is
            # full: whole chunks per node are what task by task would give. Spread, each task is a choice of its own.
            taken = 0
            for offer in offers(rooms, need, where, later=from_later):
                count = 1 if where.spread else min(offer.count, wanted)
                chunks.append(take_chunk(rooms, need, offer.node, offer.suited, count, later=from_later))
                taken, wanted = taken + count, wanted - count
                if not wanted or where.spread:
                    break
            if not taken or not where.spread:
                break
        if not wanted:
            return chunks
    return None


def _fill_now(rooms: Rooms, need: Need, wanted: int, where: Where) -> list[Chunk] | None:
    """`fill` with whole devices on what is free now, packed: whether there is enough is known before any of it is taken."""
    found: list[tuple[Offer, int]] = []
    for offer in offers(rooms, need, where, later=False):
        count = min(offer.count, wanted)
        found.append((offer, count))
        wanted -= count
        if not wanted:
            return [take_chunk(rooms, need, offer.node, offer.suited, count, later=False) for offer, count in found]
    return None


def take_chunk(rooms: Rooms, need: Need, node: NodeRoom, suited: int, count: int, *, later: bool, ahead: int = 0) -> Chunk:
    """Take room for `count` tasks on the node, which has it: devices that are idle now first, then the lowest.

    ahead: so many are going to be asked of this node in all.
    """
    if need.shared:
        masks = choose_devices(need, node, suited, count, later=later, ahead=ahead)
        waits = False
        for mask in masks:
            waits = _take(rooms, node, need.amount(node.units, mask)) or waits
        return Chunk(need, node, tuple(masks), waits)
    idle = node.now().devices & suited
    rest = node.later.devices & suited & ~idle
    devices = lowest(idle, min(need.gpus * count, idle.bit_count()))
    devices |= lowest(rest, need.gpus * count - devices.bit_count())
    amount = Room(devices, need.cpu_milli * count, need.memory_bytes * count, count)
    waits = _take(rooms, node, amount)
    if count == 1:
        return Chunk(need, node, (devices,), waits)
    masks = []
    for _ in range(count):
        mine = lowest(devices, need.gpus)
        devices &= ~mine
        masks.append(mine)
    return Chunk(need, node, tuple(masks), waits)


def take_devices(rooms: Rooms, need: Need, node: NodeRoom, mask: int) -> Chunk:
    """Take room for one task on just these devices of the node."""
    return Chunk(need, node, (mask,), _take(rooms, node, need.amount(node.units, mask)))


def _take(rooms: Rooms, node: NodeRoom, amount: Room) -> bool:
    """Take the room, and say whether some of it is still on its way out."""
    waits = not node.fits_now(amount)
    rooms.take(node, amount, later=waits)
    return waits


def _fill_shared(rooms: Rooms, need: Need, wanted: int, where: Where, *, later: bool) -> list[Chunk] | None:
    chunks: list[Chunk] = []
    while wanted:
        found = _best_shared(rooms, need, where)
        from_later = found is not None
        if found is None:
            found = next(offers(rooms, need, where, later=False), None)
        if found is None and later:
            found, from_later = next(offers(rooms, need, where, later=True), None), True
        if found is None:
            return None
        ahead = min(found.count, wanted)
        chunks.append(take_chunk(rooms, need, found.node, found.suited, 1, later=from_later, ahead=ahead))
        wanted -= 1
    return chunks


def _fill_in_the_end(rooms: Rooms, need: Need, wanted: int, where: Where) -> list[Chunk]:
    """Where what is free now leads astray: on room to come alone, on which nothing stands in the way of counting."""
    chunks = []
    for offer in offers(rooms, need, where, later=True):
        chunks.append(take_chunk(rooms, need, offer.node, offer.suited, min(offer.count, wanted), later=True))
        wanted -= len(chunks[-1].masks)
        if not wanted:
            break
    return chunks


def _best_shared(rooms: Rooms, need: Need, where: Where) -> Offer | None:
    """The best of the nodes where the task finds a device that is shared already, even if it has to wait there."""
    listed = _listed(rooms, need, where)
    if listed is None:
        return index_for(rooms, where.kind(need)).best_shared(need, spread=where.spread)
    ranked = [(sharing_rank(need, node, suited, spread=where.spread), node, suited) for node, suited in listed]
    fitting = [(key, node, suited) for key, node, suited in ranked if key is not None]
    if not fitting:
        return None
    _, node, suited = min(fitting, key=lambda entry: entry[0])
    return offer_of(need, node, suited, later=True)


def _listed(rooms: Rooms, need: Need, where: Where) -> list[tuple[NodeRoom, int]] | None:
    """The nodes to look at one by one, where they are few; `None`: the index knows."""
    if need.nodes:
        found = rooms.suited(need)
        if where.within is None:
            return found
        inside = dict.fromkeys(where.within)
        return [(node, suited) for node, suited in found if node in inside]
    if where.within is None or (where.labels and len(where.within) > LISTED):
        return None
    return [(node, node.devices_of(need.models)) for node in where.within if need.kind.admits(node.labels)]
