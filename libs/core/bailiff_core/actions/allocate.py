"""Allocate: place pending jobs on resources that are free or releasing."""

from collections.abc import Iterator

from bailiff_core.fold.pending_queue import queue_key
from bailiff_core.lifecycle.resize import heard, members_started
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.placement.feasibility import could_ever_fit
from bailiff_core.placement.gang import GangPlacement, NoFit, has_uniform_tasks
from bailiff_core.placement.placement_codec import encode_placement
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.queue.backfill import Backfill
from bailiff_core.queue.order import Pass
from bailiff_core.queue.schedule_timeout import lets_others_pass
from bailiff_core.quota.project_cooldown import cooldown_violation
from bailiff_core.quota.quota_aware_placement import place_within_bounds
from bailiff_core.quota.quota_checks import over_bounds
from bailiff_core.records.decisions import JobGrown, JobPending, JobPlaced
from bailiff_core.records.payload import Decision
from bailiff_core.scheduling_snapshot import current_snapshot

from .failure import about

LONGEST_REASON = 2000


def allocate(state: PoolState) -> Iterator[Decision]:
    """Try the waiting jobs in queue order; one that does not fit is passed over, as far as the policy's backfill lets it.

    Only what may have changed is tried: every job after room grew, otherwise those that joined the queue since, and the
    head of the queue, because others may not delay it. Whoever was passed over for its sake is tried again when
    something else is kept for it, or when others may come before it.
    """
    if state.truncation_unreconciled or "allocate" not in state.rules.preemption.actions:
        return
    if state.indices.retry_unschedulable:
        state.indices.unschedulable.clear()
        state.indices.to_schedule = dict.fromkeys(state.queue)
        state.indices.backfill_blocked.clear()
        state.indices.retry_unschedulable = False
    if state.indices.backfill_blocked and not _passed_over_for_good(state):
        state.indices.to_schedule.update(state.indices.backfill_blocked)
        state.indices.backfill_blocked.clear()
    waiting = [state.jobs[name] for name in state.indices.to_schedule if ready_to_try(state, state.jobs[name])]
    waiting = [job for job in waiting if not behind_selection(state, job)]
    if not waiting:
        return
    everybody = not state.rules.projects and len(waiting) == len(state.queue)
    head = None if everybody else _head(state)
    if head is not None and head.id not in state.indices.to_schedule:
        waiting.append(head)
    began = current_snapshot(state).usage.changes_since(0)[0]
    order = Pass(current_snapshot(state), waiting)
    backfill: Backfill | None = None
    while (unit := order.next()) is not None:
        job = unit.job
        with about(job):
            found = _find(state, unit, backfill if job is not head else None)
            if isinstance(found, GangPlacement):
                yield _placed(state, unit, found)
                current_snapshot(state)  # brought up to date: the pass goes by its use of projects
                order.put_back(job)
                if job is head:
                    head = _head(state)
                    if head is not None:
                        order.put_back(head)
                continue
            if everybody:  # all are in the pass, in the order of the queue: who is its head is known when one fails
                everybody, head = False, _head(state)
            if job is head:
                backfill = Backfill(current_snapshot(state), unit, _budget(state))
            if unit.core and not job.pending_recorded:
                yield JobPending(job=job.id, reason=found[:LONGEST_REASON])
    if backfill is not None and state.indices.backfill_blocked:
        state.indices.head_reservation = (began, backfill.reservation())


def _find(state: PoolState, unit: Unit, backfill: Backfill | None) -> GangPlacement | str:
    """Where the unit can stand, or a sentence why it cannot now. What only time keeps out is tried again."""
    snapshot = current_snapshot(state)
    too_soon = cooldown_violation(snapshot, unit)
    if members_started(state, unit.job):
        if unit.job.phase == "starting":
            too_soon = "it grows once all of it runs"
        elif not heard(state, unit.job):
            too_soon = "it grows once all nodes that it runs on are heard again"
    if too_soon is not None:
        return too_soon
    state.indices.to_schedule.pop(unit.job.id, None)
    shape = scheduling_class_of(unit)
    if shape in state.indices.unschedulable and (unit.job.pending_recorded or not unit.core):
        return state.indices.unschedulable[shape]  # nobody is told why
    forbidden = over_bounds(snapshot, unit)
    if forbidden is not None:
        return forbidden
    if shape in state.indices.unschedulable:
        return state.indices.unschedulable[shape]
    waits = backfill is not None and not backfill.completes_before_head(unit)
    if backfill is not None and waits and shape in backfill.unplaceable:
        return _pass_over(state, unit, backfill)
    mark = snapshot.mark()
    beside: GangPlacement | NoFit | None = None
    if backfill is not None and waits and backfill.known and has_uniform_tasks(unit):
        beside = backfill.place(unit, _budget(state))  # where there is room beside what is kept, there is room
        snapshot.rollback(mark)
        if isinstance(beside, GangPlacement):
            return over_bounds(snapshot, unit, beside) or beside
    place = place_within_bounds(snapshot, unit, _budget(state))
    snapshot.rollback(mark)
    if isinstance(place, str):
        return place
    if not isinstance(place, GangPlacement):
        state.indices.unschedulable[shape] = place.why
        return place.why
    if backfill is not None and waits:
        place = beside or backfill.place(unit, _budget(state))
        snapshot.rollback(mark)
        if not isinstance(place, GangPlacement):
            backfill.unplaceable[shape] = None
            return _pass_over(state, unit, backfill)
        return over_bounds(snapshot, unit, place) or place
    return place


