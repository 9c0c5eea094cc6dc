"""Puts a whole unit on the pool, or says why it does not fit."""

from dataclasses import dataclass
from typing import Literal

from bailiff_core.model.units import Unit

from .budget import Budget
from .need import Need, Needs, needs_of_unit
from .packing import Chunk, Where, fill
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
    """A place for every task of a unit. `later`: some of the room is still on its way out, so all of it is only promised."""

    tasks: tuple[TaskPlace, ...]
    later: bool


@dataclass(frozen=True, slots=True)
class NoFit:
    """`impossible` is proven; `gave-up`: the steps ran out before an answer was found."""

    kind: Literal["impossible", "gave-up"]
    why: str


def place_unit(rooms: Rooms, unit: Unit, budget: Budget, *, promised: bool = False) -> GangPlace | NoFit:
    """Place all tasks of the unit together. On success their room is taken in `rooms`, otherwise `rooms` is as before.

    If what is free now suffices, only that is used and the unit may start at once. Otherwise, or with `promised`,
    room to come counts too, and all the unit's room is promised.
    """
    needs = needs_of_unit(unit)
    wanted = {need: len(indices) for need, indices in needs.items()}
    where = Where(spread=spreads(rooms, unit))
    found: list[Chunk] | NoFit = NoFit("impossible", "")
    for later in (True,) if promised else (False, True):
        found = pack(rooms, wanted, where, budget, later=later)
        if isinstance(found, list):
            return settle(rooms, needs, found, later=promised or any(chunk.later for chunk in found))
    assert isinstance(found, NoFit)
    return found


def spreads(rooms: Rooms, unit: Unit) -> bool:
    """Whether its tasks are spread over nodes instead of packed."""
    policy = rooms.policy
    return (unit.job.demand.pack or (policy.packing if policy is not None else "binpack")) == "spread"


def pack(rooms: Rooms, wanted: dict[Need, int], where: Where, budget: Budget, *, later: bool) -> list[Chunk] | NoFit:
    """Places for so many tasks of each need. `rooms` stays as it was.

    One need: filling nodes in order is exact, because the tasks are interchangeable and a task more on a node costs
    none elsewhere. Several needs: the same greedily, hardest first, and where that fails a search over all packings
    within the budget.
    """
    order = sorted(wanted, key=hardest_first)
    mark = rooms.mark()
    chunks: list[Chunk] = []
    for need in order:
        placed = fill(rooms, need, wanted[need], where, later=later)
        if placed is None:
            break
        chunks += placed
    else:
        rooms.rollback(mark)
        return chunks
    rooms.rollback(mark)
    if not later and len(wanted) == 1:
        return NoFit("impossible", "not now")
    why = why_not(rooms, wanted, where, later=later)
    if why is not None:
        return NoFit("impossible", why)
    packing = find_packing(rooms, [(need, wanted[need]) for need in order], where, budget, later=later)
    if isinstance(packing, list):
        return packing
    tasks = " and ".join(f"{count} × ({need})" for need, count in wanted.items())
    if packing == "impossible":
        return NoFit("impossible", f"each kind of task fits by itself, but {tasks} do not fit together")
    return NoFit("gave-up", f"found no place for {tasks} together within the search steps")


def hardest_first(need: Need) -> tuple[int, bool, int, int, int, int]:
    """Sorts needs for placing one after the other."""
    # A need that accepts fewer models first: one that accepts all of them takes what is left over.
    # Whole devices before shares, which may open one more device where all shared ones are full.
    share = need.share_milli or need.share_bytes
    return (len(need.models) or 1 << 30, need.shared, -need.devices, -share, -need.cpu_milli, -need.memory_bytes)


def settle(rooms: Rooms, needs: Needs, chunks: list[Chunk], *, later: bool) -> GangPlace:
    """Take the room, and deal it to the tasks: to the chunks of their need one after the other."""
    waiting = {need: iter(indices) for need, indices in needs.items()}
    places = []
    for chunk in chunks:
        for mask in chunk.masks:
            rooms.take(chunk.node, chunk.need.amount(chunk.node.units, mask), later=later)
            places.append(TaskPlace(next(waiting[chunk.need]), chunk.node.number, mask))
    return GangPlace(tuple(sorted(places, key=lambda place: place.index)), later)
