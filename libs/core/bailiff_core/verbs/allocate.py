"""Allocate: room is free, or on its way to be."""

from collections.abc import Iterator

from bailiff_core.lifecycle.resize import heard, told_already
from bailiff_core.model.places import ranges
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.ever import could_ever_fit
from bailiff_core.placement.gang import GangPlace, NoFit, interchangeable
from bailiff_core.placement.shares import to_shares
from bailiff_core.protections.no_borrowing import keeps_from_borrowing
from bailiff_core.protections.schedule_timeout import lets_others_pass
from bailiff_core.queue.backfill import Backfill
from bailiff_core.queue.gates import over_bounds
from bailiff_core.queue.order import Pass, queue_key
from bailiff_core.queue.within_bounds import place_within_bounds
from bailiff_core.records.decisions import JobGrown, JobPlaced, JobWaits
from bailiff_core.records.payload import Decision
from bailiff_core.scene import scene_of

from .failure import about

LONGEST_REASON = 2000


def allocate(pool: Pool) -> Iterator[Decision]:
    """Try the waiting jobs in queue order; one that does not fit is passed over, as far as the policy's backfill lets it.

    Only what may have changed is tried: every job after room grew, otherwise those that joined the queue since, and the
    head of the queue, because others may not delay it. Whoever was passed over for its sake is tried again when
    something else is kept for it, or when others may come before it.
    """
    if pool.unsettled or "allocate" not in pool.rules.preemption.verbs:
        return
    if pool.room_grew:
        pool.unplaceable.clear()
        pool.untried = dict.fromkeys(pool.queue)
        pool.passed_over.clear()
        pool.room_grew = False
    if pool.passed_over and not _passed_over_for_good(pool):
        pool.untried.update(pool.passed_over)
        pool.passed_over.clear()
    waiting = [pool.jobs[name] for name in pool.untried if ready_to_try(pool, pool.jobs[name])]
    waiting = [job for job in waiting if not behind_selection(pool, job)]
    if not waiting:
        return
    everybody = not pool.rules.projects and len(waiting) == len(pool.queue)
    head = None if everybody else _head(pool)
    if head is not None and head.id not in pool.untried:
        waiting.append(head)
    began = scene_of(pool).usage.changes_since(0)[0]
    order = Pass(scene_of(pool), waiting)
    backfill: Backfill | None = None
    while (unit := order.next()) is not None:
        job = unit.job
        with about(job):
            found = _find(pool, unit, backfill if job is not head else None)
            if isinstance(found, GangPlace):
                yield _placed(pool, unit, found)
                scene_of(pool)  # brought up to date: the pass goes by its use of projects
                order.put_back(job)
                if job is head:
                    head = _head(pool)
                    if head is not None:
                        order.put_back(head)
                continue
            if everybody:  # all are in the pass, in the order of the queue: who is its head is known when one fails
                everybody, head = False, _head(pool)
            if job is head:
                backfill = Backfill(scene_of(pool), unit, _budget(pool))
            if unit.core and not job.told_waiting:
                yield JobWaits(job=job.id, reason=found[:LONGEST_REASON])
    if backfill is not None and pool.passed_over:
        pool.kept_for_head = (began, backfill.keeps())


def _find(pool: Pool, unit: Unit, backfill: Backfill | None) -> GangPlace | str:
    """Where the unit can stand, or a sentence why it cannot now. What only time keeps out is tried again."""
    scene = scene_of(pool)
    too_soon = keeps_from_borrowing(scene, unit)
    if told_already(pool, unit.job):
        if unit.job.phase == "starting":
            too_soon = "it grows once all of it runs"
        elif not heard(pool, unit.job):
            too_soon = "it grows once all nodes that it runs on are heard again"
    if too_soon is not None:
        return too_soon
    pool.untried.pop(unit.job.id, None)
    shape = shape_of(unit)
    if shape in pool.unplaceable and (unit.job.told_waiting or not unit.core):
        return pool.unplaceable[shape]  # nobody is told why
    forbidden = over_bounds(scene, unit)
    if forbidden is not None:
        return forbidden
    if shape in pool.unplaceable:
        return pool.unplaceable[shape]
    waits = backfill is not None and not backfill.over_before(unit)
    if backfill is not None and waits and shape in backfill.kept_out:
        return _pass_over(pool, unit, backfill)
    mark = scene.mark()
    beside: GangPlace | NoFit | None = None
    if backfill is not None and waits and backfill.known and interchangeable(unit):
        beside = backfill.place(unit, _budget(pool))  # where there is room beside what is kept, there is room
        scene.rollback(mark)
        if isinstance(beside, GangPlace):
            return over_bounds(scene, unit, beside) or beside
    place = place_within_bounds(scene, unit, _budget(pool))
    scene.rollback(mark)
    if isinstance(place, str):
        return place
    if not isinstance(place, GangPlace):
        pool.unplaceable[shape] = place.why
        return place.why
    if backfill is not None and waits:
        place = beside or backfill.place(unit, _budget(pool))
        scene.rollback(mark)
        if not isinstance(place, GangPlace):
            backfill.kept_out[shape] = None
            return _pass_over(pool, unit, backfill)
        return over_bounds(scene, unit, place) or place
    return place


