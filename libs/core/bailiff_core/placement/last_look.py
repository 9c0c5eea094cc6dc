"""A last look before anybody is told to leave: is there room by now?"""

from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import Unit
from bailiff_core.scene import scene_of

from .budget import Budget
from .gang import GangPlace, place_unit


def fits_without_evictions(pool: Pool, job: Job) -> bool:
    """Whether what the job has reserved could start at once on room that nobody holds or is promised."""
    rooms = scene_of(pool).rooms
    promised = tuple(task.index for task in job.tasks if task.state == "reserved")
    unit = Unit(job, promised, core=job.phase == "reserved")
    mark = rooms.mark()
    rooms.evict(unit)
    place = place_unit(rooms, unit, Budget(pool.rules.preemption.search_steps))
    rooms.rollback(mark)
    return isinstance(place, GangPlace) and not place.later
