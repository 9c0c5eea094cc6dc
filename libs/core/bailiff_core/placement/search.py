"""Packs tasks of several needs when filling greedily has failed: all packings are tried, within a budget."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from .budget import Budget
from .descent import descend
from .need import Need
from .offers import Offer
from .packing import Chunk, Where, capacity, offers, take_chunk
from .rooms import Rooms


def find_packing(
    rooms: Rooms, wanted: list[tuple[Need, int]], where: Where, budget: Budget, *, later: bool
) -> list[Chunk] | Literal["impossible", "gave-up", "depends-on-devices"]:
    """Depth first over the needs; per need over all ways to spread its tasks over the nodes. `rooms` stays as it was.

    depends-on-devices: nothing was found, but another choice of devices on the nodes might do better.

    Equal nodes are interchangeable: of two, the first takes at least as many tasks.
    """

    def choices(taken: Sequence[list[Chunk]]) -> Iterator[list[Offer]] | None:
        rest = wanted[len(taken) :]
        if taken and not all(capacity(rooms, need, where, later=later) >= count for need, count in rest):
            return None
        return _spreads(rooms, wanted, len(taken), where, later=later)

    def take(level: int, spread: list[Offer]) -> list[Chunk]:
        need = wanted[level][0]
        return [take_chunk(rooms, need, offer.node, offer.suited, offer.count, later=later) for offer in spread]

    found = descend(rooms, where, budget, len(wanted), choices, take)
    if found == "gave-up":
        return found
    if found != "impossible":
        return [chunk for level in found for chunk in level]
    return "impossible" if _devices_interchangeable(rooms, wanted) else "depends-on-devices"


def _spreads(rooms: Rooms, wanted: list[tuple[Need, int]], level: int, where: Where, *, later: bool) -> Iterator[list[Offer]]:
    """All ways to spread the level's tasks over nodes, the packed ones first, each with its number of tasks."""
    need, count = wanted[level]
    nodes = list(offers(rooms, need, where, later=later))
    caps = [offer.count for offer in nodes]
    if level == len(wanted) - 1:  # nothing comes after: one spread is as good as all
        yield [replace(offer, count=n) for offer, n in zip(nodes, _packed(caps, count), strict=True) if n]
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
            yield [replace(offer, count=n) for offer, n in zip(nodes, counts, strict=True) if n]
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


def _twins(rooms: Rooms, nodes: list[Offer], needs: list[Need], *, later: bool) -> list[int | None]:
    """For each node the nearest one before it that looks the same to all needs."""
    suited_by_need = [{node.number: suited for node, suited in rooms.suited(need)} for need in needs]
    shared = any(need.shared for need in needs)
    seen: dict[tuple[object, ...], int] = {}
    found: list[int | None] = []
    for place, offer in enumerate(nodes):
        node = offer.node
        room = node.later if later else node.now()
        devices = tuple(
            (room.devices & suited[node.number]).bit_count() if node.number in suited else -1 for suited in suited_by_need
        )
        parts = (room.devices, *sorted(room.shares.items()), *node.units.items()) if shared else ()
        look = (devices, room.cpu_milli, room.memory_bytes, room.slots, parts)
        found.append(seen.get(look))
        seen[look] = place
    return found


def _devices_interchangeable(rooms: Rooms, wanted: list[tuple[Need, int]]) -> bool:
    """Whether it cannot matter which of a node's devices a task gets.

    It does where one node has several models and two needs accept overlapping sets of them, neither within the
    other. Nested sets are fine: the narrower need is placed first. Where devices are shared as well, it does not
    where all devices of a node are alike, and only the need that is placed last shares them.
    """
    if any(need.shared for need, _ in wanted[:-1]):
        return False
    if wanted[-1][0].shared:
        return all(len(node.models) <= 1 and len(dict.fromkeys(node.units.values())) <= 1 for node in rooms.nodes.values())
    sets = [frozenset(need.models) for need, _ in wanted if need.models]
    crossing = any(one & other and not (one <= other or other <= one) for one in sets for other in sets)
    return not crossing or all(len(node.models) <= 1 for node in rooms.nodes.values())
