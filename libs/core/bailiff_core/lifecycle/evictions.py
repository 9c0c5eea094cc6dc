"""Cancels evictions that are no longer needed, and reports those that are stuck."""

from collections.abc import Iterator

from bailiff_core.model.evictions import active_evictions
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.state import Eviction, PoolState, Task
from bailiff_core.records.decisions import EvictionCancelled, EvictionStuck
from bailiff_core.records.payload import Decision


def cancelled_evictions_of_preemptions(state: PoolState) -> Iterator[Decision]:
    """Cancels evictions of preemptions that ended, if they are still `cancellable`.

    Before agents were notified it also cancels the eviction of a migrating job whose reservation was dropped, and of a job on
    a node that is no longer drained. A gang that has to restart because it lost tasks is requeued instead.
    """
    for entry in active_evictions(state):
        eviction, job = entry.eviction, entry.job
        moving = eviction.cause in ("migration", "resize") and not job.restart_pending
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
    return drain is not None and drain.due


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
