"""When a promise is dropped for someone else, the victims of that promise may be spared."""

from collections.abc import Iterable

from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import Unit, holds, whole
from bailiff_core.placement.rooms import Rooms


def spared_by(pool: Pool, rooms: Rooms, dropped: Iterable[Job]) -> list[str]:
    """Running victims of the dropped gangs' plans whose own place nobody needs any more: jobs, or all that leaves of one.

    `rooms` is the pool after the drop, the new gang's room taken. Spared victims take their room back in it.
    """
    spared = []
    for gang in dropped:
        plan = pool.plans.get(gang.plan) if gang.plan is not None else None
        for name in plan.victims if plan is not None else ():
            victim = pool.jobs.get(name)
            unit = _leaving_for(victim, gang.plan) if victim is not None else None
            if unit is not None and rooms.has_place_for(unit):
                rooms.put_back(unit)
                spared.append(name)
    return spared


def _leaving_for(victim: Job, plan: int | None) -> Unit | None:
    if victim.phase == "evicting":
        return whole(victim) if victim.eviction is not None and victim.eviction.plan == plan else None
    tasks = [task for task in victim.tasks if task.eviction is not None and task.eviction.plan == plan and holds(task)]
    return Unit(victim, tuple(task.index for task in tasks), core=False) if tasks else None
