"""When a promise is dropped for someone else, the victims of that promise may be spared."""

from collections.abc import Iterable

from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import whole
from bailiff_core.placement.rooms import Rooms


def spared_by(pool: Pool, rooms: Rooms, dropped: Iterable[Job]) -> list[str]:
    """Running victims of the dropped gangs' plans whose own place nobody needs any more.

    `rooms` is the pool after the drop, the new gang's room taken. Spared victims take their room back in it.
    """
    spared = []
    for gang in dropped:
        plan = pool.plans.get(gang.plan) if gang.plan is not None else None
        for name in plan.victims if plan is not None else ():
            victim = pool.jobs.get(name)
            if victim is None or victim.phase != "evicting" or victim.eviction is None:
                continue
            if victim.eviction.plan == gang.plan and rooms.has_place_for(whole(victim)):
                rooms.put_back(whole(victim))
                spared.append(name)
    return spared
