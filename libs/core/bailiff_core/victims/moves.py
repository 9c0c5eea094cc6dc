"""New places for those who had to leave their own."""

from collections.abc import Iterable, Mapping, Sequence

from bailiff_core.model.pool import Job
from bailiff_core.model.units import Unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import GangPlace, TaskPlace, place_unit
from bailiff_core.placement.need import needs_of_unit
from bailiff_core.placement.parts import has_rules
from bailiff_core.placement.rooms import Rooms

from .candidates import Step
from .fit import surely_not

STEPS_PER_MOVE = 200


def leaving_of(steps: Iterable[Step]) -> list[Unit]:
    """What leaves, job by job: each job's units as one."""
    indices: dict[str, list[int]] = {}
    jobs: dict[str, tuple[Job, bool]] = {}
    for step in steps:
        indices.setdefault(step.job.id, []).extend(step.unit.indices)
        jobs[step.job.id] = (step.job, jobs.get(step.job.id, (step.job, False))[1] or step.whole)
    return [Unit(job, tuple(sorted(indices[name])), core) for name, (job, core) in jobs.items()]


def find_new_places(rooms: Rooms, steps: Sequence[Step], budget: Budget) -> dict[str, GangPlace]:
    """Where victims may go on, by job, the most valuable first; those without a place are left out.

    They are evicted and the asker stands in `rooms`; the places found are taken there. A gang goes whole; members whose
    own place is free keep it. Of a job that goes on, whoever would have stayed longest goes first, unit by unit: some of
    them may find places and others not.
    """
    value: dict[str, int] = {}
    parts: dict[str, list[Unit]] = {}
    for step in steps:
        value[step.job.id] = value.get(step.job.id, 0) + step.weight
        parts.setdefault(step.job.id, []).append(step.unit)
    found: dict[str, GangPlace] = {}
    hopeless: dict[object, None] = {}  # room only shrinks
    for unit in sorted(leaving_of(steps), key=lambda unit: (-value[unit.job.id], -unit.job.seq, unit.job.id)):
        places: list[TaskPlace] = []
        for each in (unit,) if unit.core else reversed(parts[unit.job.id]):
            shape = _shape(each)
            place = new_place(rooms, each, budget) if shape not in hopeless else None
            if place is None:
                hopeless[shape] = None
            else:
                places += place.tasks
        if places:
            found[unit.job.id] = GangPlace(tuple(sorted(places, key=lambda task: task.index)), later=True)
    return found


def _shape(unit: Unit) -> object:
    """Equal for units that find a place or do not, alike."""
    if has_rules(unit.job.demand):
        return unit.job.id, unit.indices
    return tuple((need, len(indices)) for need, indices in needs_of_unit(unit).items())


def taken_for_good(leaving: Iterable[Unit], moved: Mapping[str, GangPlace]) -> list[Unit]:
    """Units of which some have no new place."""
    there = {name: dict.fromkeys(task.index for task in place.tasks) for name, place in moved.items()}
    return [unit for unit in leaving if not all(index in there.get(unit.job.id, ()) for index in unit.indices)]


def new_place(rooms: Rooms, unit: Unit, budget: Budget) -> GangPlace | None:
    """A place for what was evicted of one job, as near to its own as may be; its room is taken in `rooms`."""
    part = budget.part(STEPS_PER_MOVE)
    mark = rooms.mark()
    kept: list[TaskPlace] = []
    missing: list[int] = []
    for index in unit.indices:
        alone = Unit(unit.job, (index,), unit.core)
        task = unit.job.task(index)
        if task is not None and rooms.standing(alone) and rooms.has_place_for(alone):
            rooms.put_back(alone)
            kept.append(TaskPlace(index, task.node, task.devices))
        else:
            missing.append(index)
    place: GangPlace | None = None
    if not missing:
        place = GangPlace(tuple(kept), later=True)
    elif kept:
        found = place_unit(rooms, Unit(unit.job, tuple(missing), unit.core), part, promised=True)
        if isinstance(found, GangPlace):
            place = GangPlace(tuple(sorted((*kept, *found.tasks), key=lambda task: task.index)), later=True)
    if place is None:
        rooms.rollback(mark)
        if surely_not(rooms, unit):
            return None
        found = place_unit(rooms, unit, part, promised=True)
        place = found if isinstance(found, GangPlace) else None
    budget.join(part)
    return place
