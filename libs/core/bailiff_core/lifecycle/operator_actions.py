"""Carries out operators' requests: paused jobs, requested evictions, drained nodes."""

from collections.abc import Iterator
from dataclasses import dataclass

from bailiff_core.fold.gang import active_tasks
from bailiff_core.model.grace import grace_of
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.state import Drain, Job, Node, PoolState
from bailiff_core.model.units import core_complete
from bailiff_core.records.decisions import DrainDeadlineReached, ReservationDropped
from bailiff_core.records.payload import Decision

from .termination import ACTIVE, stop

LONGEST_REASON = 1000


def paused_jobs(state: PoolState) -> Iterator[Decision]:
    """A paused job loses its promise, or is stopped."""
    for job in state.touched_jobs():
        if job.paused_seq is None or job.cancelled:
            continue
        if job.phase == "reserved":
            yield ReservationDropped(job=job.id, reason="paused", preemption=job.preemption)
        elif job.phase in ACTIVE:
            own = job.idle_recorded and job.pause_reason  # the policy paused it, and says why
            yield stop(state, job, "paused", own or because("somebody wants it paused", job.pause_reason))


def requested_evictions(state: PoolState) -> Iterator[Decision]:
    """A job that somebody wants off its place leaves it."""
    for job in state.touched_jobs():
        if job.operator_request is None or job.operator_request.kind != "evict":
            continue
        if job.phase == "reserved":
            yield ReservationDropped(job=job.id, reason="requested", preemption=job.preemption)
        elif job.phase in ACTIVE:
            yield stop(state, job, "requested", because("somebody wants it off its place", job.operator_request.reason))


def drains(state: PoolState) -> Iterator[Decision]:
    """Deadlines of graceful drains, and whatever stands on a node that is to be empty now."""
    for number in list(state.draining):
        drain = state.nodes[number].drain
        if drain is not None and not drain.due and drain.deadline is not None and state.now >= drain.deadline:
            yield DrainDeadlineReached(node=state.nodes[number].name)
    due = dict.fromkeys(number for number in state.draining if _is_due(state.nodes[number]))
    for job in state.touched_jobs() if due else ():
        if job.phase not in ACTIVE:
            continue
        leaving = [task for task in active_tasks(job) if task.node in due]
        if leaving:
            node = state.nodes[leaving[0].node]
            assert node.drain is not None
            told = "" if takes_whole(job, due) else ranges(task.index for task in leaving)
            reason = because(f"{node.name} is being emptied ({node.drain.mode})", node.drain.reason)
            yield stop(state, job, "drain", reason, told, grace=drain_grace(state, job, node.drain))


def drain_deadlines(state: PoolState) -> Iterator[int]:
    """When graceful drains are over, µs on log time."""
    for number in state.draining:
        drain = state.nodes[number].drain
        if drain is not None and not drain.due and drain.deadline is not None:
            yield drain.deadline


def drain_grace(state: PoolState, job: Job, drain: Drain) -> int:
    """How long the job has from notice to KILL on a node that is being emptied, µs."""
    grace = grace_of(state, job)
    if drain.mode == "fast":
        grace = min(grace, state.rules.eviction.short_grace)
    if drain.mode != "graceful" and drain.deadline is not None:
        grace = min(grace, max(0, drain.deadline - state.now))
    return grace


@dataclass(frozen=True, slots=True)
class Affected:
    """What a drain of one node means for one job: all of it leaves, or these tasks; or only a promise goes elsewhere."""

    job: Job
    tasks: tuple[int, ...]
    whole: bool
    promised: bool


def affected_by_drain(state: PoolState, node: Node) -> list[Affected]:
    """Whoever stands on the node or is promised room there, in the order in which they got it."""
    found = []
    for job in state.active_jobs():
        there = [task for task in job.tasks if task.node == node.number and task.state not in ("reserved", "released")]
        waits = [task for task in (*job.tasks, *job.reservation) if task.node == node.number and task.state == "reserved"]
        if there:
            whole = job.eviction is not None or takes_whole(job, {node.number: None})
            found.append(Affected(job, tuple(task.index for task in there), whole, promised=False))
        elif waits:
            found.append(Affected(job, tuple(task.index for task in waits), job.phase == "reserved", promised=True))
    return found


def takes_whole(job: Job, nodes: dict[int, None]) -> bool:
    """Whether the job cannot go on without its members on these nodes."""
    return not core_complete(job, [task for task in active_tasks(job) if task.node not in nodes])


def _is_due(node: Node) -> bool:
    return node.drain is not None and node.drain.due


def because(what: str, reason: str) -> str:
    """The occasion, and the reason that a person gave for it."""
    return f"{what}: {reason}"[:LONGEST_REASON] if reason else what
