"""Migrate: a job that somebody wants elsewhere leaves for a place that is kept for it."""

from collections.abc import Iterator
from dataclasses import replace

from bailiff_core.lifecycle.attempts import GOES_ON, grace_of
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import Unit, allocated_tasks
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import GangPlace, NoFit, place_unit
from bailiff_core.placement.shares import to_shares
from bailiff_core.records.decisions import MigrationDecided, MigrationRefused
from bailiff_core.records.payload import Decision
from bailiff_core.scene import scene_of

from .failure import about

LONGEST_TEXT = 2000


def migrations(pool: Pool) -> Iterator[Decision]:
    """Each wish is fulfilled or refused in the turn in which it came."""
    for job in pool.touched_jobs():
        if job.wish is None or job.wish.kind != "migrate" or job.phase not in GOES_ON:
            continue
        with about(job):
            found = place_elsewhere(pool, job, job.wish.node)
            if isinstance(found, str):
                yield MigrationRefused(job=job.id, attempt=job.attempt, reason=found[:LONGEST_TEXT])
                continue
            grace = grace_of(pool, job)
            yield MigrationDecided(
                job=job.id,
                attempt=job.attempt,
                placement=to_shares(found),
                grace=grace,
                expires=pool.now + pool.rules.preemption.reservation_expiry + grace,
                reason=job.wish.reason,
            )


def place_elsewhere(pool: Pool, job: Job, node: str | None) -> GangPlace | str:
    """Free room for all that the job has running, on that node or on others than its own; or a sentence why there is none.

    Its own room does not count: the place has to be there before the job is told to leave the one that it has.
    """
    rooms = scene_of(pool).rooms
    own = dict.fromkeys(task.node for task in job.tasks)
    closed = [room for room in rooms.nodes.values() if (room.number in own if node is None else room.name != node)]
    if len(closed) == len(rooms.nodes):
        return "there is no other node that takes work"
    members = tuple(task.index for task in allocated_tasks(job) if task.state != "reserved")
    anew = Unit(replace(job, tasks=[], promise=[]), members, core=True)
    mark = rooms.mark()
    for room in closed:
        rooms.close(room)
    found = place_unit(rooms, anew, Budget(pool.rules.preemption.search_steps))
    rooms.rollback(mark)
    if isinstance(found, NoFit):
        return found.why
    if found.later:
        return "there is room for it elsewhere only when others that are on their way out have left"
    return replace(found, later=True)
