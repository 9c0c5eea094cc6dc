"""Allocate: room is free, or on its way to be."""

from collections.abc import Iterator

from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import next_unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import GangPlace, place_unit
from bailiff_core.placement.rooms import Rooms
from bailiff_core.placement.shares import to_shares
from bailiff_core.queue.order import queue_key
from bailiff_core.records.decisions import JobPlaced, JobWaits
from bailiff_core.records.payload import Decision

from .failure import about


def allocate(pool: Pool) -> Iterator[Decision]:
    """Try every waiting job in queue order; one that does not fit is passed over.

    A shape that did not fit is not tried again until something grew: within a pass room only shrinks.
    """
    if "allocate" not in pool.rules.preemption.verbs:
        return
    if pool.room_grew:
        pool.unplaceable.clear()
        pool.room_grew = False
    views: list[Rooms] = []
    for job in [pool.jobs[name] for name in pool.queue]:
        if not ready_to_try(pool, job):
            continue
        behind = _behind_selection(pool, job)
        shape = f"{job.shape}+" if behind else job.shape
        with about(job):
            if shape not in pool.unplaceable:
                views = views or _views(pool)
                rooms, other = views if not behind else reversed(views)
                unit = next_unit(job)
                if unit is None:
                    continue
                place = place_unit(rooms, unit, Budget(pool.rules.preemption.search_steps))
                if isinstance(place, GangPlace):
                    if other is not rooms:
                        other.place(unit, place)
                    yield _placed(pool, job, place)
                    continue
                pool.unplaceable[shape] = place.why
            if not job.told_waiting:
                yield JobWaits(job=job.id, reason=pool.unplaceable[shape])


def _views(pool: Pool) -> list[Rooms]:
    """Free room as jobs ahead of the open selection see it, and as jobs behind it do."""
    everything = Rooms.of(pool)
    if pool.selection is None:
        return [everything, everything]
    return [everything, Rooms.of(pool, held_back=pool.selection.idle)]


def ready_to_try(pool: Pool, job: Job) -> bool:
    """Not held after a failure, not cancelled, its back-off over."""
    return job.held_because is None and not job.cancelled and pool.now >= job.not_before


def _placed(pool: Pool, job: Job, place: GangPlace) -> JobPlaced:
    return JobPlaced(
        job=job.id,
        attempt=job.attempt + 1,
        placement=to_shares(place),
        reserved=place.later,
        expires=pool.now + pool.rules.preemption.reservation_expiry if place.later else None,
    )


def _behind_selection(pool: Pool, job: Job) -> bool:
    """While a selection is out, jobs behind its first request leave alone what was idle when it was opened."""
    if pool.selection is None or not pool.selection.requests:
        return False
    return queue_key(job) > queue_key(pool.jobs[pool.selection.requests[0].job])
