"""`preemption-delay`: how long a job is pending before it may preempt. On free resources it may start at once."""

from bailiff_core.model.claims import limits_of
from bailiff_core.model.state import Job, PoolState

NAME = "preemption-delay"


def may_preempt_from(state: PoolState, job: Job) -> int:
    """Time, µs, from which the job may preempt: its own delay, or the policy's, after submission or its last eviction."""
    return max(job.submitted_at, job.last_eviction or 0) + delay_of(state, job)


def delay_of(state: PoolState, job: Job) -> int:
    """The job's own delay, or the policy's, µs; of its own one that is shorter than the policy's only as far as it is granted."""
    by_policy, stated = state.rules.protections.preemption_delay, job.demand.preemption_delay
    if stated is None or stated >= by_policy:
        return by_policy if stated is None else stated
    return max(stated, min([by_policy, *limits_of(state, job, "preemption_delay")]))


def delay_text(state: PoolState, job: Job) -> str:
    """`rule preemption-delay, policy field protections.preemption_delay`: what makes the job wait."""
    own = job.demand.preemption_delay
    of_job = own is not None and delay_of(state, job) == own
    return f"rule {NAME}, {'its own preemption_delay' if of_job else 'policy field protections.preemption_delay'}"


def due(state: PoolState, job: Job) -> int | None:
    """End of the delay, µs, for a job that is pending or lacks tasks; `None` for other jobs, or without a delay."""
    incomplete = job.phase == "pending" or (job.phase in ("starting", "running") and len(job.tasks) < job.size)
    if not incomplete or job.cancelled:
        return None
    moment = may_preempt_from(state, job)
    return moment if moment > job.submitted_at else None
