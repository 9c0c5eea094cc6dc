"""Cancels evictions that are no longer needed, and reports those that are stuck."""

from collections.abc import Iterator

from bailiff_core.model.evictions import active_evictions
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.state import Eviction, PoolState, Task
from bailiff_core.records.decisions import EvictionCancelled, EvictionStuck
from bailiff_core.records.payload import Decision


def cancelled_evictions_of_preemptions(state: PoolState) -> Iterator[Decision]:
    """A preemption whose plan is gone: victims that nobody was told of stay, others if nothing of them has left yet.

    So does a job that was to move and that nobody was told of, when the place kept for it is gone, and one that was to leave a
    node that is drained no more.
    """
    for entry in active_evictions(state):
        eviction = entry.eviction
        if eviction.cause in ("migration", "resize") and not entry.job.reservation and eviction.started_seq is None:
            reason = "the place that was kept for it is gone"
            yield EvictionCancelled(job=entry.job.id, attempt=entry.job.attempt, preemption=None, notified=False, reason=reason)
            continue
        if (
            eviction.cause == "drain"
            and eviction.started_seq is None
            and not any(_is_emptied(state, task) for task in entry.tasks)
        ):
            reason = "its node is not being emptied any more"
            yield EvictionCancelled(
                job=entry.job.id, attempt=entry.job.attempt, preemption=None, notified=False, reason=reason, tasks=entry.part
            )
            continue
        if eviction.preemption is None or eviction.preemption in state.preemptions or eviction.cancel_seq is not None:
            continue
        if not entry.cancellable:
            continue
        told = eviction.started_seq is not None
        yield EvictionCancelled(
            job=entry.job.id,
            attempt=entry.job.attempt,
            preemption=eviction.preemption,
            notified=told,
            reason=f"{eviction.for_job} does not need the room any more",
            tasks=ranges(task.index for task in entry.remaining) if entry.part and told else entry.part,
        )


def _is_emptied(state: PoolState, task: Task) -> bool:
    drain = state.nodes[task.node].drain
    return drain is not None and drain.due


def stuck_evictions(state: PoolState) -> Iterator[Decision]:
    """Room that should have come free long ago is not counted on any more."""
    for entry in active_evictions(state):
        due = stuck_at(state, entry.eviction)
        if due is not None and state.now >= due:
            yield EvictionStuck(job=entry.job.id, attempt=entry.job.attempt, tasks=entry.part)


def stuck_at(state: PoolState, eviction: Eviction) -> int | None:
    """When an eviction that was begun counts as stuck, µs on log time."""
    if eviction.started_at is None or eviction.stuck:
        return None
    return eviction.started_at + eviction.grace + state.rules.eviction.stuck_after
