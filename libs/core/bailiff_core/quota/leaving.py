"""How soon a job can be gone from its GPUs: by its time limit, or by an eviction that still lets it save its work."""

from bailiff_core.model.grace import grace_of
from bailiff_core.model.job_labels import is_excluded
from bailiff_core.model.state import Job, PoolState

NEVER = 1 << 62  # µs


def leaving_time(state: PoolState, job: Job) -> int:
    """How long before its GPUs have to be free the job is evicted, µs: what its last eviction took, at most its grace; and the
    policy's margin.
    """
    grace = grace_of(state, job)
    return (grace if job.leaving_time is None else min(grace, job.leaving_time)) + state.rules.reservations.margin


def gone_by(state: PoolState, job: Job) -> int:
    """The earliest time, µs, by which the job can be gone, if it starts now or has started; `NEVER`: it cannot be evicted."""
    evictable = evictable_from(state, job)
    return evictable if evictable == NEVER else max(evictable, state.now) + leaving_time(state, job)


def evictable_from(state: PoolState, job: Job) -> int:
    """From when on the job may be evicted for GPUs that are reserved, µs; `NEVER`: it may not.

    One that is not preemptible may be once its time limit is over, counted from when it could start: it was let in for that.
    """
    if job.preemptible and not is_excluded(state, job):
        return 0
    limit = job.demand.run_time_limit
    return NEVER if limit is None else (state.now if job.assigned_at is None else job.assigned_at) + limit


def ends_by(state: PoolState, job: Job) -> int:
    """When the job is gone without being evicted for others, µs; `NEVER`: nothing says."""
    limit = job.demand.run_time_limit
    if limit is None:
        return NEVER
    began = state.now if job.last_start is None else job.last_start
    return max(began + limit, state.now) + leaving_time(state, job)
