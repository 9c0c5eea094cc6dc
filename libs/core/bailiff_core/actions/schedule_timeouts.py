"""Records schedule timeouts of pending gangs, and fails the gangs where the policy says so."""

from collections.abc import Iterator

from bailiff_core.lifecycle.timers import timers_of
from bailiff_core.model.state import PoolState
from bailiff_core.queue import schedule_timeout
from bailiff_core.records.decisions import JobEnded, ScheduleTimedOut
from bailiff_core.records.payload import Decision

from .allocate import pending_reason

MAX_REASON_CHARS = 2000


def schedule_timeouts(state: PoolState) -> Iterator[Decision]:
    """Records each timeout once per wait.

    By the policy's action the gang then fails, or backfill reserves nothing for it any more, or it stays pending.
    """
    rules = state.rules.protections.schedule_timeout
    if rules is None:
        return
    for job in timers_of(state).due(state, schedule_timeout.NAME):
        waited = state.now - job.queued_since
        yield ScheduleTimedOut(
            job=job.id, waited=waited, action=rules.action, reason=pending_reason(state, job)[:MAX_REASON_CHARS]
        )
        if rules.action == "fail":
            reason = f"it was not placed within {rules.after // 1_000_000} s (rule {schedule_timeout.NAME})"
            yield JobEnded(job=job.id, attempt=job.attempt, outcome="failed", reason=reason)
