"""Allocate: place pending jobs on resources that are free or releasing."""

from collections.abc import Iterator

from bailiff_core.fold.pending_queue import queue_key
from bailiff_core.lifecycle.resize import can_restart_in_place
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, next_unit, restarts_to_grow
from bailiff_core.placement.gang import GangPlacement, NoFit, has_uniform_tasks
from bailiff_core.placement.islands import islands_used
from bailiff_core.placement.placement_codec import encode_placement
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.protections.payback import too_dear_to_grow
from bailiff_core.queue.backfill import Backfill
from bailiff_core.queue.head import head_of_queue, is_schedulable
from bailiff_core.queue.order import Pass, shares_now
from bailiff_core.quota.maintenance import closed_to, on_open_nodes, with_maintenance
from bailiff_core.quota.quota_aware_placement import find_within_bounds
from bailiff_core.quota.quota_checks import cooldown_violation, over_bounds
from bailiff_core.records.decisions import JobGrown, JobPending, JobPlaced
from bailiff_core.records.payload import Decision
from bailiff_core.scheduling_snapshot import current_snapshot

from .failure import attribute_errors_to
from .growth import growth_that_fits
from .possible_victims import PossibleVictims, may_request, possible_actions
from .requesting import RequestingJobs
from .returning import ReturningJobs

MAX_REASON_CHARS = 2000
WOULD_DELAY = "it would delay "
"""How the reason begins for which the backfill holds a job back. It is on record, so it stays."""


def allocate(state: PoolState) -> Iterator[Decision]:
    """Try pending jobs in queue order; a job that does not fit is skipped, within the limits of the policy's backfill.

    Tries only jobs whose result may have changed: all jobs after resources grew, otherwise the jobs that joined the queue
    since, and the head of the queue, which no other job may delay. Jobs that backfill blocked for the sake of the head are
    tried again once the head's reservation or the queue order has changed.
    """
    state.indices.withheld.clear()
    if state.truncation_unreconciled or "allocate" not in state.rules.preemption.actions:
        return
    if state.indices.retry_unschedulable:
        state.indices.unschedulable.clear()
        state.indices.to_schedule = dict.fromkeys(state.queue)
        state.indices.backfill_blocked.clear()
        state.indices.retry_unschedulable = False
    _retry_within_quota(state)
    if state.indices.backfill_blocked and not _backfill_unchanged(state):
        state.indices.to_schedule.update(state.indices.backfill_blocked)
        state.indices.backfill_blocked.clear()
    pending = [state.jobs[name] for name in state.indices.to_schedule if is_schedulable(state, state.jobs[name])]
    pending = [job for job in pending if not is_behind_selection(state, job)]
    if not pending:
        return
    whole_queue = not state.rules.projects and len(pending) == len(state.queue)
    head = None if whole_queue else _head(state)
    if head is not None and head.id not in state.indices.to_schedule:
        pending.append(head)
    began = current_snapshot(state).usage.position
    order = Pass(current_snapshot(state), pending)
    backfill: Backfill | None = None
    returning = ReturningJobs(state) if state.evicting else None
    requesting = RequestingJobs(state)
    while (unit := order.next()) is not None:
        job = unit.job
        with attribute_errors_to(job):
            found = _find(state, unit, backfill)
            if returning is not None and isinstance(found, GangPlacement):
                found = _unless_taken_back(state, returning, unit, found)
            if isinstance(found, GangPlacement) and restarts_to_grow(state, job):
                found = _unless_too_dear(state, unit, found)
            rival = requesting.may_evict(unit) if isinstance(found, GangPlacement) else None
            if rival is not None:
                _withhold(state, job)
                if unit.core and not job.pending_recorded:
                    yield JobPending(job=job.id, reason=f"{rival.id} requests preemption first, and might evict it")
                continue
            if isinstance(found, GangPlacement):
                yield _placed(state, unit, found, backfill)
                requesting.was_placed(unit)
                current_snapshot(state)  # updates the snapshot: the pass reads project usage from it
                order.put_back(job)
                if job is head:
                    head = _head(state)
                    if head is not None:
                        order.put_back(head)
                continue
            requesting.did_not_fit(unit)
            if whole_queue:  # the pass has all jobs in queue order, so the head is needed only once a job does not fit
                whole_queue, head = False, _head(state)
            if job is head:
                backfill = Backfill(current_snapshot(state), unit, _budget(state))
            if unit.core and not job.pending_recorded:
                yield JobPending(job=job.id, reason=found[:MAX_REASON_CHARS])
    if backfill is not None and state.indices.backfill_blocked:
        state.indices.head_reservation = (began, backfill.reservation())


