"""`begin`: when a job that was submitted for a later time joins the queue."""

from bailiff_core.model.state import Job, PoolState

NAME = "begin"


def due(state: PoolState, job: Job) -> int | None:  # noqa: ARG001
    """The job's `begin`, µs UTC, as long as it is not in the queue; `None` for other jobs."""
    return job.demand.begin if job.phase == "waiting" and not job.cancelled else None
