"""`schedule-timeout`: when a gang is pending for longer than the policy allows."""

from bailiff_core.model.state import Job, PoolState

NAME = "schedule-timeout"


def due(state: PoolState, job: Job) -> int | None:
    """Timeout, µs, of a pending gang for which it is not recorded yet; `None` for others."""
    rules = state.rules.protections.schedule_timeout
    if rules is None or job.phase != "pending" or job.timeout_recorded or job.cancelled:
        return None
    return job.queued_since + rules.after
