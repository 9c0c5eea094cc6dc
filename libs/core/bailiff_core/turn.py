"""One turn: what `decide` yields on the state after the turn's last fact, and when time alone will change that."""

from collections.abc import Callable, Iterator

from .fold import enact
from .fold.growth import beyond
from .lifecycle.ageing import ageing
from .lifecycle.agenda import agenda_of
from .lifecycle.attempts import (
    broken_attempts,
    cancelled_jobs,
    finished_attempts,
    overdue_jobs,
    scaled_down,
    shrunk_gangs,
)
from .lifecycle.by_hand import asked_evictions, drain_deadlines, drains, paused_jobs
from .lifecycle.devices import leave_devices
from .lifecycle.enforcement import enforcement
from .lifecycle.evictions import leaving, stuck_at, stuck_evictions, withdrawn_evictions
from .lifecycle.idle import idle_jobs
from .lifecycle.reservations import moved_jobs, reservations
from .lifecycle.resize import resized_gangs
from .lifecycle.stale_gang import stale_gangs
from .lifecycle.timeouts import schedule_timeouts
from .model.pool import Job, Pool
from .protections import no_borrowing
from .records.payload import Decision
from .records.wire import Record
from .verbs.allocate import allocate
from .verbs.migrate import migrations, moves_off_drained
from .verbs.preempt import answered_requests, request_preemptions, timed_out_selection

Rule = Callable[[Pool], Iterator[Decision]]

# What a rule needs to be there to have anything to say. Most turns are about one job that goes its way: nobody leaves, nothing
# is promised or drained, and two thirds of the rules need not be asked.
ALWAYS, UNREST, LEAVING, PROMISED, DRAINED, LIMITED, ENFORCED, SELECTING = (1 << bit for bit in range(8))

RULES: tuple[tuple[Rule, int], ...] = (
    (cancelled_jobs, UNREST),
    (shrunk_gangs, UNREST),
    (finished_attempts, UNREST),
    (broken_attempts, UNREST),
    (leave_devices, UNREST),
    (scaled_down, UNREST),
    (overdue_jobs, LIMITED),
    (resized_gangs, UNREST),
    (paused_jobs, UNREST),
    (asked_evictions, UNREST),
    (moves_off_drained, DRAINED),
    (drains, DRAINED),
    (migrations, UNREST),
    (moved_jobs, UNREST),
    (reservations, PROMISED | LEAVING),
    (withdrawn_evictions, LEAVING),
    (stuck_evictions, LEAVING),
    (enforcement, ENFORCED),
    (ageing, ALWAYS),
    (answered_requests, SELECTING),
    (withdrawn_evictions, LEAVING),  # whom an answer spared stays: nobody is to be placed on that room
    (timed_out_selection, SELECTING),
    (allocate, ALWAYS),
    (request_preemptions, ALWAYS),
    (schedule_timeouts, ALWAYS),
    (stale_gangs, ALWAYS),
    (idle_jobs, ALWAYS),
)
MOST_ROUNDS = 1000


def decide(pool: Pool) -> Iterator[Decision]:
    """Every decision that the state asks for, each enacted on `pool` before it is yielded, until nothing is left.

    Pull exactly as many as are wanted: nothing is enacted beyond the last one pulled. Raises `DecisionError` where
    deciding about one job fails.
    """
    if pool.policy is None:
        return
    there = _there(pool)
    last = len(RULES)  # the rule that decided last: once all have been asked since, nothing is left
    for _ in range(MOST_ROUNDS):
        for at, (rule, needs) in enumerate(RULES):
            decided = False
            if needs & there:
                for decision in rule(pool):
                    enact(pool, decision)
                    yield decision
                    decided = True
            if decided:
                last, there = at, _there(pool)
            elif at == last:
                return
        if last == len(RULES):
            return
    raise RuntimeError(f"the rules did not come to rest within {MOST_ROUNDS} rounds after #{pool.seq}")


def _there(pool: Pool) -> int:
    """What there is that rules need, as bits."""
    found = ALWAYS
    for job in pool.touched_jobs():
        if not _at_rest(job):
            found |= UNREST
            break
    if pool.leaving:
        found |= LEAVING
    if pool.reserved:
        found |= PROMISED
    if pool.drained:
        found |= DRAINED
    if pool.run_limits:
        found |= LIMITED
    if pool.enforcing:
        found |= ENFORCED
    if pool.selection is not None:
        found |= SELECTING
    return found


def _at_rest(job: Job) -> bool:
    """Whether nobody wants anything of the job, and none of its members ended, is over its share, or is one too many."""
    if job.cancelled or job.resized or job.promise or job.paused_seq is not None or job.wish is not None:
        return False
    for task in job.tasks:
        if task.state in ("exited", "released") or task.device_failed or task.over_share:
            return False
    return not beyond(job)


def decision_record(pool: Pool, decision: Decision, prev: str, turn_end: bool) -> Record:
    """The record of a decision just enacted on `pool`: everything in it follows from the state."""
    return Record(
        domain=pool.domain,
        seq=pool.seq,
        epoch=pool.epoch,
        turn=pool.turn,
        turn_end=turn_end,
        time=pool.now,
        prev=prev,
        writer=pool.writer,
        engine=pool.engine,
        policy=pool.policy_revision,
        type=decision.type_name(),
        data=decision,
        cause=str(pool.last_fact),
    )


def protections_wake(pool: Pool) -> list[int]:
    """When a rule of waiting, of broken gangs, or of borrowing next has something to say."""
    return [moment for moment in (agenda_of(pool).next(pool.now), no_borrowing.opens_next(pool)) if moment is not None]


def wake_at(pool: Pool) -> int | None:
    """The next moment, µs, at which time alone may lead to a decision; None while there is none."""
    if pool.policy is None:
        return None
    moments = protections_wake(pool)
    if pool.selection is not None and pool.selection.deadline is not None:
        moments.append(pool.selection.deadline)
    for name in pool.reserved:
        until = pool.jobs[name].reserved_until
        if until is not None:
            moments.append(until)
    for entry in leaving(pool):
        stuck = stuck_at(pool, entry.eviction)
        if stuck is not None:
            moments.append(stuck)
        if entry.job.promise and entry.job.promise_until is not None:
            moments.append(entry.job.promise_until)
    moments.extend(drain_deadlines(pool))
    if pool.run_limits:
        moments.append(pool.run_limits[0][0])
    return min(moments, default=None)
