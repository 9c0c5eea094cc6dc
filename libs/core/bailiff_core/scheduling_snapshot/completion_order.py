"""Running jobs in the order in which they are expected to end. Kept in `indices.completion_order`."""

from collections.abc import Iterable

from bailiff_core.model.sorted_jobs import Key, SortedJobs
from bailiff_core.model.state import Job, PoolState

KNOWN_END, UNKNOWN_END = 0, 1
ASSUMED_EVICTED = 0  # µs; before every other end


class CompletionOrder:
    """Keys: `(KNOWN_END, end, ...)` of jobs with a run-time limit, then `(UNKNOWN_END, start, ...)` of the others.

    Jobs that are assumed to be evicted are first (`indices.assumed_evicted`).
    """

    def __init__(self, state: PoolState) -> None:
        self._jobs = SortedJobs()
        self._jobs.fill((job.id, key) for job in state.active_jobs() if (key := _key(state, job)) is not None)

    def refresh(self, state: PoolState, jobs: Iterable[str]) -> None:
        """Reload these jobs from the state."""
        for name in jobs:
            job = state.jobs.get(name)
            key = None if job is None else _key(state, job)
            if key is None:
                self._jobs.drop(name)
            else:
                self._jobs.put(name, key)

    @property
    def keys(self) -> list[Key]:
        """All keys, soonest end first."""
        return self._jobs.order


def completion_order(state: PoolState) -> list[Key]:
    """The keys of the pool's running jobs, up to date."""
    indices = state.indices
    order = indices.completion_order
    if not isinstance(order, CompletionOrder):
        indices.completion_order = order = CompletionOrder(state)
        indices.changed_ends.clear()
    elif indices.changed_ends:
        order.refresh(state, indices.changed_ends)
        indices.changed_ends.clear()
    return order.keys


def _key(state: PoolState, job: Job) -> Key | None:
    """A job with a run-time limit ends at it; one without ends after all of those, the longest-running first."""
    if job.phase != "running" or job.last_start is None:
        return None
    if job.id in state.indices.assumed_evicted:
        return (KNOWN_END, ASSUMED_EVICTED, job.seq, job.id)
    limit = job.demand.run_time_limit
    return (
        (UNKNOWN_END, job.last_start, job.seq, job.id) if limit is None else (KNOWN_END, job.last_start + limit, job.seq, job.id)
    )
