"""Previews: the effects of a request, before it is published."""

from collections.abc import Callable
from typing import Any

from bailiff.client.preview import at
from bailiff_bus.messages import (
    CancelJob,
    DrainNode,
    EvictJob,
    MigrateJob,
    PauseJob,
    RequestBody,
    ResumeJob,
    ScaleJob,
    SetPriorityClass,
    UndrainNode,
)
from bailiff_core.model.state import ENDED, Job, PoolState

from .preview_nodes import drained, undrained
from .preview_resume import reclassed, resumed, scaled
from .preview_stop import cancelled, evicted, migrated, paused
from .preview_text import Preview, job_of

OF_JOBS: dict[type[RequestBody], Callable[[PoolState, Job, Any], Preview]] = {
    PauseJob: paused, EvictJob: evicted, CancelJob: cancelled, ResumeJob: resumed, MigrateJob: migrated, ScaleJob: scaled,
    SetPriorityClass: reclassed,
}  # fmt: skip


def preview(state: PoolState, body: RequestBody, now: int) -> Preview:
    """The effects of the request at `now` (µs). `state` is only read. Raises `ClientError` for an unknown job or node."""
    state = at(state, now)
    match body:
        case DrainNode():
            return drained(state, body)
        case UndrainNode():
            return undrained(state, body)
    job = job_of(state, str(getattr(body, "job", "")))
    if job.phase in ENDED:
        return Preview(faults=[f"{job.id} has {job.phase} already"])
    if job.cancelled and not isinstance(body, CancelJob):
        return Preview(faults=[f"{job.id} is cancelled"])
    return OF_JOBS[type(body)](state, job, body)
