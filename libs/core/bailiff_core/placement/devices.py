"""Packs tasks where it matters which of a node's devices each gets: task by task over all different choices."""

from collections.abc import Iterator
from typing import Literal

from bailiff_core.model.places import bits

from .budget import Budget
from .need import Need
from .packing import Chunk, Where, has_room, offers, take_devices
from .rooms import NodeRoom, Rooms

NODES_PER_STEP = 16


def find_devices(
    rooms: Rooms, wanted: list[tuple[Need, int]], where: Where, budget: Budget, *, later: bool
) -> list[Chunk] | Literal["impossible", "gave-up"]:
    """Depth first over the tasks, within the budget. `rooms` stays as it was.

    Of equal devices of a node, and of equal nodes, one is tried; equal tasks stand on nodes in ascending order.
    """
    tasks = [need for need, count in wanted for _ in range(count)]
    start = rooms.mark()
    effort = 1 + len(rooms.nodes if where.within is None else where.within) // NODES_PER_STEP
    chunks: list[Chunk] = []
    levels = [_choices(rooms, tasks, chunks, where, later=later)]
    marks = [start]
    try:
        while levels:
            rooms.rollback(marks[-1])
            del chunks[len(levels) - 1 :]
            if not budget.spend(effort):
                return "gave-up"
            choice = next(levels[-1], None)
            if choice is None:
                levels.pop()
                marks.pop()
                continue
            node, mask = choice
            chunks.append(take_devices(rooms, tasks[len(chunks)], node, mask))
            if len(chunks) == len(tasks):
                return list(chunks)
            marks.append(rooms.mark())
            levels.append(_choices(rooms, tasks, chunks, where, later=later))
    finally:
        rooms.rollback(start)
    return "impossible"


def _choices(
    rooms: Rooms, tasks: list[Need], placed: list[Chunk], where: Where, *, later: bool
) -> Iterator[tuple[NodeRoom, int]]:
    """Nodes and devices for the next task; none where one of the tasks to come has no room even by itself."""
    left: dict[Need, int] = {}
    for task in tasks[len(placed) :]:
        left[task] = left.get(task, 0) + 1
    if not all(has_room(rooms, need, count, where, later=later) for need, count in left.items()):
        return
    need = tasks[len(placed)]
    lowest = placed[-1].node.number if placed and placed[-1].need == need else -1
    seen: dict[object, None] = {}
    for offer in sorted(offers(rooms, need, where, later=later), key=lambda offer: offer.node.number):
        look = _look(offer.node, list(left), later=later)
        if offer.node.number >= lowest and look not in seen:
            seen[look] = None
            for mask in device_choices(need, offer.node, offer.suited, later=later):
                yield offer.node, mask


def _look(node: NodeRoom, needs: list[Need], *, later: bool) -> object:
    """Equal for nodes between which no task to come can tell."""
    room = node.later if later else node.now()
    admits = tuple(not need.nodes or node.name in need.nodes for need in needs)
    labels = tuple(need.kind.admits(node.labels) for need in needs)
    kinds = sorted(kind_of(node, number, later=later) for number in bits(node.usable))
    return (admits, labels, room.cpu_milli, room.memory_bytes, room.slots, tuple(kinds))


def kind_of(node: NodeRoom, number: int, *, later: bool) -> tuple[int, int, str]:
    """What is free of a device, its size and its model."""
    room, units = node.later if later else node.now(), node.units[number]
    free = units if room.devices >> number & 1 else max(0, room.shares.get(number, 0))
    model = next(name for name, mask in node.models.items() if mask >> number & 1)
    return free, units, model


def device_choices(need: Need, node: NodeRoom, suited: int, *, later: bool) -> Iterator[int]:
    """Sets of devices for one task, one of each that look the same."""
    alike: dict[tuple[int, int, str], list[int]] = {}
    for number in bits(suited):
        kind = kind_of(node, number, later=later)
        free, units, _ = kind
        if free == units if need.gpus else free >= need.share(units):
            alike.setdefault(kind, []).append(number)
    groups = [alike[kind] for kind in sorted(alike)]

    def choose(at: int, missing: int) -> Iterator[int]:
        if not missing:
            yield 0
        elif at < len(groups):
            for count in range(min(missing, len(groups[at])), -1, -1):
                mask = sum(1 << number for number in groups[at][:count])
                for rest in choose(at + 1, missing - count):
                    yield mask | rest

    return choose(0, need.devices)
