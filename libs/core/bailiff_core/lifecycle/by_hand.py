"""What people asked for by hand: jobs that are paused or are to leave, and nodes that are emptied."""

from collections.abc import Iterator
from dataclasses import dataclass

from bailiff_core.fold.gang import at_work
from bailiff_core.model.places import ranges
from bailiff_core.model.pool import Drain, Job, Node, Pool
from bailiff_core.model.units import core_stands
from bailiff_core.records.decisions import DrainDue, ReservationDropped
from bailiff_core.records.payload import Decision

from .attempts import GOES_ON, grace_of, stop

LONGEST_REASON = 1000


def paused_jobs(pool: Pool) -> Iterator[Decision]:
    """A paused job loses its promise, or is stopped."""
    for job in pool.touched_jobs():
        if job.paused_seq is None or job.cancelled:
            continue
        if job.phase == "reserved":
            yield ReservationDropped(job=job.id, reason="paused", plan=job.plan)
        elif job.phase in GOES_ON:
            own = job.idle_told and job.pause_reason  # the policy paused it, and says why
            yield stop(pool, job, "paused", own or because("somebody wants it paused", job.pause_reason))


def asked_evictions(pool: Pool) -> Iterator[Decision]:
    """A job that somebody wants off its place leaves it."""
    for job in pool.touched_jobs():
        if job.wish is None or job.wish.kind != "evict":
            continue
        if job.phase == "reserved":
            yield ReservationDropped(job=job.id, reason="asked", plan=job.plan)
        elif job.phase in GOES_ON:
            yield stop(pool, job, "asked", because("somebody wants it off its place", job.wish.reason))


def drains(pool: Pool) -> Iterator[Decision]:
    """Deadlines of graceful drains, and whatever stands on a node that is to be empty now."""
    for number in list(pool.drained):
        drain = pool.nodes[number].drain
        if drain is not None and not drain.due and drain.deadline is not None and pool.now >= drain.deadline:
            yield DrainDue(node=pool.nodes[number].name)
    due = dict.fromkeys(number for number in pool.drained if _is_due(pool.nodes[number]))
    for job in pool.touched_jobs() if due else ():
        if job.phase not in GOES_ON:
            continue
        leaving = [task for task in at_work(job) if task.node in due]
        if leaving:
            node = pool.nodes[leaving[0].node]
            assert node.drain is not None
            told = "" if takes_whole(job, due) else ranges(task.index for task in leaving)
            reason = because(f"{node.name} is being emptied ({node.drain.mode})", node.drain.reason)
            yield stop(pool, job, "drain", reason, told, grace=drain_grace(pool, job, node.drain))


def drain_deadlines(pool: Pool) -> Iterator[int]:
    """When graceful drains are over, µs on log time."""
    for number in pool.drained:
        drain = pool.nodes[number].drain
        if drain is not None and not drain.due and drain.deadline is not None:
            yield drain.deadline


def drain_grace(pool: Pool, job: Job, drain: Drain) -> int:
    """How long the job has from notice to KILL on a node that is being emptied, µs."""
    grace = grace_of(pool, job)
    if drain.mode == "fast":
        grace = min(grace, pool.rules.eviction.short_grace)
    if drain.mode != "graceful" and drain.deadline is not None:
        grace = min(grace, max(0, drain.deadline - pool.now))
    return grace


@dataclass(frozen=True, slots=True)
class Affected:
    """What a drain of one node means for one job: all of it leaves, or these tasks; or only a promise goes elsewhere."""

    job: Job
    tasks: tuple[int, ...]
    whole: bool
    promised: bool


def affected_by_drain(pool: Pool, node: Node) -> list[Affected]:
    """Whoever stands on the node or is promised room there, in the order in which they got it."""
    found = []
    for job in pool.active_jobs():
        there = [task for task in job.tasks if task.node == node.number and task.state not in ("reserved", "released")]
        waits = [task for task in (*job.tasks, *job.promise) if task.node == node.number and task.state == "reserved"]
        if there:
            whole = job.eviction is not None or takes_whole(job, {node.number: None})
            found.append(Affected(job, tuple(task.index for task in there), whole, promised=False))
        elif waits:
            found.append(Affected(job, tuple(task.index for task in waits), job.phase == "reserved", promised=True))
    return found


def takes_whole(job: Job, nodes: dict[int, None]) -> bool:
    """Whether the job cannot go on without its members on these nodes."""
    return not core_stands(job, [task for task in at_work(job) if task.node not in nodes])


def _is_due(node: Node) -> bool:
    return node.drain is not None and node.drain.due


def because(what: str, reason: str) -> str:
    """The occasion, and the reason that a person gave for it."""
    return f"{what}: {reason}"[:LONGEST_REASON] if reason else what
