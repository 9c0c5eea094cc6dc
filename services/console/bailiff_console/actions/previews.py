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

from .preview_nodes import preview_drain, preview_undrain
from .preview_resume import preview_resume, preview_scale, preview_set_class
from .preview_stop import preview_cancel, preview_evict, preview_migrate, preview_pause
from .preview_text import Preview, job_of

OF_JOBS: dict[type[RequestBody], Callable[[PoolState, Job, Any], Preview]] = {
    PauseJob: preview_pause, EvictJob: preview_evict, CancelJob: preview_cancel, ResumeJob: preview_resume,
    MigrateJob: preview_migrate, ScaleJob: preview_scale, SetPriorityClass: preview_set_class,
}  # fmt: skip


def preview(state: PoolState, body: RequestBody, now: int) -> Preview:
    """The effects of the request at `now` (µs). `state` is only read. Raises `ClientError` for an unknown job or node."""
    state = at(state, now)
    match body:
        case DrainNode():
            return preview_drain(state, body)
        case UndrainNode():
            return preview_undrain(state, body)
    job = job_of(state, str(getattr(body, "job", "")))
    if job.phase in ENDED:
        return Preview(errors=[f"{job.id} has {job.phase} already"])
    if job.cancelled and not isinstance(body, CancelJob):
        return Preview(errors=[f"{job.id} is cancelled"])
    return OF_JOBS[type(body)](state, job, body)
