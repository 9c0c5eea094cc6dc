"""`preemption-delay`: how long a pending job waits before it may displace anyone. It may start on free room at once."""

from bailiff_core.model.state import Job, PoolState

NAME = "preemption-delay"


def may_displace_at(state: PoolState, job: Job) -> int:
    """The moment, µs, from which the job may ask for victims: its own word or the policy's, after submit or its last eviction."""
    stated = job.demand.preemption_delay
    delay = state.rules.protections.preemption_delay if stated is None else stated
    return max(job.submitted_at, job.last_eviction or 0) + delay


def due(state: PoolState, job: Job) -> int | None:
    """When the delay is over, for a job that waits, or lacks tasks."""
    waits = job.phase == "pending" or (job.phase in ("starting", "running") and len(job.tasks) < job.size)
    if not waits or job.cancelled:
        return None
    moment = may_displace_at(state, job)
    return moment if moment > job.submitted_at else None
