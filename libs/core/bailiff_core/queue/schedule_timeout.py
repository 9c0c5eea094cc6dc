"""`schedule-timeout`: when a gang is pending for longer than the policy allows."""

from bailiff_core.model.state import Job, PoolState

from .pending_since import pending_since

NAME = "schedule-timeout"


def due(state: PoolState, job: Job) -> int | None:
    """Timeout, µs, of a pending gang for which it is not recorded yet; `None` for others."""
    rules = state.rules.protections.schedule_timeout
    if rules is None or job.phase != "pending" or job.timeout_recorded or job.cancelled:
        return None
    return pending_since(job) + rules.after


def lets_others_pass(state: PoolState, job: Job) -> bool:
    """Whether the timed-out job no longer gets a reservation by backfill."""
    rules = state.rules.protections.schedule_timeout
    return rules is not None and rules.action == "pass" and job.timeout_recorded
