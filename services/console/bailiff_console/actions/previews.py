"""Previews: the effects of a request, before it is published."""

from collections.abc import Callable
from typing import Any

from bailiff.client.preview import PREVIEW_REQUEST, at
from bailiff_core.admission import Context, Rejected, admit
from bailiff_core.model.state import Job, PoolState
from bailiff_core.permissions import Requester
from bailiff_core.records.facts import (
    CancelJob,
    CheckpointJob,
    DrainNode,
    EvictJob,
    JobChange,
    MigrateJob,
    PauseJob,
    RequestBody,
    ResumeJob,
    ScaleJob,
    SetPriorityClass,
    UndrainNode,
)
from bailiff_core.records.payload import Fact

from .preview_nodes import preview_drain, preview_undrain
from .preview_resume import preview_change, preview_resume, preview_scale, preview_set_priority_class
from .preview_stop import preview_cancel, preview_checkpoint, preview_evict, preview_migrate, preview_pause
from .preview_text import Preview, job_of, node_of

OF_JOBS: dict[type[RequestBody], Callable[[PoolState, Job, Any, Fact], Preview]] = {
    PauseJob: preview_pause,
    EvictJob: preview_evict,
    CancelJob: preview_cancel,
    ResumeJob: preview_resume,
    MigrateJob: preview_migrate,
    CheckpointJob: preview_checkpoint,
    ScaleJob: preview_scale,
    SetPriorityClass: preview_set_priority_class,
}


def preview(state: PoolState, requester: Requester, body: RequestBody, now: int) -> Preview:
    """The effects of the request at `now` (µs). `state` is only read. Raises `ClientError` for an unknown job or node."""
    state = at(state, now)
    job = job_of(state, body.job) if isinstance(body, JobChange) else None
    if isinstance(body, DrainNode | UndrainNode):
        node_of(state, body.node)
    found = admit(Context(state, requester, PREVIEW_REQUEST), body)
    if isinstance(found, Rejected):
        return Preview(errors=[found.text])
    match body:
        case DrainNode():
            return preview_drain(state, body)
        case UndrainNode():
            return preview_undrain(state, found)
    assert job is not None
    about = OF_JOBS.get(type(body), preview_change)
    return about(state, job, body, found)
