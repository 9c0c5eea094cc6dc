"""Running jobs in the order in which they are expected to end. Kept in `indices.completion_order`."""

from collections.abc import Iterable, Iterator
from heapq import merge
from typing import NamedTuple

from bailiff_core.model.sorted_jobs import Key, SortedJobs
from bailiff_core.model.state import Job, PoolState

KNOWN_END, UNKNOWN_END = 0, 1
ASSUMED_EVICTED = 0  # µs; before every other end
RESERVED = 2  # jobs with a reservation complete after all running jobs
RANK = 1 << 61  # added to `moment` per rank


class End(NamedTuple):
    """Position in the order of expected completion.

    Attributes:
        moment: µs, plus `RANK` times the rank (known, unknown, reserved).
    """

    moment: int
    seq: int

    def when(self) -> int | None:
        """Completion time, µs, of a job with a run-time limit; `None` for other jobs."""
        return self.moment if self.moment < RANK // 2 else None


NO_COMPLETION = End(-RANK, -1)


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


def in_order_of_end(state: PoolState) -> Iterator[Job]:
    """Yields jobs assumed to be evicted by submission, then jobs with a run-time limit by completion time, then others by start
    time, then reserved ones by submission.

    For starting jobs the run time counts from now. Evicting jobs are left out: their resources are releasing already.
    """
    evicted = state.indices.assumed_evicted
    starting = [state.jobs[name] for name in {**state.starting, **state.reserved}]
    starting_keys: list[Key] = sorted(
        (KNOWN_END, ASSUMED_EVICTED, job.seq, job.id) if job.id in evicted else _starting_key(state.now, job)
        for job in starting
        if job.phase == "starting" or (job.phase == "reserved" and job.id in evicted)
    )
    for *_, name in merge(completion_order(state), starting_keys):
        yield state.jobs[name]
    reserved = [job for name in state.reserved if (job := state.jobs[name]).phase == "reserved" and name not in evicted]
    yield from sorted(reserved, key=lambda job: (job.seq, job.id))


def known_end(state: PoolState, job: Job) -> int | None:
    """Completion time, µs, of a job with a run-time limit, counted from now if it does not run yet; reserved jobs: `None`.

    Of a job that is assumed to be evicted: `ASSUMED_EVICTED`.
    """
    if job.id in state.indices.assumed_evicted:
        return ASSUMED_EVICTED
    limit = job.demand.run_time_limit
    if limit is None or job.phase == "reserved":
        return None
    return (job.last_start if job.phase == "running" and job.last_start is not None else state.now) + limit


def _starting_key(now: int, job: Job) -> Key:
    limit = job.demand.run_time_limit
    return (UNKNOWN_END, now, job.seq, job.id) if limit is None else (KNOWN_END, now + limit, job.seq, job.id)


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
