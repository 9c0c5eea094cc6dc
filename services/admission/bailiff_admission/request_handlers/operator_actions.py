"""Handlers of requests to evict, pause, resume or migrate a job."""

from collections.abc import Mapping

from bailiff_bus.messages import EvictJob, MigrateJob, PauseJob, RequestBody, ResumeJob
from bailiff_core.actions.migrate import place_elsewhere
from bailiff_core.model.identity import JobAction
from bailiff_core.model.state import Job, PoolState
from bailiff_core.permissions import Requester
from bailiff_core.records.facts import (
    JobEvictionRequested,
    JobMigrationRequested,
    JobPaused,
    JobResumed,
    RequestId,
)
from bailiff_core.records.payload import Fact

from .job_changes import permitted
from .nodes import node_named
from .rejected import Rejected

RUNNING_PHASES = ("starting", "running")
ACTIONS: Mapping[type[RequestBody], JobAction] = {
    EvictJob: "evict", PauseJob: "pause", ResumeJob: "resume", MigrateJob: "migrate",
}  # fmt: skip


def request_for_job(
    state: PoolState, request: RequestId, requester: Requester, body: EvictJob | PauseJob | ResumeJob | MigrateJob
) -> list[Fact] | Rejected:
    """The fact of a request about a job, if the requester may control it."""
    job = permitted(state, requester, ACTIONS[type(body)], body.job)
    if isinstance(job, Rejected):
        return job
    if job.cancelled:
        return Rejected("cancelled", f"{job.id} is cancelled", job.id)
    match body:
        case EvictJob():
            return _evicted(request, job, body)
        case PauseJob():
            return _paused(request, job, body)
        case ResumeJob():
            return _resumed(request, job, body)
        case MigrateJob():
            return _migrated(state, request, job, body)


def _evicted(request: RequestId, job: Job, evict: EvictJob) -> list[Fact] | Rejected:
    """Evict the job; it goes back to the queue."""
    if job.phase not in (*RUNNING_PHASES, "reserved"):
        return Rejected("not-placed", f"{job.id} is {job.phase}: it has no tasks to evict", job.id)
    return [JobEvictionRequested(request=request, job=job.id, reason=evict.reason)]


def _paused(request: RequestId, job: Job, pause: PauseJob) -> list[Fact] | Rejected:
    """Pause the job, in any phase."""
    if job.paused_seq is not None:
        return Rejected("already-paused", f"{job.id} is paused already, since #{job.paused_seq}", job.id)
    return [JobPaused(request=request, job=job.id, reason=pause.reason)]


def _resumed(request: RequestId, job: Job, resume: ResumeJob) -> list[Fact] | Rejected:
    """The job goes back to the queue."""
    if job.paused_seq is None:
        return Rejected("not-paused", f"{job.id} is {job.phase} and not paused", job.id)
    return [JobResumed(request=request, job=job.id, reason=resume.reason)]


def _migrated(state: PoolState, request: RequestId, job: Job, move: MigrateJob) -> list[Fact] | Rejected:
    """Migrate the job to resources that are free now."""
    if job.phase not in RUNNING_PHASES:
        return Rejected("not-running", f"{job.id} is {job.phase}: only a running job can be migrated", job.id)
    if job.suspended_reason is not None:
        return Rejected("suspended", f"{job.id} is suspended, a decision about it failed: cancel it", job.id)
    problem = _cannot_take(state, move.node) if move.node is not None else None
    if problem is not None:
        return problem
    place = place_elsewhere(state, job, move.node)
    if isinstance(place, str):
        return Rejected("cannot-migrate", f"{job.id} cannot be migrated: {place}", job.id)
    return [JobMigrationRequested(request=request, job=job.id, node=move.node, reason=move.reason)]


def _cannot_take(state: PoolState, name: str) -> Rejected | None:
    node = node_named(state, name)
    if isinstance(node, Rejected):
        return node
    if not node.schedulable:
        what = f"is {node.state}" if node.state != "ready" else "is draining"
        return Rejected("node-unschedulable", f"node {name!r} {what} and not schedulable: choose another node")
    return None
