"""The head of the queue: the first pending job that only a lack of resources keeps from starting."""

from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import next_unit
from bailiff_core.placement.feasibility import could_ever_fit
from bailiff_core.quota.project_cooldown import cooldown_violation
from bailiff_core.quota.quota_checks import over_bounds
from bailiff_core.scheduling_snapshot import current_snapshot

from .schedule_timeout import lets_others_pass


def head_of_queue(state: PoolState) -> Job | None:
    """The head, `None` if there is none. Running jobs that lack surplus are not considered."""
    snapshot = current_snapshot(state)
    for job in map(state.jobs.__getitem__, state.queue):
        if job.phase != "pending" or not is_schedulable(state, job) or lets_others_pass(state, job):
            continue
        unit = next_unit(job)
        if unit is None or over_bounds(snapshot, unit) or cooldown_violation(snapshot, unit):
            continue
        if could_ever_fit(state, job.demand) is None:
            return job
    return None


def is_schedulable(state: PoolState, job: Job) -> bool:
    """Whether the job is not suspended after a failed decision, not cancelled, and its restart backoff is over."""
    return job.suspended_reason is None and not job.cancelled and state.now >= job.not_before
