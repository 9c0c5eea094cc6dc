"""Places a unit where it keeps to limit and quota: what MiB of a device come to depends on the device.

The best place is tried first. Where it would cost too much, larger devices are tried, from the smallest that is larger;
at last as many tasks as fit stand on the largest, and so on down, which costs least of all.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from bailiff_core.model.pool import Job
from bailiff_core.model.units import Unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import GangPlace, NoFit, TaskPlace, place_unit
from bailiff_core.placement.need import needs_of_unit
from bailiff_core.placement.packing import ANYWHERE, capacity
from bailiff_core.placement.parts import has_rules
from bailiff_core.placement.rooms import Rooms

from .gates import over_bounds
from .measure import by_bytes

if TYPE_CHECKING:
    from bailiff_core.scene import Scene

NOWHERE = ("",)
Over = Callable[[GangPlace], str | None]


def place_within_bounds(
    scene: "Scene", unit: Unit, budget: Budget, *, promised: bool = False, over: Over | None = None
) -> GangPlace | NoFit | str:
    """A place, or why there is none, or which bound every place would break. On success its room is taken in the scene's rooms.

    Units without MiB of a device are placed as ever: their bounds are tested before. over: says which bound a place would
    break; left out: a limit or a quota.
    """
    breaks: Over = over or (lambda place: over_bounds(scene, unit, place))
    rooms = scene.rooms
    mark = rooms.mark()
    first = place_unit(rooms, unit, budget, promised=promised)
    if isinstance(first, NoFit) or not by_bytes(unit.job):
        return first
    told = breaks(first)
    if told is None:
        return first
    rooms.rollback(mark)
    sizes = _sizes(rooms)
    for least in sorted(dict.fromkeys(sizes.values()))[1:]:
        found = place_unit(rooms, _only_on(unit, [name for name in sizes if sizes[name] >= least]), budget, promised=promised)
        if isinstance(found, GangPlace) and breaks(found) is None:
            return found
        rooms.rollback(mark)
    spread = _largest_first(rooms, unit, sizes, budget, promised=promised)
    if spread is not None and breaks(spread) is None:
        return spread
    rooms.rollback(mark)
    return told


def _sizes(rooms: Rooms) -> dict[str, int]:
    """By node, the units of its smallest device."""
    return {node.name: min(node.units.values()) for node in rooms.nodes.values() if node.units}


def _only_on(unit: Unit, nodes: list[str]) -> Unit:
    """The unit with its MiB on these nodes alone."""
    job = unit.job
    groups = []
    for group in job.demand.tasks:
        allowed = tuple(name for name in nodes if not group.nodes or name in group.nodes)
        bound = group.gpu_share_bytes is not None
        groups.append(group.model_copy(update={"nodes": allowed or NOWHERE}) if bound else group)
    asks: Job = replace(job, demand=job.demand.model_copy(update={"tasks": tuple(groups)}))
    return Unit(asks, unit.indices, unit.core)


def _largest_first(rooms: Rooms, unit: Unit, sizes: dict[str, int], budget: Budget, *, promised: bool) -> GangPlace | None:
    """Kind by kind, those that ask for MiB after the others, as many as fit on the largest devices; their room is taken."""
    if has_rules(unit.job.demand):
        return None
    places: list[TaskPlace] = []
    later = promised
    for share, indices in sorted(((need.share_bytes, tuple(each)) for need, each in needs_of_unit(unit).items())):
        for part in _parts(rooms, unit, indices, sizes if share else {}, later=True):
            found = place_unit(rooms, part, budget, promised=promised)
            if isinstance(found, NoFit):
                return None
            places += found.tasks
            later = later or found.later
    return GangPlace(tuple(sorted(places, key=lambda task: task.index)), later) if len(places) == len(unit.indices) else None


def _parts(rooms: Rooms, unit: Unit, indices: tuple[int, ...], sizes: dict[str, int], *, later: bool) -> Iterator[Unit]:
    if not sizes:
        yield Unit(unit.job, indices, unit.core)
        return
    for size in sorted(dict.fromkeys(sizes.values()), reverse=True):
        part = _only_on(Unit(unit.job, indices, unit.core), [name for name in sizes if sizes[name] == size])
        need = next(iter(needs_of_unit(part)))
        count = min(len(indices), capacity(rooms, need, ANYWHERE, later=later))
        if count:
            yield Unit(part.job, indices[:count], unit.core)
            indices = indices[count:]
        if not indices:
            return