def _pass_over(state: PoolState, unit: Unit, backfill: Backfill) -> str:
    state.indices.backfill_blocked[unit.job.id] = None
    return f"it would delay {backfill.head.id}, which is first in the queue"


def ready_to_try(state: PoolState, job: Job) -> bool:
    """Not held after a failure, not cancelled, its back-off over."""
    return job.suspended_reason is None and not job.cancelled and state.now >= job.not_before


def scheduling_class_of(unit: Unit) -> str:
    """What decides where a unit fits, and nothing else: units of one shape fit or do not fit together.

    Members that stand already bind the others (topology), so the units of such a job are like no other's.
    """
    job = unit.job
    if not job.tasks and len(unit.indices) == job.size:
        return job.scheduling_class
    own = f"@{job.id}" if job.tasks else ""
    return f"{job.scheduling_class}{own}:{ranges(unit.indices)}"


def why_it_waits(state: PoolState, job: Job) -> str:
    """Why the last try found no place, or which bound forbids one, as a sentence."""
    unit = next_unit(job)
    if unit is None:
        return "it does not fit"
    snapshot = current_snapshot(state)
    forbidden = over_bounds(snapshot, unit)
    return forbidden or state.indices.unschedulable.get(scheduling_class_of(unit), "it does not fit")


def _head(state: PoolState) -> Job | None:
    """The first job of the queue that waits for nothing but room: with `reserve` no other may delay it."""
    if state.rules.backfill != "reserve":
        return None
    snapshot = current_snapshot(state)
    for job in map(state.jobs.__getitem__, state.queue):
        if behind_selection(state, job):  # and so are all after it
            return None
        if job.phase != "pending" or not ready_to_try(state, job) or lets_others_pass(state, job):
            continue
        unit = next_unit(job)
        if unit is None or over_bounds(snapshot, unit) or cooldown_violation(snapshot, unit):
            continue
        if could_ever_fit(state, job.demand) is None:
            return job
    return None


def _passed_over_for_good(state: PoolState) -> bool:
    """Whether nothing has changed that could let somebody pass who was passed over: the order, or what is kept."""
    snapshot, noted = current_snapshot(state), state.indices.head_reservation
    assert isinstance(noted, tuple)
    position, kept = noted
    if snapshot.usage.changes_since(position)[1] != []:
        return False
    head = _head(state)
    unit = next_unit(head) if head is not None else None
    return unit is not None and Backfill(snapshot, unit, _budget(state)).reservation() == kept


def _budget(state: PoolState) -> StepBudget:
    return StepBudget(state.rules.preemption.search_steps)


def behind_selection(state: PoolState, job: Job) -> bool:
    """Whether the job waits until an open selection has its answer: it would take room that the answer counts on.

    A selection without a deadline (nobody answers) holds up nobody.
    """
    selection = state.selection
    if selection is None or not selection.requests or selection.deadline is None:
        return False
    return queue_key(job) > queue_key(state.jobs[selection.requests[0].job])


def _placed(state: PoolState, unit: Unit, place: GangPlacement) -> Decision:
    job = unit.job
    waits = place.future or job.phase == "reserved" or members_started(state, job)
    expires = state.now + state.rules.preemption.reservation_expiry if waits else None
    shares = encode_placement(place)
    if job.phase != "pending":
        return JobGrown(job=job.id, attempt=job.attempt, placement=shares, reserved=waits, expires=expires)
    return JobPlaced(job=job.id, attempt=job.attempt + 1, placement=shares, reserved=waits, expires=expires)
