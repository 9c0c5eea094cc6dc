"""Relocates victims: finds new placements for evicted units, as close to their original ones as possible."""

from collections.abc import Iterable, Mapping, Sequence

from bailiff_core.model.state import Job
from bailiff_core.model.units import Unit, evictable_units, reduced_to
from bailiff_core.model.work_lost import ends_for_good
from bailiff_core.placement.gang import GangPlacement, TaskPlacement, cannot_fit, place_unit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.placement.task_requirements import requirements_of_unit
from bailiff_core.placement.topology_parts import has_topology_constraints
from bailiff_core.quota.maintenance import on_open_nodes

from .candidates import EvictionStep
from .trial import Trial

STEPS_PER_MOVE = 200


def units_by_job(steps: Iterable[EvictionStep]) -> list[Unit]:
    """Evicted units merged into one unit per job."""
    indices: dict[str, list[int]] = {}
    jobs: dict[str, tuple[Job, bool]] = {}
    for step in steps:
        indices.setdefault(step.job.id, []).extend(step.unit.indices)
        jobs[step.job.id] = (step.job, jobs.get(step.job.id, (step.job, False))[1] or step.whole)
    return [Unit(job, tuple(sorted(indices[name])), core) for name, (job, core) in jobs.items()]


def find_relocations(trial: Trial, steps: Sequence[EvictionStep], budget: StepBudget) -> dict[str, GangPlacement]:
    """New placements of victims, by job, most valuable first; victims without one are left out.

    The victims are evicted and the preemptor is placed in the trial; new placements are taken there. A gang is relocated as
    a whole; tasks whose original place is free keep it. An elastic gang that has no place for all of its tasks gets the
    largest size that fits, at least its minimum. Surplus tasks of a job that continues are relocated one by one, the last
    step first: some of them may have no new placement.
    """
    value: dict[str, int] = {}
    parts: dict[str, list[Unit]] = {}
    for step in steps:
        value[step.job.id] = value.get(step.job.id, 0) + step.weight
        parts.setdefault(step.job.id, []).append(step.unit)
    found: dict[str, GangPlacement] = {}
    dead_ends: dict[object, None] = {}  # free resources only shrink
    for unit in sorted(units_by_job(steps), key=lambda unit: (-value[unit.job.id], -unit.job.seq, unit.job.id)):
        places: list[TaskPlacement] = []
        if gains_nothing_by_moving(unit):
            continue
        for each in (unit,) if unit.core else reversed(parts[unit.job.id]):
            shape = _shape(each)
            place = relocate(trial, each, budget) if shape not in dead_ends else None
            if place is None:
                dead_ends[shape] = None
                place = _relocate_fewer(trial, unit, budget) if unit.core else None
            if place is not None:
                places += place.tasks
        if places:
            found[unit.job.id] = GangPlacement(tuple(sorted(places, key=lambda task: task.index)), future=True)
    return found


def gains_nothing_by_moving(unit: Unit) -> bool:
    """Whether a new place is of no use: the job does not come back, or needs one for tasks that hold none now, too."""
    return unit.core and (ends_for_good(unit.job, whole=True) or any(task.finished for task in unit.job.tasks))


def _relocate_fewer(trial: Trial, gang: Unit, budget: StepBudget) -> GangPlacement | None:
    """A new placement of the gang without its first units, in eviction order: as few of them as possible, never the core.

    Where a gang fits, it fits with fewer tasks, too; so the size is found by bisection.
    """
    evicted = dict.fromkeys(gang.indices)
    units = [unit for unit in evictable_units(gang.job) if all(index in evicted for index in unit.indices)]
    found: GangPlacement | None = None
    fewest, most = 1, len(units) - 1  # units that are left out
    while fewest <= most:
        left_out = (fewest + most) // 2
        indices = sorted(index for unit in units[left_out:] for index in unit.indices)
        rest = Unit(reduced_to(gang.job, indices), tuple(indices), core=True)
        mark = trial.mark()
        place = relocate(trial, rest, budget)
        trial.rollback(mark)
        if place is None:
            fewest = left_out + 1
        else:
            found, most = place, left_out - 1
    if found is not None:
        indices = [task.index for task in found.tasks]
        trial.take(Unit(reduced_to(gang.job, indices), tuple(indices), core=True), found)
    return found


def _shape(unit: Unit) -> object:
    """Equal for units of which either all fit or none does."""
    if has_topology_constraints(unit.job.demand):
        return unit.job.id, unit.indices
    return tuple((need, len(indices)) for need, indices in requirements_of_unit(unit).items())


def units_without_relocation(evicted: Iterable[Unit], moved: Mapping[str, GangPlacement]) -> list[Unit]:
    """Units with at least one task that is not relocated."""
    relocated = {name: dict.fromkeys(task.index for task in place.tasks) for name, place in moved.items()}
    return [unit for unit in evicted if not all(index in relocated.get(unit.job.id, ()) for index in unit.indices)]


def relocate(trial: Trial, unit: Unit, budget: StepBudget) -> GangPlacement | None:
    """A new placement of an evicted unit, keeping original places where possible; its resources are taken."""
    part = budget.part(STEPS_PER_MOVE)
    mark = trial.mark()
    kept: list[TaskPlacement] = []
    missing: list[int] = []
    for index in unit.indices:
        single = Unit(unit.job, (index,), unit.core)
        task = unit.job.task(index)
        if task is not None and trial.cluster.allocation_of(single) and trial.could_stay(single):
            trial.occupy(single)
            kept.append(TaskPlacement(index, task.node, task.devices))
        else:
            missing.append(index)
    place: GangPlacement | None = None
    if not missing:
        place = GangPlacement(tuple(kept), future=True)
    elif kept:
        moved = on_open_nodes(trial.snapshot.state, Unit(unit.job, tuple(missing), unit.core))
        found = place_unit(trial.cluster, moved, part, reserve=True)
        if isinstance(found, GangPlacement):
            place = GangPlacement(tuple(sorted((*kept, *found.tasks), key=lambda task: task.index)), future=True)
    if place is None:
        trial.rollback(mark)
        moved = on_open_nodes(trial.snapshot.state, unit)
        if cannot_fit(trial.cluster, moved):
            return None
        found = place_unit(trial.cluster, moved, part, reserve=True)
        place = found if isinstance(found, GangPlacement) else None
    budget.join(part)
    return place
