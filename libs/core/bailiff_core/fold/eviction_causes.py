"""Which causes of evictions count for the rules that protect jobs from the next one."""

from collections.abc import Iterable

from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.permissions import Requester, owns

from .open_jobs import user_key

MAX_EVICTION_TIMES = 64
GANG_FAILURE = "gang-failure"
INVOLUNTARY = ("preemption", "policy", "stale-gang", "requested", "drain", "reservation")
VOLUNTARY = ("paused", "migration", "resize", "budget")
"""Not counted as evictions by any rule; the job is requeued whatever its on_eviction."""


def is_voluntary(state: PoolState, job: Job, cause: str) -> bool:
    """Whether it counts as no eviction: the job was paused, moved, resized, its budget is exhausted, or its verified owner,
    or a job of theirs, evicts it.

    Otherwise owners could make their jobs hard to evict, or raise their priority, by evicting them.
    """
    if cause in ("preemption", GANG_FAILURE):
        return is_by_own(state, job, job.tasks)
    if cause != "requested":
        return cause in VOLUNTARY
    return job.requester_verified and owns(state.rules, Requester(job.requester, "signed"), job)


def is_by_own(state: PoolState, job: Job, tasks: Iterable[Task]) -> bool:
    """Whether jobs of its verified owner, and nobody else, evict the job, or these tasks of it."""
    whole = job.eviction if job.eviction is not None and job.eviction.cause != GANG_FAILURE else None  # that follows from tasks
    evictions = [each for each in (whole, *(task.eviction for task in tasks)) if each is not None]
    preemptors = [state.jobs.get(each.for_job or "") for each in evictions]
    if not job.user_verified or not preemptors:
        return False
    own = user_key(job.user, verified=True)
    return all(other is not None and user_key(other.user, other.user_verified) == own for other in preemptors)
