"""Fills nodes with equal tasks, in the order of semantics §3."""

from dataclasses import dataclass

from .need import Need
from .ranking import ranking
from .rooms import NodeRoom, Rooms


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
        for node, suited, count in ranking(rooms, need, later=from_later).best_first():
            chunk = take_chunk(rooms, need, node, suited, min(count, wanted), later=from_later)
            chunks.append(chunk)
            wanted -= chunk.count
            if not wanted:
                return chunks
    return None


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
