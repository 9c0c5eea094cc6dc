"""`schedule-timeout`: a gang waits longer for its start than the policy means it to."""

from bailiff_core.model.pool import Job, Pool

from .waiting import waiting_since

NAME = "schedule-timeout"


def due(pool: Pool, job: Job) -> int | None:
    """When its time is up, for a gang that waits and has not been told so in this wait."""
    rules = pool.rules.protections.schedule_timeout
    if rules is None or job.phase != "pending" or job.timed_out or job.cancelled:
        return None
    return waiting_since(job) + rules.after


def lets_others_pass(pool: Pool, job: Job) -> bool:
    """Whether backfill keeps no place for it any more."""
    rules = pool.rules.protections.schedule_timeout
    return rules is not None and rules.then == "pass" and job.timed_out
