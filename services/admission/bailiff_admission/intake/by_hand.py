"""What people ask of jobs by hand: to leave, to pause and go on, to move."""

from bailiff_bus.messages import EvictJob, MigrateJob, PauseJob, UnpauseJob
from bailiff_core.model.pool import Job, Pool
from bailiff_core.records.facts import (
    JobEvictionAsked,
    JobMigrationAsked,
    JobPaused,
    JobUnpaused,
    RequestId,
)
from bailiff_core.records.payload import Fact
from bailiff_core.verbs.migrate import place_elsewhere

from .changes import living
from .nodes import node_named
from .rejected import Rejected
from .submission import class_for

RUNS = ("starting", "running")


def asked_of_job(
    pool: Pool, request: RequestId, actor: str, asked: EvictJob | PauseJob | UnpauseJob | MigrateJob
) -> list[Fact] | Rejected:
    """What somebody wants a job to do, where this actor may ask something of it."""
    job = _job_of(pool, actor, asked.job)
    if isinstance(job, Rejected):
        return job
    match asked:
        case EvictJob():
            return _evicted(request, job, asked)
        case PauseJob():
            return _paused(request, job, asked)
        case UnpauseJob():
            return _unpaused(request, job, asked)
        case MigrateJob():
            return _migrated(pool, request, job, asked)


def _evicted(request: RequestId, job: Job, evict: EvictJob) -> list[Fact] | Rejected:
    """The job leaves its place, and waits."""
    if job.phase not in (*RUNS, "reserved"):
        return Rejected("no-place", f"{job.id} is {job.phase}: there is no place that it could leave", job.id)
    return [JobEvictionAsked(request=request, job=job.id, reason=evict.reason)]


def _paused(request: RequestId, job: Job, pause: PauseJob) -> list[Fact] | Rejected:
    """The job is set aside, whatever it is doing."""
    if job.paused_seq is not None:
        return Rejected("paused-already", f"{job.id} is paused already, since #{job.paused_seq}", job.id)
    return [JobPaused(request=request, job=job.id, reason=pause.reason)]


def _unpaused(request: RequestId, job: Job, unpause: UnpauseJob) -> list[Fact] | Rejected:
    """The job goes back to the queue."""
    if job.paused_seq is None:
        return Rejected("not-paused", f"{job.id} is {job.phase} and not paused", job.id)
    return [JobUnpaused(request=request, job=job.id, reason=unpause.reason)]


def _migrated(pool: Pool, request: RequestId, job: Job, move: MigrateJob) -> list[Fact] | Rejected:
    """The job goes where there is room for it now."""
    if job.phase not in RUNS:
        return Rejected("not-running", f"{job.id} is {job.phase}: only a job that runs can move", job.id)
    if job.held_because is not None:
        return Rejected("held", f"{job.id} is held, because a decision about it failed: cancel it", job.id)
    problem = _cannot_take(pool, move.node) if move.node is not None else None
    if problem is not None:
        return problem
    place = place_elsewhere(pool, job, move.node)
    if isinstance(place, str):
        return Rejected("no-place", f"{job.id} stays where it is: {place}", job.id)
    return [JobMigrationAsked(request=request, job=job.id, node=move.node, reason=move.reason)]


def _cannot_take(pool: Pool, name: str) -> Rejected | None:
    node = node_named(pool, name)
    if isinstance(node, Rejected):
        return node
    if not node.takes_work:
        what = f"is {node.state}" if node.state != "ready" else "is being emptied"
        return Rejected("node-takes-nothing", f"node {name!r} {what} and takes no work: choose another one")
    return None


def _job_of(pool: Pool, actor: str, name: str) -> Job | Rejected:
    """The job, where this actor may ask something of it: an operator, or who may submit to its class."""
    job = living(pool, name)
    if isinstance(job, Rejected):
        return job
    if actor not in pool.rules.identity.operators:
        entry = class_for(pool, actor, job.class_name, job.id)
        if isinstance(entry, Rejected):
            return entry
    if job.cancelled:
        return Rejected("cancelled", f"{job.id} is cancelled", job.id)
    return job
