"""Puts a whole unit on the pool, or says why it does not fit."""

from collections.abc import Iterator
from dataclasses import dataclass

from bailiff_core.model.units import Unit

from .budget import Budget
from .need import Needs, needs_of_unit
from .packing import ANYWHERE, SPREAD, Chunk
from .parts import has_rules, parts_of, topology_problem
from .rooms import Rooms
from .solve import NoFit, pack
from .together import Dealt, Together

__all__ = ["GangPlace", "NoFit", "TaskPlace", "interchangeable", "place_unit"]


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
    later = promised or any(chunk.later for _, chunks in found for chunk in chunks)
    places = [place for needs, chunks in found for place in _deal(rooms, needs, chunks, later=later)]
    if len(places) > 1:
        places.sort(key=_index)
    return GangPlace(tuple(places), later)


def _index(place: TaskPlace) -> int:
    return place.index


def _places(rooms: Rooms, unit: Unit, budget: Budget, *, promised: bool) -> Dealt | NoFit:
    spread = spreads(rooms, unit)
    if has_rules(unit.job.demand):
        problem = topology_problem(unit.job.demand, rooms.policy)
        if problem is not None:
            return NoFit("impossible", problem)
        parts = parts_of(unit, rooms.policy)
        if parts.rules():
            return Together(rooms, parts, budget, spread=spread).place(promised=promised)
    needs = needs_of_unit(unit)
    wanted = {need: len(indices) for need, indices in needs.items()}
    where = SPREAD if spread else ANYWHERE
    found = NoFit("impossible", "") if promised else pack(rooms, wanted, where, budget, later=False, explain=False)
    if isinstance(found, NoFit):
        found = pack(rooms, wanted, where, budget, later=True)
    return found if isinstance(found, NoFit) else [(needs, found)]


def interchangeable(unit: Unit) -> bool:
    """Whether its tasks all need the same, and stand anywhere: then where they fit, they fit with more room, too."""
    needs = needs_of_unit(unit)
    return len(needs) == 1 and not next(iter(needs)).shared and not has_rules(unit.job.demand)


def spreads(rooms: Rooms, unit: Unit) -> bool:
    """Whether its tasks are spread over nodes instead of packed."""
    policy = rooms.policy
    return (unit.job.demand.pack or (policy.packing if policy is not None else "binpack")) == "spread"


def _deal(rooms: Rooms, needs: Needs, chunks: list[Chunk], *, later: bool) -> Iterator[TaskPlace]:
    """Take the room, and deal it to the tasks: to the chunks of their need one after the other."""
    waiting = {need: iter(indices) for need, indices in needs.items()}
    for chunk in chunks:
        for mask in chunk.masks:
            rooms.take(chunk.node, chunk.need.amount(chunk.node.units, mask), later=later)
            yield TaskPlace(next(waiting[chunk.need]), chunk.node.number, mask)
