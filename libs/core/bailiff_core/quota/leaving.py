"""How soon a job can be gone from its GPUs: by its time limit, or by an eviction that still lets it save its work."""

from collections.abc import Callable
from typing import NamedTuple

from bailiff_core.model.grace import grace_of
from bailiff_core.model.job_labels import is_excluded
from bailiff_core.model.state import Job, PoolState

NEVER = 1 << 62  # µs
SECOND = 1_000_000


def leaving_time(state: PoolState, job: Job) -> int:
    """How long before its GPUs have to be free the job is evicted, µs: what its last eviction took, at most its grace; and the
    policy's margin.
    """
    grace = grace_of(state, job)
    return (grace if job.leaving_time is None else min(grace, job.leaving_time)) + state.rules.reservations.margin


class Stay(NamedTuple):
    """Until when a job stays.

    Attributes:
        until: µs; `NEVER`: for good.
        from_now: Counted from now on, whenever that is: its time has not begun.
    """

    until: int
    from_now: bool = False

    def at(self, now: int) -> int:
        """Until when, if it is that late, µs."""
        return now + self.until if self.from_now else self.until


def until_evictable(state: PoolState, job: Job) -> Stay:
    """Until when the job may not be evicted for GPUs that are reserved.

    One that is not preemptible may be once its time limit is over, counted from when it could start: it was let in for that.
    """
    if job.preemptible and not is_excluded(state, job):
        return Stay(0)
    return _until_limit(job, job.assigned_at)


def until_limit(_state: PoolState, job: Job) -> Stay:
    """Until when the job stays if it is not evicted for others; nothing says when one without a time limit ends."""
    return _until_limit(job, job.last_start)


def _until_limit(job: Job, began: int | None) -> Stay:
    limit = job.demand.run_time_limit
    if limit is None:
        return Stay(NEVER)
    return Stay(limit, from_now=True) if began is None else Stay(began + limit)


Leave = Callable[[PoolState, Job], Stay]


def gone_by(state: PoolState, job: Job, leave: Leave = until_evictable) -> int:
    """The earliest time, µs, by which the job can be gone, if it starts now or has started; `NEVER`: there is none.

    Args:
        leave: Until when it stays: until it may be evicted, or until its limit.
    """
    until = leave(state, job).at(state.now)
    return NEVER if until >= NEVER else max(until, state.now) + leaving_time(state, job)


def gone_after_start(state: PoolState, job: Job) -> int:
    """As `gone_by`, if it starts now and runs for no less time than a restart costs: else it might have to leave at once."""
    gone = gone_by(state, job)
    return gone if evictable_from(state, job) else gone + max(state.rules.preemption.restart_cost, SECOND)


def evictable_from(state: PoolState, job: Job) -> int:
    """From when on the job may be evicted for GPUs that are reserved, µs; `NEVER`: it may not."""
    return until_evictable(state, job).at(state.now)