def _retry_within_quota(state: PoolState) -> None:
    """Jobs that are not preemptible are tried again when the quotas in force changed: they start within them only."""
    shrunk = current_snapshot(state).usage.shrunk_quotas
    if shrunk != state.indices.shrunk_quotas:
        state.indices.shrunk_quotas = shrunk
        state.indices.to_schedule.update((name, None) for name in state.queue if not state.jobs[name].preemptible)


def _unless_taken_back(state: PoolState, returning: ReturningJobs, unit: Unit, place: GangPlacement) -> GangPlacement | str:
    """The placement; a sentence if a job that is being evicted would evict the unit on its return. Tried again every cycle."""
    rival = returning.taking_back(unit, place)
    if rival is None:
        return place
    _withhold(state, unit.job)
    return f"{rival.id}, which is being evicted, would take these resources back"


def _unless_too_dear(state: PoolState, unit: Unit, place: GangPlacement) -> GangPlacement | str:
    """The placement; a sentence if a restart with all that fits now wins less than it loses. Tried again every cycle."""
    growth = growth_that_fits(state, unit, place)
    if growth.pays:
        return place
    _withhold(state, unit.job)
    return too_dear_to_grow(growth)


def _withhold(state: PoolState, job: Job) -> None:
    """The job is not started, since it might be evicted at once. It is tried again every cycle."""
    state.indices.to_schedule[job.id] = state.indices.withheld[job.id] = None


def _find(state: PoolState, unit: Unit, backfill: Backfill | None) -> GangPlacement | str:
    """The unit's placement, or a sentence why there is none now. A unit that only time blocks stays in `to_schedule`."""
    snapshot = current_snapshot(state)
    too_soon = cooldown_violation(snapshot, unit)
    if restarts_to_grow(state, unit.job):
        if unit.job.phase == "starting":
            too_soon = "it grows once all of it runs"
        elif not can_restart_in_place(state, unit.job):
            too_soon = "it grows once all its tasks can restart where they run"
    if too_soon is not None:
        return too_soon
    state.indices.to_schedule.pop(unit.job.id, None)
    scheduling_class = scheduling_class_of(state, unit)
    if scheduling_class in state.indices.unschedulable and (unit.job.pending_recorded or not unit.core):
        return state.indices.unschedulable[scheduling_class]  # the reason is not recorded, so bounds need no check
    forbidden = over_bounds(snapshot, unit)
    if forbidden is not None:
        return forbidden
    if scheduling_class in state.indices.unschedulable:
        return state.indices.unschedulable[scheduling_class]
    if backfill is not None and backfill.completes_before_head(unit):
        backfill = None  # it cannot delay the head
    unit = on_open_nodes(state, unit)
    # Jobs of one class need the same, so one search outside the head's reservation speaks for all of them.
    if backfill is not None and scheduling_class in backfill.unplaceable and not _may_be_evicted_for_head(state, unit, backfill):
        return _block(state, unit, backfill)
    outside: GangPlacement | NoFit | None = None
    if backfill is not None and backfill.known and has_uniform_tasks(unit):
        outside = backfill.find_place(unit, _budget(state))  # outside the head's reservation it is a placement in the pool, too
        if isinstance(outside, GangPlacement) and not snapshot.usage.by_place(unit.job):
            return outside  # what whole devices cost its project does not depend on the place
    place = find_within_bounds(snapshot, unit, _budget(state))
    if isinstance(place, str):
        return place
    if not isinstance(place, GangPlacement):
        why = state.indices.unschedulable[scheduling_class] = with_maintenance(state, unit.job, place.why)
        return why
    if backfill is not None:
        outside = outside or backfill.find_place(unit, _budget(state))
        if not isinstance(outside, GangPlacement):
            backfill.unplaceable[scheduling_class] = None
            if _may_be_evicted_for_head(state, unit, backfill):
                return place
            return _block(state, unit, backfill)
        return over_bounds(snapshot, unit, outside) or outside
    return place


