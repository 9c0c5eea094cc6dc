"""Migrate: a job that somebody wants elsewhere, or whose node is emptied, leaves for a place that is kept for it."""

from collections.abc import Iterator
from dataclasses import replace

from bailiff_core.lifecycle.attempts import GOES_ON, grace_of
from bailiff_core.lifecycle.by_hand import because, drain_grace, takes_whole
from bailiff_core.model.pool import Drain, Job, Pool
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
            yield _moves(pool, job, found, grace_of(pool, job), job.wish.reason)


def moves_off_drained(pool: Pool) -> Iterator[Decision]:
    """Jobs on a node that is emptied gracefully move as soon as there is room for them elsewhere.

    Only those that listen for notices: they lose a step at most. For the others it is gracious to let them finish.
    """
    if not pool.drained:
        return
    for job in list(pool.active_jobs()) if pool.room_grew else pool.touched_jobs():
        drain = leaves_gracefully(pool, job)
        if drain is None:
            continue
        with about(job):
            found = place_elsewhere(pool, job, None)
            if not isinstance(found, str):
                node = next(pool.nodes[task.node] for task in job.tasks if task.node in pool.drained)
                why = because(f"{node.name} is being emptied ({drain.mode})", drain.reason)
                yield _moves(pool, job, found, drain_grace(pool, job, drain), why)


def leaves_gracefully(pool: Pool, job: Job) -> Drain | None:
    """The drain of a node without which the job cannot go on, if it may move because of it."""
    if job.phase not in GOES_ON or job.held_because is not None or not job.tasks:
        return None
    if not all(task.state == "running" and task.attached and task.eviction is None for task in job.tasks):
        return None
    drains = {task.node: pool.nodes[task.node].drain for task in job.tasks if task.node in pool.drained}
    drain = next((each for each in drains.values() if each is not None and each.mode == "graceful"), None)
    return drain if drain is not None and takes_whole(job, dict.fromkeys(drains)) else None


def _moves(pool: Pool, job: Job, place: GangPlace, grace: int, reason: str) -> Decision:
    expires = pool.now + pool.rules.preemption.reservation_expiry + grace
    return MigrationDecided(
        job=job.id, attempt=job.attempt, placement=to_shares(place), grace=grace, expires=expires, reason=reason
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
