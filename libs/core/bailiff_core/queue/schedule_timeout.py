"""`schedule-timeout`: when a gang has been pending for longer than the policy allows."""

from bailiff_core.model.state import Job, PoolState

from .pending_since import waiting_since

NAME = "schedule-timeout"


def due(state: PoolState, job: Job) -> int | None:
    """When its time is up, for a gang that waits and has not been told so in this wait."""
    rules = state.rules.protections.schedule_timeout
    if rules is None or job.phase != "pending" or job.timeout_recorded or job.cancelled:
        return None
    return waiting_since(job) + rules.after


def lets_others_pass(state: PoolState, job: Job) -> bool:
    """Whether backfill keeps no place for it any more."""
    rules = state.rules.protections.schedule_timeout
    return rules is not None and rules.action == "pass" and job.timeout_recorded
