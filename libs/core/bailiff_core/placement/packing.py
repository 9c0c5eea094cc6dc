"""Fills nodes with equal tasks, in the order of semantics §3."""

from dataclasses import dataclass

from bailiff_core.model.pool import Room

from .need import Need
from .rooms import NodeRoom, Rooms, slots_for


@dataclass(frozen=True, slots=True)
class Chunk:
    """`count` equal tasks on one node, and all their devices."""

    need: Need
    node: NodeRoom
    count: int
    devices: int


def fill(rooms: Rooms, need: Need, wanted: int, *, later: bool) -> list[Chunk] | None:
    """Take room for `wanted` tasks, node after node, or `None` (with room taken: roll back).

    Room now goes before room later. A node that got a task has fewer GPUs free than before and so stays the
    first choice until it is full: whole chunks per node are what task by task would give.
    """
    chunks = []
    for from_later in (False, True) if later else (False,):
        for node, suited, count in ranked(rooms, need, later=from_later):
            chunk = take_chunk(rooms, need, node, suited, min(count, wanted), later=from_later)
            chunks.append(chunk)
            wanted -= chunk.count
            if not wanted:
                return chunks
    return None


def ranked(rooms: Rooms, need: Need, *, later: bool) -> list[tuple[NodeRoom, int, int]]:
    """(node, suited devices, tasks it takes) of all nodes that take one, best first."""
    found = []
    for node, suited in rooms.suited(need):
        room = node.later if later else node.now()
        count = slots_for(need, room, suited)
        if count:
            found.append((_rank(need, node, room), node, suited, count))
    found.sort(key=lambda entry: entry[0])
    return [(node, suited, count) for _, node, suited, count in found]


def take_chunk(rooms: Rooms, need: Need, node: NodeRoom, suited: int, count: int, *, later: bool) -> Chunk:
    """Take room for `count` tasks on the node: devices that are idle now first, then the lowest."""
    wanted = need.gpus * count
    devices = 0
    idle = node.now().devices & suited
    rest = node.later.devices & suited & ~idle
    for _ in range(wanted):
        if idle:
            bit = idle & -idle
            idle ^= bit
        else:
            bit = rest & -rest
            rest ^= bit
        devices |= bit
    rooms.take(node, need, devices, count, later=later)
    return Chunk(need, node, count, devices)


def _rank(need: Need, node: NodeRoom, room: Room) -> tuple[bool, int, int, str, int]:
    free, total = room.devices.bit_count(), node.usable.bit_count()
    broken_before = 0 < free < total
    broken_after = 0 < free - need.gpus < total
    return (
        not need.gpus and total > 0,  # tasks without GPUs leave nodes with GPUs to those that need them
        free,
        broken_after - broken_before,
        node.name,
        node.number,
    )
