"""One decision cycle: the decisions that follow from the cycle's facts, and when time alone may next lead to a decision."""

from collections.abc import Callable, Iterator
from typing import Any

from bailiff_core.actions.allocate import allocate
from bailiff_core.actions.migrate import drain_migrations, migrations
from bailiff_core.actions.preempt import proposal_decisions, request_preemptions, timed_out_selection
from bailiff_core.actions.schedule_timeouts import schedule_timeouts
from bailiff_core.budgets.use import next_change as next_budget_change
from bailiff_core.fold import enact
from bailiff_core.fold.elasticity import tasks_above_size
from bailiff_core.lifecycle.ageing import ageing
from bailiff_core.lifecycle.budgets import budget_evictions, budget_levels
from bailiff_core.lifecycle.calendar import next_calendar_change, reservation_evictions, reservation_times
from bailiff_core.lifecycle.dependencies import begun_jobs, dependencies
from bailiff_core.lifecycle.devices import device_evictions
from bailiff_core.lifecycle.enforcement import enforcement
from bailiff_core.lifecycle.evictions import cancelled_evictions_of_preemptions, shortened_graces, stuck_at, stuck_evictions
from bailiff_core.lifecycle.idle import idle_jobs
from bailiff_core.lifecycle.maintenance import maintenance_evictions, maintenance_times, next_maintenance_change
from bailiff_core.lifecycle.operator_actions import drain_deadlines, drains, paused_jobs, requested_evictions
from bailiff_core.lifecycle.parked_jobs import parked_jobs
from bailiff_core.lifecycle.periodic_snapshots import expired_snapshots, periodic_snapshots
from bailiff_core.lifecycle.reservations import moved_jobs, reservations
from bailiff_core.lifecycle.resize import resized_gangs
from bailiff_core.lifecycle.share_turns import next_share_turn, share_turns
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
from bailiff_core.quota.quota_checks import next_cooldown_end
from bailiff_core.records.payload import Decision, Fact
from bailiff_core.records.wire import Record
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.scheduling_snapshot.completion_order import completion_order

Rule = Callable[[PoolState], Iterator[Decision]]

# Conditions of rules, as bits: a rule is skipped unless one of its conditions is true. Most cycles are about one job without an
# eviction, reservation or drain, and skip two thirds of the rules.
ALWAYS, UNSETTLED, EVICTING, RESERVED, DRAINING, LIMITED, ENFORCING, SELECTING, CALENDAR, MAINTENANCE = (
    1 << bit for bit in range(10)
)

RULES: tuple[tuple[Rule, int], ...] = (
    (cancelled_jobs, UNSETTLED),
    (shrunk_gangs, UNSETTLED),
    (finished_attempts, UNSETTLED),
    (dependencies, UNSETTLED),
    (begun_jobs, ALWAYS),
    (broken_attempts, UNSETTLED),
    (device_evictions, UNSETTLED),
    (scaled_down, UNSETTLED),
    (overdue_jobs, LIMITED),
    (resized_gangs, UNSETTLED),
    (paused_jobs, UNSETTLED),
    (requested_evictions, UNSETTLED),
    (maintenance_times, MAINTENANCE),
    (drain_migrations, DRAINING),
    (drains, DRAINING),
    (maintenance_evictions, MAINTENANCE),
    (migrations, UNSETTLED),
    (moved_jobs, UNSETTLED),
    (reservations, RESERVED | EVICTING),
    (cancelled_evictions_of_preemptions, EVICTING),
    (shortened_graces, EVICTING),
    (stuck_evictions, EVICTING),
    (enforcement, ENFORCING),
    (budget_levels, ALWAYS),  # before ageing, which begins anew where the class in force is another
    (budget_evictions, ALWAYS),
    (reservation_times, CALENDAR),
    (reservation_evictions, CALENDAR),
    (ageing, ALWAYS),
    (periodic_snapshots, ALWAYS),
    (expired_snapshots, ALWAYS),
    (parked_jobs, ALWAYS),
    (idle_jobs, ALWAYS),  # before proposals: nobody is displaced for a job that is paused
    (share_turns, ALWAYS),  # before proposals, which are judged by the shares
    (proposal_decisions, SELECTING),
    (cancelled_evictions_of_preemptions, EVICTING),  # before allocate: cancelled victims keep their resources
    (timed_out_selection, SELECTING),
    (allocate, ALWAYS),
    (request_preemptions, ALWAYS),
    (schedule_timeouts, ALWAYS),
    (stale_gangs, ALWAYS),
)
MAX_ROUNDS = 1000