def _pass_over(pool: Pool, unit: Unit, backfill: Backfill) -> str:
    pool.passed_over[unit.job.id] = None
    return f"it would delay {backfill.head.id}, which is first in the queue"


def ready_to_try(pool: Pool, job: Job) -> bool:
    """Not held after a failure, not cancelled, its back-off over."""
    return job.held_because is None and not job.cancelled and pool.now >= job.not_before


def shape_of(unit: Unit) -> str:
    """What decides where a unit fits, and nothing else: units of one shape fit or do not fit together.

    Members that stand already bind the others (topology), so the units of such a job are like no other's.
    """
    job = unit.job
    if not job.tasks and len(unit.indices) == job.size:
        return job.shape
    own = f"@{job.id}" if job.tasks else ""
    return f"{job.shape}{own}:{ranges(unit.indices)}"


def why_it_waits(pool: Pool, job: Job) -> str:
    """Why the last try found no place, or which bound forbids one, as a sentence."""
    unit = next_unit(job)
    if unit is None:
        return "it does not fit"
    scene = scene_of(pool)
    forbidden = over_bounds(scene, unit)
    return forbidden or pool.unplaceable.get(shape_of(unit), "it does not fit")


def _head(pool: Pool) -> Job | None:
    """The first job of the queue that waits for nothing but room: with `reserve` no other may delay it."""
    if pool.rules.backfill != "reserve":
        return None
    scene = scene_of(pool)
    for job in map(pool.jobs.__getitem__, pool.queue):
        if behind_selection(pool, job):  # and so are all after it
            return None
        if job.phase != "pending" or not ready_to_try(pool, job) or lets_others_pass(pool, job):
            continue
        unit = next_unit(job)
        if unit is None or over_bounds(scene, unit) or keeps_from_borrowing(scene, unit):
            continue
        if could_ever_fit(pool, job.demand) is None:
            return job
    return None


def _passed_over_for_good(pool: Pool) -> bool:
    """Whether nothing has changed that could let somebody pass who was passed over: the order, or what is kept."""
    scene, (position, kept) = scene_of(pool), pool.kept_for_head
    if scene.usage.changes_since(position)[1] != []:
        return False
    head = _head(pool)
    unit = next_unit(head) if head is not None else None
    return unit is not None and Backfill(scene, unit, _budget(pool)).keeps() == kept


def _budget(pool: Pool) -> Budget:
    return Budget(pool.rules.preemption.search_steps)


def behind_selection(pool: Pool, job: Job) -> bool:
    """Whether the job waits until an open selection has its answer: it would take room that the answer counts on.

    A selection without a deadline (nobody answers) holds up nobody.
    """
    selection = pool.selection
    if selection is None or not selection.requests or selection.deadline is None:
        return False
    return queue_key(job) > queue_key(pool.jobs[selection.requests[0].job])


def _placed(pool: Pool, unit: Unit, place: GangPlace) -> Decision:
    job = unit.job
    waits = place.later or job.phase == "reserved" or told_already(pool, job)
    expires = pool.now + pool.rules.preemption.reservation_expiry if waits else None
    shares = to_shares(place)
    if job.phase != "pending":
        return JobGrown(job=job.id, attempt=job.attempt, placement=shares, reserved=waits, expires=expires)
    return JobPlaced(job=job.id, attempt=job.attempt + 1, placement=shares, reserved=waits, expires=expires)
