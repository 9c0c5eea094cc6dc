"""One decision cycle: what `decide` yields after the cycle's last fact, and the next time at which it may yield more."""

from collections.abc import Callable, Iterator

from bailiff_core.actions.allocate import allocate
from bailiff_core.actions.migrate import migrations, moves_off_drained
from bailiff_core.actions.preempt import answered_requests, request_preemptions, timed_out_selection
from bailiff_core.actions.schedule_timeouts import schedule_timeouts
from bailiff_core.fold import enact
from bailiff_core.fold.elasticity import tasks_above_size
from bailiff_core.lifecycle.ageing import ageing
from bailiff_core.lifecycle.devices import leave_devices
from bailiff_core.lifecycle.enforcement import enforcement
from bailiff_core.lifecycle.evictions import cancelled_evictions_of_preemptions, stuck_at, stuck_evictions
from bailiff_core.lifecycle.idle import idle_jobs
from bailiff_core.lifecycle.operator_actions import drain_deadlines, drains, paused_jobs, requested_evictions
from bailiff_core.lifecycle.reservations import moved_jobs, reservations
from bailiff_core.lifecycle.resize import resized_gangs
from bailiff_core.lifecycle.stale_gang import stale_gangs
from bailiff_core.lifecycle.termination import (
    broken_attempts,
    cancelled_jobs,
    finished_attempts,
    overdue_jobs,
    scaled_down,
    shrunk_gangs,
)
from bailiff_core.lifecycle.timers import timers_of
from bailiff_core.model.evictions import active_evictions
from bailiff_core.model.state import Job, PoolState
from bailiff_core.quota import project_cooldown
from bailiff_core.records.payload import Decision
from bailiff_core.records.wire import Record
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.scheduling_snapshot.completion_order import completion_order

Rule = Callable[[PoolState], Iterator[Decision]]

# What a rule needs to be there to have anything to say. Most turns are about one job that goes its way: nobody leaves, nothing
# is promised or drained, and two thirds of the rules need not be asked.
ALWAYS, UNSETTLED, EVICTING, RESERVED, DRAINING, LIMITED, ENFORCING, SELECTING = (1 << bit for bit in range(8))

RULES: tuple[tuple[Rule, int], ...] = (
    (cancelled_jobs, UNSETTLED),
    (shrunk_gangs, UNSETTLED),
    (finished_attempts, UNSETTLED),
    (broken_attempts, UNSETTLED),
    (leave_devices, UNSETTLED),
    (scaled_down, UNSETTLED),
    (overdue_jobs, LIMITED),
    (resized_gangs, UNSETTLED),
    (paused_jobs, UNSETTLED),
    (requested_evictions, UNSETTLED),
    (moves_off_drained, DRAINING),
    (drains, DRAINING),
    (migrations, UNSETTLED),
    (moved_jobs, UNSETTLED),
    (reservations, RESERVED | EVICTING),
    (cancelled_evictions_of_preemptions, EVICTING),
    (stuck_evictions, EVICTING),
    (enforcement, ENFORCING),
    (ageing, ALWAYS),
    (answered_requests, SELECTING),
    (cancelled_evictions_of_preemptions, EVICTING),  # whom an answer spared stays: nobody is to be placed on that room
    (timed_out_selection, SELECTING),
    (allocate, ALWAYS),
    (request_preemptions, ALWAYS),
    (schedule_timeouts, ALWAYS),
    (stale_gangs, ALWAYS),
    (idle_jobs, ALWAYS),
)
MAX_ROUNDS = 1000


def decide(state: PoolState) -> Iterator[Decision]:
    """Every decision that the state asks for, each enacted on `pool` before it is yielded, until nothing is left.

    Pull exactly as many as are wanted: nothing is enacted beyond the last one pulled. Raises `DecisionError` where
    deciding about one job fails.
    """
    if state.policy is None:
        return
    there = _there(state)
    last = len(RULES)  # the rule that decided last: once all have been asked since, nothing is left
    for _ in range(MAX_ROUNDS):
        for at, (rule, needs) in enumerate(RULES):
            decided = False
            if needs & there:
                for decision in rule(state):
                    enact(state, decision)
                    yield decision
                    decided = True
            if decided:
                last, there = at, _there(state)
            elif at == last:
                return
        if last == len(RULES):
            return
    raise RuntimeError(f"the rules did not come to rest within {MAX_ROUNDS} rounds after #{state.seq}")


def _there(state: PoolState) -> int:
    """What there is that rules need, as bits."""
    found = ALWAYS
    for job in state.touched_jobs():
        if not _at_rest(job):
            found |= UNSETTLED
            break
    if state.evicting:
        found |= EVICTING
    if state.reserved:
        found |= RESERVED
    if state.draining:
        found |= DRAINING
    if state.run_time_limits:
        found |= LIMITED
    if state.enforcing:
        found |= ENFORCING
    if state.selection is not None:
        found |= SELECTING
    return found


def _at_rest(job: Job) -> bool:
    """Whether nobody wants anything of the job, and none of its members ended, is over its share, or is one too many."""
    if job.cancelled or job.restart_pending or job.reservation or job.paused_seq is not None or job.operator_request is not None:
        return False
    for task in job.tasks:
        if task.state in ("exited", "released") or task.device_failed or task.over_share:
            return False
    return not tasks_above_size(job)


def decision_record(state: PoolState, decision: Decision, prev: str, cycle_end: bool) -> Record:
    """The record of a decision just enacted on `pool`: everything in it follows from the state."""
    return Record(
        pool=state.pool,
        seq=state.seq,
        epoch=state.epoch,
        cycle=state.cycle,
        cycle_end=cycle_end,
        time=state.now,
        prev=prev,
        writer=state.writer,
        engine=state.engine,
        policy=state.policy_revision,
        type=decision.type_name(),
        data=decision,
        cause=str(state.last_fact),
    )


def build_indices(state: PoolState) -> None:
    """Build what decisions keep up to date once a log has been read, so that the first decision does not wait for it."""
    if state.policy is not None:
        snapshot = current_snapshot(state)
        _ = snapshot.equivalence_classes, snapshot.allocation_index, timers_of(state), completion_order(state)


def protections_wake(state: PoolState) -> list[int]:
    """When a rule of waiting, of broken gangs, or of borrowing next has something to say."""
    return [
        moment for moment in (timers_of(state).next(state.now), project_cooldown.next_cooldown_end(state)) if moment is not None
    ]


def wake_at(state: PoolState) -> int | None:
    """The next moment, µs, at which time alone may lead to a decision; None while there is none."""
    if state.policy is None:
        return None
    moments = protections_wake(state)
    if state.selection is not None and state.selection.deadline is not None:
        moments.append(state.selection.deadline)
    for name in state.reserved:
        until = state.jobs[name].reserved_until
        if until is not None:
            moments.append(until)
    for entry in active_evictions(state):
        stuck = stuck_at(state, entry.eviction)
        if stuck is not None:
            moments.append(stuck)
        if entry.job.reservation and entry.job.reservation_until is not None:
            moments.append(entry.job.reservation_until)
    moments.extend(drain_deadlines(state))
    if state.run_time_limits:
        moments.append(state.run_time_limits[0][0])
    return min(moments, default=None)
