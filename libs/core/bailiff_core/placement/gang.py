"""Puts a whole unit on the pool, or says why it does not fit."""

from dataclasses import dataclass

from bailiff_core.model.units import Unit

from .budget import Budget
from .need import Needs, needs_of_unit
from .packing import Chunk, Where
from .parts import has_rules, parts_of, topology_problem
from .rooms import Rooms
from .solve import NoFit, pack
from .together import Together

__all__ = ["GangPlace", "NoFit", "TaskPlace", "place_unit", "settle"]


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


def place_unit(rooms: Rooms, unit: Unit, budget: Budget, *, promised: bool = False) -> GangPlace | NoFit:
    """Place all tasks of the unit together. On success their room is taken in `rooms`, otherwise `rooms` is as before.

    If what is free now suffices, only that is used and the unit may start at once. Otherwise, or with `promised`,
    room to come counts too, and all the unit's room is promised.
    """
    found = _places(rooms, unit, budget, promised=promised)
    if isinstance(found, NoFit):
        return found
    return settle(rooms, needs_of_unit(unit), found, later=promised or any(chunk.later for chunk in found))


def _places(rooms: Rooms, unit: Unit, budget: Budget, *, promised: bool) -> list[Chunk] | NoFit:
    spread = spreads(rooms, unit)
    if has_rules(unit.job.demand):
        problem = topology_problem(unit.job.demand, rooms.policy)
        if problem is not None:
            return NoFit("impossible", problem)
        parts = parts_of(unit, rooms.policy)
        if parts.rules():
            return Together(rooms, parts, budget, spread=spread).place(promised=promised)
    wanted = {need: len(indices) for need, indices in needs_of_unit(unit).items()}
    if not promised:
        found = pack(rooms, wanted, Where(spread=spread), budget, later=False)
        if not isinstance(found, NoFit):
            return found
    return pack(rooms, wanted, Where(spread=spread), budget, later=True)


def spreads(rooms: Rooms, unit: Unit) -> bool:
    """Whether its tasks are spread over nodes instead of packed."""
    policy = rooms.policy
    return (unit.job.demand.pack or (policy.packing if policy is not None else "binpack")) == "spread"


def settle(rooms: Rooms, needs: Needs, chunks: list[Chunk], *, later: bool) -> GangPlace:
    """Take the room, and deal it to the tasks: to the chunks of their need one after the other."""
    waiting = {need: iter(indices) for need, indices in needs.items()}
    places = []
    for chunk in chunks:
        for mask in chunk.masks:
            rooms.take(chunk.node, chunk.need.amount(chunk.node.units, mask), later=later)
            places.append(TaskPlace(next(waiting[chunk.need]), chunk.node.number, mask))
    return GangPlace(tuple(sorted(places, key=lambda place: place.index)), later)
