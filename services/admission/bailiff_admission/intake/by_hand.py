"""What people ask of jobs and nodes by hand: to leave, to pause and go on, to move, to become empty."""

from bailiff_bus.messages import DrainNode, EvictJob, MigrateJob, PauseJob, UndrainNode, UnpauseJob
from bailiff_core.model.pool import Job, Pool
from bailiff_core.records.facts import (
    JobEvictionAsked,
    JobMigrationAsked,
    JobPaused,
    JobUnpaused,
    NodeDrained,
    NodeUndrained,
    RequestId,
)
from bailiff_core.records.payload import Fact
from bailiff_core.verbs.migrate import place_elsewhere

from .changes import living
from .nodes import no_such_node
from .rejected import Rejected
from .submission import class_for

RUNS = ("starting", "running")


def evicted(pool: Pool, request: RequestId, actor: str, evict: EvictJob) -> list[Fact] | Rejected:
    """The job leaves its place, and waits."""
    job = _job_of(pool, actor, evict.job)
    if isinstance(job, Rejected):
        return job
    if job.phase not in (*RUNS, "reserved"):
        return Rejected("no-place", f"{job.id} is {job.phase}: there is no place that it could leave", job.id)
    return [JobEvictionAsked(request=request, job=job.id, reason=evict.reason)]


def paused(pool: Pool, request: RequestId, actor: str, pause: PauseJob) -> list[Fact] | Rejected:
    """The job is set aside, whatever it is doing."""
    job = _job_of(pool, actor, pause.job)
    if isinstance(job, Rejected):
        return job
    if job.paused_seq is not None:
        return Rejected("paused-already", f"{job.id} is paused already, since #{job.paused_seq}", job.id)
    return [JobPaused(request=request, job=job.id, reason=pause.reason)]


def unpaused(pool: Pool, request: RequestId, actor: str, unpause: UnpauseJob) -> list[Fact] | Rejected:
    """The job goes back to the queue."""
    job = _job_of(pool, actor, unpause.job)
    if isinstance(job, Rejected):
        return job
    if job.paused_seq is None:
        return Rejected("not-paused", f"{job.id} is {job.phase} and not paused", job.id)
    return [JobUnpaused(request=request, job=job.id, reason=unpause.reason)]


def migrated(pool: Pool, request: RequestId, actor: str, move: MigrateJob) -> list[Fact] | Rejected:
    """The job goes where there is room for it now."""
    job = _job_of(pool, actor, move.job)
    if isinstance(job, Rejected):
        return job
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
    if name not in pool.node_numbers:
        return no_such_node(pool, name)
    node = pool.nodes[pool.node_numbers[name]]
    if not node.takes_work:
        what = f"is {node.state}" if node.state != "ready" else "is being emptied"
        return Rejected("node-takes-nothing", f"node {name!r} {what} and takes no work: choose another one")
    return None


def drained(pool: Pool, request: RequestId, drain: DrainNode) -> list[Fact] | Rejected:
    """The node becomes empty. Asked again, with other words, the newer ones hold."""
    if drain.node not in pool.node_numbers:
        return no_such_node(pool, drain.node)
    return [NodeDrained(request=request, node=drain.node, mode=drain.mode, deadline=drain.deadline, reason=drain.reason)]


def undrained(pool: Pool, request: RequestId, undrain: UndrainNode) -> list[Fact] | Rejected:
    """The node takes work again."""
    if undrain.node not in pool.node_numbers:
        return no_such_node(pool, undrain.node)
    if pool.nodes[pool.node_numbers[undrain.node]].drain is None:
        return Rejected("not-drained", f"node {undrain.node!r} is not drained: there is nothing to take back")
    return [NodeUndrained(request=request, node=undrain.node, reason=undrain.reason)]


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
