"""Cancels evictions that are no longer needed, shortens their grace, and reports those that are stuck."""

from collections.abc import Iterator
from typing import Literal

from bailiff_core.model.evictions import ActiveEviction, active_evictions
from bailiff_core.model.grace import grace_by_policy, grace_of
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.state import Eviction, PoolState, Task
from bailiff_core.records.decisions import EvictionCancelled, EvictionStuck, GraceShortened
from bailiff_core.records.payload import Decision


def cancelled_evictions_of_preemptions(state: PoolState) -> Iterator[Decision]:
    """Cancels evictions of preemptions that ended, if they are still `cancellable`.

    Before agents were notified it also cancels the eviction of a migrating job whose reservation was dropped, and of a job on
    a node that is no longer drained. A gang that has to restart because it lost tasks is requeued instead.
    """
    for entry in active_evictions(state):
        eviction, job = entry.eviction, entry.job
        moving = eviction.cause in ("migration", "resize") and not job.restart_cause
        # It would stop, and have no place to go to.
        if moving and not job.reservation and eviction.started_seq is None:
            reason = "its reservation was dropped"
            yield EvictionCancelled(job=entry.job.id, attempt=entry.job.attempt, preemption=None, notified=False, reason=reason)
            continue
        if (
            eviction.cause == "drain"
            and eviction.started_seq is None
            and not any(_is_drain_due(state, task) for task in entry.tasks)
        ):
            reason = "its node is no longer drained"
            yield EvictionCancelled(
                job=entry.job.id, attempt=entry.job.attempt, preemption=None, notified=False, reason=reason, tasks=entry.part
            )
            continue
        if eviction.preemption is None or eviction.preemption in state.preemptions or eviction.cancel_seq is not None:
            continue
        if not entry.cancellable:
            continue
        notified = eviction.started_seq is not None
        yield EvictionCancelled(
            job=entry.job.id,
            attempt=entry.job.attempt,
            preemption=eviction.preemption,
            notified=notified,
            reason=f"{eviction.for_job} no longer needs the resources",
            tasks=ranges(task.index for task in entry.remaining) if entry.part and notified else entry.part,
        )


def _is_drain_due(state: PoolState, task: Task) -> bool:
    drain = state.nodes[task.node].drain
    return (drain is not None and drain.due) or task.node in state.maintenance


def shortened_graces(state: PoolState) -> Iterator[Decision]:
    """Shortens the grace of evictions in progress to what the policy, requests and drains leave them now."""
    for entry in active_evictions(state):
        eviction, job = entry.eviction, entry.job
        if eviction.started_at is None or eviction.cancel_seq is not None or not entry.remaining:
            continue
        grace, cause = min(_graces_left(state, entry, eviction.started_at))
        if grace < eviction.grace:
            yield GraceShortened(
                job=job.id, attempt=job.attempt, grace=grace, earlier=eviction.grace, cause=cause, tasks=entry.part
            )


ShortenedBy = Literal["policy", "cancelled", "requested", "drain"]


def _graces_left(state: PoolState, entry: ActiveEviction, started_at: int) -> Iterator[tuple[int, ShortenedBy]]:
    """The graces from the start of the eviction, µs, that are left to it, each with what leaves no more.

    What a request or a fast drain leaves begins with it: the decision follows in the same cycle, and later there is no less.
    """
    job, so_far = entry.job, max(0, state.now - started_at)
    yield grace_of(state, job), "policy"
    if job.cancelled:
        yield so_far + grace_by_policy(state, job), "cancelled"
    if job.grace_limit is not None:
        yield so_far + job.grace_limit, "requested"
    for task in entry.remaining:
        drain = state.nodes[task.node].drain
        if drain is not None and drain.due and drain.mode == "fast":
            yield so_far + state.rules.eviction.short_grace, "drain"
        if drain is not None and drain.mode != "graceful" and drain.deadline is not None:
            yield max(0, drain.deadline - started_at), "drain"


def stuck_evictions(state: PoolState) -> Iterator[Decision]:
    """Records evictions whose resources were not released in time; they no longer count as releasing."""
    for entry in active_evictions(state):
        due = stuck_at(state, entry.eviction)
        if due is not None and state.now >= due:
            yield EvictionStuck(job=entry.job.id, attempt=entry.job.attempt, tasks=entry.part)


def stuck_at(state: PoolState, eviction: Eviction) -> int | None:
    """When an eviction in progress counts as stuck, µs of log time; `None` if it has not started or is stuck already."""
    if eviction.started_at is None or eviction.stuck:
        return None
    return eviction.started_at + eviction.grace + state.rules.eviction.stuck_after
