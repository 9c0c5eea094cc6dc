"""Gangs that wait longer for their start than the policy means them to."""

from collections.abc import Iterator

from bailiff_core.model.pool import Pool
from bailiff_core.protections import schedule_timeout
from bailiff_core.protections.waiting import waiting_since
from bailiff_core.records.decisions import JobEnded, ScheduleTimedOut
from bailiff_core.records.payload import Decision
from bailiff_core.verbs.allocate import why_it_waits

from .agenda import agenda_of

MOST_TOLD = 2000


def schedule_timeouts(pool: Pool) -> Iterator[Decision]:
    """It is said once per wait. Then the gang fails, or backfill keeps no place for it any more, or nothing follows."""
    rules = pool.rules.protections.schedule_timeout
    if rules is None:
        return
    for job in agenda_of(pool).due(pool, schedule_timeout.NAME):
        waited = pool.now - waiting_since(job)
        yield ScheduleTimedOut(job=job.id, waited=waited, then=rules.then, reason=why_it_waits(pool, job)[:MOST_TOLD])
        if rules.then == "fail":
            reason = f"it found no room within {rules.after // 1_000_000} s (rule {schedule_timeout.NAME})"
            yield JobEnded(job=job.id, attempt=job.attempt, outcome="failed", reason=reason)
