"""What a request would cause, in sentences, before anybody sends it."""

from collections.abc import Callable
from typing import Any

from bailiff.foreseen import at
from bailiff_bus.messages import (
    CancelJob,
    DrainNode,
    EvictJob,
    MigrateJob,
    PauseJob,
    RequestBody,
    ScaleJob,
    SetJob,
    UndrainNode,
    UnpauseJob,
)
from bailiff_core.model.pool import ENDED, Job, Pool

from .going_on import reclassed, resumed, scaled
from .leaving import cancelled, evicted, migrated, paused
from .of_nodes import drained, undrained
from .telling import Preview, job_of

OF_JOBS: dict[type[RequestBody], Callable[[Pool, Job, Any], Preview]] = {
    PauseJob: paused, EvictJob: evicted, CancelJob: cancelled, UnpauseJob: resumed, MigrateJob: migrated, ScaleJob: scaled,
    SetJob: reclassed,
}  # fmt: skip


def preview(pool: Pool, body: RequestBody, now: int) -> Preview:
    """What the request would cause at `now` (µs). `pool` is only read. Raises `Problem` for a job or node that is not there."""
    pool = at(pool, now)
    match body:
        case DrainNode():
            return drained(pool, body)
        case UndrainNode():
            return undrained(pool, body)
    job = job_of(pool, str(getattr(body, "job", "")))
    if job.phase in ENDED:
        return Preview(faults=[f"{job.id} has {job.phase} already"])
    if job.cancelled and not isinstance(body, CancelJob):
        return Preview(faults=[f"{job.id} is cancelled"])
    return OF_JOBS[type(body)](pool, job, body)
