"""Fills nodes with equal tasks, in the order of semantics §3."""

from dataclasses import dataclass

from bailiff_core.model.pool import Room

from .need import Need
from .ranking import ranking
from .rooms import NodeRoom, Rooms


@dataclass(frozen=True, slots=True)
class Chunk:
    """Equal tasks on one node: the devices of each."""

    need: Need
    node: NodeRoom
    masks: tuple[int, ...]


def fill(rooms: Rooms, need: Need, wanted: int, *, later: bool) -> list[Chunk] | None:
    """Take room for `wanted` tasks, node after node, or `None` (with room taken: roll back).

    Room now goes before room later. A node that got a task has fewer GPUs free than before and so stays the
    first choice until it is full: whole chunks per node are what task by task would give.
    """
    chunks = []
    for from_later in (False, True) if later else (False,):
        for node, suited, count in ranking(rooms, need, later=from_later).best_first():
            chunk = take_chunk(rooms, need, node, suited, min(count, wanted), later=from_later)
            chunks.append(chunk)
            wanted -= len(chunk.masks)
            if not wanted:
                return chunks
    return None


def take_chunk(rooms: Rooms, need: Need, node: NodeRoom, suited: int, count: int, *, later: bool) -> Chunk:
    """Take room for `count` tasks on the node, which has it: devices that are idle now first, then the lowest."""
    if need.shared:
        masks = _share_devices(need, node, suited, count, later=later)
        for mask in masks:
            rooms.take(node, need.amount(node.units, mask), later=later)
        return Chunk(need, node, tuple(masks))
    idle = node.now().devices & suited
    rest = node.later.devices & suited & ~idle
    devices = _lowest(idle, need.gpus * count)
    devices |= _lowest(rest, need.gpus * count - devices.bit_count())
    amount = Room(devices, need.cpu_milli * count, need.memory_bytes * count, count)
    rooms.take(node, amount, later=later)
    masks = []
    for _ in range(count):
        mine = _lowest(devices, need.gpus)
        devices &= ~mine
        masks.append(mine)
    return Chunk(need, node, tuple(masks))


def _share_devices(need: Need, node: NodeRoom, suited: int, count: int, *, later: bool) -> list[int]:
    """The devices of each of `count` sharers: those that are shared already first, the fullest before the others.

    Each task stands on different devices, so one that all that are left need must not be passed over.
    """
    room = node.later if later else node.now()
    left = need.capacities(room, node.units, suited)
    free = {number: node.units[number] if room.devices >> number & 1 else room.shares[number] for number in left}
    shared = {number: number in node.unheld.shares or number in node.later.shares for number in left}
    now = node.now()
    masks = []
    for waiting in range(count, 0, -1):
        most_needed = [number for number, places in left.items() if places >= waiting]
        spare = sum(min(places, waiting) for places in left.values()) - len(most_needed) - need.devices * (waiting - 1)

        def best_first(number: int) -> tuple[bool, int, bool, int]:
            share = need.share(node.units[number])
            idle = node.units[number] if now.devices >> number & 1 else now.shares.get(number, 0)
            return (not shared[number], free[number], idle < share, number)

        chosen: list[int] = []
        for number in sorted(left, key=best_first):
            if len(chosen) == need.devices:
                break
            if left[number] < waiting:
                if not spare:
                    continue
                spare -= 1
            chosen.append(number)
        for number in chosen:
            free[number] -= need.share(node.units[number])
            shared[number] = True
            left[number] -= 1
            if not left[number]:
                del left[number]
        masks.append(sum(1 << number for number in chosen))
    return masks


def _lowest(mask: int, count: int) -> int:
    """The `count` lowest bits of the mask."""
    taken = 0
    for _ in range(count):
        bit = mask & -mask
        taken |= bit
        mask ^= bit
    return taken