def decide(state: PoolState) -> Iterator[Decision]:
    """All decisions that follow from the state, each enacted on `state` before it is yielded, until no rule yields any more.

    A caller may stop early: no decision after the last one pulled is enacted.

    Raises:
        DecisionError: A decision about a job fails.
        RuntimeError: The rules do not come to rest.
    """
    if state.policy is None:
        return
    conditions, withheld = _conditions(state), state.indices.withheld
    withheld.clear()  # of one cycle only: a writer that has just started knows no earlier one
    last = len(RULES)  # the rule that changed something last: decide is done once all rules have run since
    for _ in range(MAX_ROUNDS):
        for at, (rule, needs) in enumerate(RULES):
            changed = False
            if needs & conditions:
                before = set(withheld)
                for decision in rule(state):
                    enact(state, decision)
                    yield decision
                    changed = True
                changed = changed or set(withheld) != before  # a job that is not withheld any more may request preemption
            if changed:
                last, conditions = at, _conditions(state)
            elif at == last:
                return
        if last == len(RULES):
            return
    raise RuntimeError(f"the rules did not come to rest within {MAX_ROUNDS} rounds after #{state.seq}")


def _conditions(state: PoolState) -> int:
    """The conditions that are true, as bits."""
    bits = ALWAYS
    for job in state.touched_jobs():
        if not _is_settled(job):
            bits |= UNSETTLED
            break
    if state.evicting:
        bits |= EVICTING
    if state.reserved:
        bits |= RESERVED
    if state.draining:
        bits |= DRAINING
    if state.run_time_limits:
        bits |= LIMITED
    if state.enforcing:
        bits |= ENFORCING
    if state.selection is not None:
        bits |= SELECTING
    if state.gpu_reservations:
        bits |= CALENDAR
    if state.maintenance:
        bits |= MAINTENANCE
    return bits


def _is_settled(job: Job) -> bool:
    """Whether the job has no open request and no task that ended, has a failed device, or exceeds its share or the job's size."""
    if (
        job.phase == "waiting"
        or job.cancelled
        or job.restart_cause
        or job.reservation
        or job.paused_seq is not None
        or job.operator_request is not None
    ):
        return False
    for task in job.tasks:
        if task.state in ("exited", "released") or task.device_failed or task.over_share:
            return False
    return not tasks_above_size(job)


def fact_record(state: PoolState, fact: Fact, cycle: int, time: int, **more: Any) -> Record:
    """The record of a fact that follows on `state`, before it is folded.

    Args:
        state: Before the fact.
        fact: What came from outside.
        cycle: Number of the decision cycle that it belongs to.
        time: Log time, µs UTC.
        more: Further fields of the record, such as `cause` and `inputs`.
    """
    return Record(
        pool=state.pool,
        seq=state.seq + 1,
        epoch=state.epoch,
        cycle=cycle,
        cycle_end=False,
        time=time,
        prev="",
        writer=state.writer,
        engine=state.engine,
        policy=state.policy_revision,
        type=fact.type_name(),
        data=fact,
        **more,
    )


def decision_record(state: PoolState, decision: Decision, prev: str, cycle_end: bool) -> Record:
    """The record of a decision that was just enacted on `state`.

    Args:
        prev: Hash of the previous record.
    """
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
    """Builds the indices that decisions use, after a log was read, so that the first decision is not delayed by it."""
    if state.policy is not None:
        snapshot = current_snapshot(state)
        _ = snapshot.equivalence_classes, snapshot.allocation_index, timers_of(state), completion_order(state)


def timers_wake(state: PoolState) -> list[int]:
    """When, µs, a timer of a job, a cooldown, a turn of shares, a budget, a reservation or maintenance is due."""
    times = (
        *(timers_of(state).next(state.now), next_cooldown_end(state), next_share_turn(state), next_budget_change(state)),
        *(next_calendar_change(state), next_maintenance_change(state)),
    )
    return [time for time in times if time is not None]


def wake_at(state: PoolState) -> int | None:
    """The next time, µs, at which time alone may lead to a decision; None: there is none."""
    if state.policy is None:
        return None
    times = timers_wake(state)
    if state.selection is not None and state.selection.deadline is not None:
        times.append(state.selection.deadline)
    for name in state.reserved:
        expires = state.jobs[name].reserved_until
        if expires is not None:
            times.append(expires)
    for entry in active_evictions(state):
        stuck = stuck_at(state, entry.eviction)
        if stuck is not None:
            times.append(stuck)
        if entry.job.reservation and entry.job.reservation_until is not None:
            times.append(entry.job.reservation_until)
    times.extend(drain_deadlines(state))
    if state.run_time_limits:
        times.append(state.run_time_limits[0][0])
    return min(times, default=None)
