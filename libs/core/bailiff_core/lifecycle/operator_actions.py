"""Carries out operators' requests: paused jobs, requested evictions, drained nodes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bailiff_core.fold.gang import active_tasks
from bailiff_core.model.grace import grace_of
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.state import Drain, Job, Node, PoolState, Task
from bailiff_core.model.units import core_complete
from bailiff_core.records.decisions import DrainDeadlineReached, ReservationDropped
from bailiff_core.records.payload import Decision

from .termination import ACTIVE, eviction_decision

MAX_REASON_CHARS = 1000


def paused_jobs(state: PoolState) -> Iterator[Decision]:
    """Drops the reservation of a paused job, or evicts it."""
    for job in state.touched_jobs():
        if job.paused_seq is None or job.cancelled:
            continue
        if job.phase == "reserved":
            yield ReservationDropped(job=job.id, reason="paused", preemption=job.preemption)
        elif job.phase in ACTIVE:
            idle_reason = job.idle_recorded and job.pause_reason  # paused by the idle rule, with its reason
            yield eviction_decision(state, job, "paused", idle_reason or with_reason("pause requested", job.pause_reason))


def requested_evictions(state: PoolState) -> Iterator[Decision]:
    """Evicts jobs on request; of a reserved job it drops the reservation."""
    for job in state.touched_jobs():
        if job.operator_request is None or job.operator_request.kind != "evict":
            continue
        if job.phase == "reserved":
            yield ReservationDropped(job=job.id, reason="requested", preemption=job.preemption)
        elif job.phase in ACTIVE:
            yield eviction_decision(state, job, "requested", with_reason("eviction requested", job.operator_request.reason))


def drains(state: PoolState) -> Iterator[Decision]:
    """Records deadlines of graceful drains, and evicts tasks on nodes whose drain is due."""
    for number in list(state.draining):
        drain = state.nodes[number].drain
        if drain is not None and not drain.due and drain.deadline is not None and state.now >= drain.deadline:
            yield DrainDeadlineReached(node=state.nodes[number].name)
    due = dict.fromkeys(number for number in state.draining if _is_due(state.nodes[number]))
    for job in state.touched_jobs():
        if job.phase not in ACTIVE:
            continue
        on_due_nodes = [task for task in active_tasks(job) if task.node in due]
        if on_due_nodes:
            grace, reason = drain_terms(state, job, on_due_nodes)
            yield leaves_nodes(state, job, on_due_nodes, reason, grace)


def leaves_nodes(state: PoolState, job: Job, tasks: Sequence[Task], reason: str, grace: int) -> Decision:
    """Evicts these tasks, which are on nodes that are emptied; the whole job if it cannot run without what it has there."""
    nodes = dict.fromkeys(task.node for task in tasks)
    part = "" if requires_nodes(job, nodes) else ranges(task.index for task in tasks)
    return eviction_decision(state, job, "drain", reason, part, grace=grace)


def drain_deadlines(state: PoolState) -> Iterator[int]:
    """Deadlines of graceful drains, µs of log time."""
    for number in state.draining:
        drain = state.nodes[number].drain
        if drain is not None and not drain.due and drain.deadline is not None:
            yield drain.deadline


def drain_terms(state: PoolState, job: Job, tasks: Iterable[Task]) -> tuple[int, str]:
    """The grace that the drains of these tasks' nodes leave the job, µs, and the reason: those of the drain that leaves least."""
    drained = {node.name: node.drain for task in tasks if (node := state.nodes[task.node]).drain is not None}
    graces = {name: drain_grace(state, job, drain) for name, drain in drained.items()}
    name = min(graces, key=graces.__getitem__)
    return graces[name], with_reason(f"{name} is drained ({drained[name].mode})", drained[name].reason)


def drain_grace(state: PoolState, job: Job, drain: Drain) -> int:
    """The job's grace under this drain, from notice to KILL, µs."""
    grace = grace_of(state, job)
    if drain.mode == "fast":
        grace = min(grace, state.rules.eviction.short_grace)
    if drain.mode != "graceful" and drain.deadline is not None:
        grace = min(grace, max(0, drain.deadline - state.now))
    return grace


@dataclass(frozen=True, slots=True)
class AffectedJob:
    """The effect of a node's drain on one job.

    Attributes:
        whole: The whole job is evicted, else only `tasks`.
        reserved: The job only has a reservation there, which is dropped.
    """

    job: Job
    tasks: tuple[int, ...]
    whole: bool
    reserved: bool


def affected_by_drain(state: PoolState, node: Node) -> list[AffectedJob]:
    """Jobs with tasks or reservations on the node, in the order in which they got their place."""
    found = []
    for job in state.active_jobs():
        placed = [task for task in job.tasks if task.node == node.number and task.state not in ("reserved", "released")]
        reserved = [task for task in (*job.tasks, *job.reservation) if task.node == node.number and task.state == "reserved"]
        if placed:
            whole = job.eviction is not None or requires_nodes(job, {node.number: None})
            found.append(AffectedJob(job, tuple(task.index for task in placed), whole, reserved=False))
        elif reserved:
            found.append(AffectedJob(job, tuple(task.index for task in reserved), job.phase == "reserved", reserved=True))
    return found


def requires_nodes(job: Job, nodes: dict[int, None]) -> bool:
    """Whether the job cannot run without its tasks on these nodes."""
    return not core_complete(job, [task for task in active_tasks(job) if task.node not in nodes])


def _is_due(node: Node) -> bool:
    return node.drain is not None and node.drain.due


def with_reason(text: str, reason: str) -> str:
    """The text, followed by the operator's reason if one was given."""
    return f"{text}: {reason}"[:MAX_REASON_CHARS] if reason else text
