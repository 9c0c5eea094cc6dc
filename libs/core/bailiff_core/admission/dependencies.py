"""Checks the jobs that a submitted job waits for."""

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.state import ENDED, PoolState

from .rejected import Rejected


def dependency_problem(state: PoolState, demand: JobDemand) -> Rejected | None:
    """Why the job could never start: a job that does not exist, that is itself, or that has ended otherwise than it must.

    Jobs wait for jobs that were submitted before them, so they never wait for each other in a circle.
    """
    names = [dependency.job for dependency in demand.after]
    if demand.job in names:
        return Rejected("malformed", f"after: {demand.job} would wait for itself", demand.job)
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        return Rejected("malformed", f"after: {twice} is named twice", demand.job)
    for dependency in demand.after:
        other = state.jobs.get(dependency.job)
        if other is None:
            why = "it was not submitted, or it ended longer ago than the pool remembers (policy field retention.ended_jobs)"
            return Rejected("no-such-job", f"after: there is no job {dependency.job!r}: {why}", demand.job)
        if dependency.until == "succeeded" and other.phase in ENDED and other.phase != "succeeded":
            why = (
                f"after: {other.id} had to succeed and has ended as {other.phase}: wait for {other.id}:ended, or submit it again"
            )
            return Rejected("dependency-failed", why, demand.job)
    return None
