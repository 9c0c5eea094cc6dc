"""Puts a whole gang on the pool, or says why it does not fit."""

from dataclasses import dataclass
from typing import Literal

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.pool import Job

from .budget import Budget
from .need import Need, needs_of, unsupported
from .packing import Chunk, fill
from .rooms import Rooms
from .search import find_packing
from .why import why_not


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """One task's place: node number and a mask of devices."""

    index: int
    node: int
    devices: int


@dataclass(frozen=True, slots=True)
class GangPlace:
    """A place for every task. `later`: some of the room is still on its way out, so the whole gang is only promised."""

    tasks: tuple[TaskPlace, ...]
    later: bool


@dataclass(frozen=True, slots=True)
class NoFit:
    """`impossible` is proven; `gave-up`: the steps ran out before an answer was found."""

    kind: Literal["impossible", "gave-up"]
    why: str


def place_gang(rooms: Rooms, job: Job, budget: Budget, *, promised: bool = False) -> GangPlace | NoFit:
    """Place all tasks together. On success their room is taken in `rooms`, otherwise `rooms` is as before.

    If what is free now suffices, only that is used and the gang may start at once. Otherwise, or with `promised`,
    room to come counts too, and all the gang's room is promised. One need: filling nodes in order is exact, because
    the tasks are interchangeable and a task more on a node costs none elsewhere. Several needs: the same greedily,
    largest first, and where that fails a search over all packings within the budget.
    """
    return place_demand(rooms, job.demand, budget, promised=promised)


def place_demand(rooms: Rooms, demand: JobDemand, budget: Budget, *, promised: bool = False) -> GangPlace | NoFit:
    """`place_gang` for what is not a job yet."""
    needs = needs_of(demand)
    missing = unsupported(demand)
    if missing is not None:
        return NoFit("impossible", missing)
    if not promised:
        found = _pack(rooms, needs, budget, later=False)
        if isinstance(found, list):
            return settle(rooms, needs, found, later=False)
    found = _pack(rooms, needs, budget, later=True)
    if isinstance(found, list):
        return settle(rooms, needs, found, later=True)
    return found


def _pack(rooms: Rooms, needs: dict[Need, list[int]], budget: Budget, *, later: bool) -> list[Chunk] | NoFit:
    wanted = {need: len(indices) for need, indices in needs.items()}
    why = why_not(rooms, wanted, later=later)
    if why is not None:
        return NoFit("impossible", why)
    order = sorted(wanted, key=hardest_first)
    mark = rooms.mark()
    chunks: list[Chunk] = []
    for need in order:
        placed = fill(rooms, need, wanted[need], later=later)
        if placed is None:
            break
        chunks += placed
    else:
        rooms.rollback(mark)
        return chunks
    rooms.rollback(mark)
    packing = find_packing(rooms, [(need, wanted[need]) for need in order], budget, later=later)
    if isinstance(packing, list):
        return packing
    tasks = " and ".join(f"{count} × ({need})" for need, count in wanted.items())
    if packing == "impossible":
        return NoFit("impossible", f"each kind of task fits by itself, but {tasks} do not fit together")
    return NoFit("gave-up", f"found no place for {tasks} together within the search steps")


def hardest_first(need: Need) -> tuple[int, int, int, int]:
    """Sorts needs for placing one after the other."""
    # A need that accepts fewer models first: one that accepts all of them takes what is left over.
    return (len(need.models) or 1 << 30, -need.gpus, -need.cpu_milli, -need.memory_bytes)


def settle(rooms: Rooms, needs: dict[Need, list[int]], chunks: list[Chunk], *, later: bool) -> GangPlace:
    """Take the room, and deal it to the tasks: in index order to the chunks of their need, lowest device first."""
    waiting = {need: iter(indices) for need, indices in needs.items()}
    places = []
    for chunk in chunks:
        rooms.take(chunk.node, chunk.need, chunk.devices, chunk.count, later=later)
        devices = chunk.devices
        for _ in range(chunk.count):
            mine = lowest(devices, chunk.need.gpus)
            devices &= ~mine
            places.append(TaskPlace(next(waiting[chunk.need]), chunk.node.number, mine))
    return GangPlace(tuple(sorted(places, key=lambda place: place.index)), later)


def lowest(mask: int, count: int) -> int:
    """The `count` lowest bits of the mask."""
    taken = 0
    for _ in range(count):
        bit = mask & -mask
        taken |= bit
        mask ^= bit
    return taken


def take_place(rooms: Rooms, job: Job, place: GangPlace) -> None:
    """Take the room of a placement found earlier, on the same or equal rooms."""
    need_of = {index: need for need, indices in needs_of(job.demand).items() for index in indices}
    for task in place.tasks:
        rooms.take(rooms.nodes[task.node], need_of[task.index], task.devices, later=place.later)