def _may_be_evicted_for_head(state: PoolState, unit: Unit, backfill: Backfill) -> bool:
    """Whether the job may start on what is reserved for the head. Not while the head is about to ask for victims: with those it
    may start soon, and the job would be evicted at once.
    """
    if unit.job.phase != "pending" or not backfill.admits(unit.job):
        return False
    if not may_request(state, backfill.head):
        return True
    snapshot, head = current_snapshot(state), next_unit(backfill.head)
    return head is not None and not possible_actions(snapshot, shares_now(snapshot), head, PossibleVictims(state))


def _block(state: PoolState, unit: Unit, backfill: Backfill) -> str:
    """Marks the job as blocked by backfill and returns the reason."""
    state.indices.backfill_blocked[unit.job.id] = None
    return f"{WOULD_DELAY}{backfill.head.id}, which is first in the queue"


def scheduling_class_of(state: PoolState, unit: Unit) -> str:
    """Key of all that decides where a unit fits: units with equal keys fit or do not fit alike.

    Placed members constrain the others (topology), so a job with placed members has keys of its own.
    """
    job = unit.job
    closed = "".join(f"-{name}" for name in closed_to(state, job))
    if not job.tasks and len(unit.indices) == job.size:
        return job.scheduling_class + closed
    own = f"@{job.id}" if job.tasks else ""
    return f"{job.scheduling_class}{own}:{ranges(unit.indices)}{closed}"


def pending_reason(state: PoolState, job: Job) -> str:
    """The bound that forbids a placement, or why the last try found none, as a sentence."""
    unit = next_unit(job)
    if unit is None:
        return "it does not fit"
    snapshot = current_snapshot(state)
    forbidden = over_bounds(snapshot, unit)
    return forbidden or state.indices.unschedulable.get(scheduling_class_of(state, unit), "it does not fit")


def _head(state: PoolState) -> Job | None:
    """The head of the queue, which no other job may delay; `None` with `greedy`, or if the head waits for the selection."""
    head = None if state.rules.backfill == "greedy" else head_of_queue(state)
    return None if head is None or is_behind_selection(state, head) else head


def _backfill_unchanged(state: PoolState) -> bool:
    """Whether neither the queue order nor the head's reservation has changed, so that blocked jobs remain blocked."""
    snapshot, recorded = current_snapshot(state), state.indices.head_reservation
    assert isinstance(recorded, tuple)
    position, reservation = recorded
    if snapshot.usage.changes_since(position) != []:
        return False
    head = _head(state)
    unit = next_unit(head) if head is not None else None
    return unit is not None and Backfill(snapshot, unit, _budget(state)).reservation() == reservation


def _budget(state: PoolState) -> StepBudget:
    return StepBudget(state.rules.preemption.search_steps)


def is_behind_selection(state: PoolState, job: Job) -> bool:
    """Whether the job waits for the open selection: it is later in the queue and could take resources that proposals count on.

    A selection without a deadline (no proposals arrive) blocks no job.
    """
    selection = state.selection
    if selection is None or not selection.requests or selection.deadline is None:
        return False
    return queue_key(job) > queue_key(state.jobs[selection.requests[0].job])


def _placed(state: PoolState, unit: Unit, place: GangPlacement, backfill: Backfill | None) -> Decision:
    job = unit.job
    reserved = place.future or job.phase == "reserved" or restarts_to_grow(state, job)
    expires = state.now + state.rules.preemption.reservation_expiry if reserved else None
    shares, island = encode_placement(place), islands_used(state, job, place.tasks)
    if job.phase != "pending":
        return JobGrown(job=job.id, attempt=job.attempt, placement=shares, reserved=reserved, expires=expires, island=island)
    backfilled = backfill is not None and backfill.is_backfilled(job, place)
    return JobPlaced(
        job=job.id,
        attempt=job.attempt + 1,
        placement=shares,
        reserved=reserved,
        expires=expires,
        backfilled=backfilled,
        island=island,
    )
