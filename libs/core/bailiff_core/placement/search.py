"""Packs tasks of several needs when filling greedily has failed: all packings are tried, within a budget."""

from collections.abc import Iterator
from typing import Literal

from .budget import Budget
from .need import Need
from .packing import Chunk, take_chunk
from .ranking import ranking
from .rooms import NodeRoom, Rooms

NODES_PER_STEP = 16
Entry = tuple[NodeRoom, int, int]  # node, its suited devices, tasks


def find_packing(
    rooms: Rooms, wanted: list[tuple[Need, int]], budget: Budget, *, later: bool
) -> list[Chunk] | Literal["impossible", "gave-up"]:
    """Depth first over the needs; per need over all ways to spread its tasks over the nodes. `rooms` stays as it was.

    Each spread tried costs steps by the size of the pool.
    Equal nodes are interchangeable: of two, the first takes at least as many tasks.
    """
    start = rooms.mark()
    effort = 1 + len(rooms.nodes) // NODES_PER_STEP
    chunks: list[list[Chunk]] = []
    levels = [_spreads(rooms, wanted, 0, later=later)]
    marks = [start]
    try:
        while levels:
            rooms.rollback(marks[-1])
            del chunks[len(levels) - 1 :]
            if not budget.spend(effort):
                return "gave-up"
            spread = next(levels[-1], None)
            if spread is None:
                levels.pop()
                marks.pop()
                continue
            need = wanted[len(levels) - 1][0]
            chunks.append([take_chunk(rooms, need, *entry, later=later) for entry in spread])
            if len(levels) == len(wanted):
                return [chunk for level in chunks for chunk in level]
            if all(_capacity(rooms, need, later=later) >= count for need, count in wanted[len(levels) :]):
                marks.append(rooms.mark())
                levels.append(_spreads(rooms, wanted, len(levels), later=later))
    finally:
        rooms.rollback(start)
    return "impossible" if _devices_interchangeable(rooms, wanted) else "gave-up"


def _spreads(rooms: Rooms, wanted: list[tuple[Need, int]], level: int, *, later: bool) -> Iterator[list[Entry]]:
    """All ways to spread the level's tasks over nodes, the packed ones first, as (node, suited devices, count)."""
    need, count = wanted[level]
    nodes = ranking(rooms, need, later=later).best_first()
    caps = [cap for _, _, cap in nodes]
    if level == len(wanted) - 1:  # nothing comes after: one spread is as good as all
        yield [(node, suited, n) for (node, suited, _), n in zip(nodes, _packed(caps, count), strict=True) if n]
        return
    twin = _twins(rooms, nodes, [need for need, _ in wanted], later=later)
    room_after = [0] * (len(caps) + 1)
    for place in range(len(caps) - 1, -1, -1):
        room_after[place] = room_after[place + 1] + caps[place]
    counts: list[int] = []
    left = count
    going_down = True
    while True:
        if going_down and len(counts) < len(caps):
            place = len(counts)
            most = min(caps[place], left)
            before = twin[place]
            if before is not None:
                most = min(most, counts[before])
            counts.append(most)
            left -= most
            going_down = left <= room_after[place + 1]
            continue
        if going_down and left == 0:
            yield [(node, suited, n) for (node, suited, _), n in zip(nodes, counts, strict=True) if n]
        # Step back to the last node that can take one task less.
        while counts and (counts[-1] == 0 or left + 1 > room_after[len(counts)]):
            left += counts.pop()
        if not counts:
            return
        counts[-1] -= 1
        left += 1
        going_down = True


def _packed(caps: list[int], count: int) -> list[int]:
    counts = []
    for cap in caps:
        counts.append(min(cap, count))
        count -= counts[-1]
    return counts


def _twins(rooms: Rooms, nodes: list[Entry], needs: list[Need], *, later: bool) -> list[int | None]:
    """For each node the nearest one before it that looks the same to all needs."""
    suited_by_need = [{node.number: suited for node, suited in rooms.suited(need)} for need in needs]
    seen: dict[tuple[object, ...], int] = {}
    found: list[int | None] = []
    for place, (node, _, _) in enumerate(nodes):
        room = node.later if later else node.now()
        devices = tuple(
            (room.devices & suited[node.number]).bit_count() if node.number in suited else -1 for suited in suited_by_need
        )
        look = (devices, room.cpu_milli, room.memory_bytes, room.slots)
        found.append(seen.get(look))
        seen[look] = place
    return found


def _capacity(rooms: Rooms, need: Need, *, later: bool) -> int:
    return ranking(rooms, need, later=later).places


def _devices_interchangeable(rooms: Rooms, wanted: list[tuple[Need, int]]) -> bool:
    """Whether it cannot matter which of a node's devices a task gets.

    It does where one node has several models and two needs accept overlapping sets of them, neither within the
    other. Nested sets are fine: the narrower need is placed first.
    """
    sets = [frozenset(need.models) for need, _ in wanted if need.gpus and need.models]
    crossing = any(one & other and not (one <= other or other <= one) for one in sets for other in sets)
    return not crossing or all(len(node.models) <= 1 for node in rooms.nodes.values())
