"""Timers of jobs: when time alone makes a rule apply to a job. Sorted by rule, so that no cycle has to look at all jobs.

A rule's function `due` returns the time from which it applies to a job. The timers are kept in `state.indices.timers`; jobs in
`state.indices.changed_times` are updated, and all jobs after a change of policy.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable

from bailiff_core.model.sorted_jobs import Key, SortedJobs
from bailiff_core.model.state import Job, PoolState
from bailiff_core.queue import ageing, preemption_delay, schedule_timeout, share_turn

from . import before_maintenance, begin, idle_since, park_limit, snapshot_interval, snapshot_retention, stale_grace


def _backoff_end(state: PoolState, job: Job) -> int | None:  # noqa: ARG001
    """When the restart backoff of a failed job is over, µs."""
    return job.not_before or None if _lacks_tasks(job) else None


def _next_request(state: PoolState, job: Job) -> int | None:  # noqa: ARG001
    """When a job whose preemption request was refused may make another, µs."""
    return job.next_request_at or None if _lacks_tasks(job) else None


def _lacks_tasks(job: Job) -> bool:
    return job.phase == "pending" or (job.phase in ("starting", "running") and len(job.tasks) < job.size)


DUE: dict[str, Callable[[PoolState, Job], int | None]] = {
    begin.NAME: begin.due,
    before_maintenance.NAME: before_maintenance.due,
    ageing.NAME: ageing.due,
    schedule_timeout.NAME: schedule_timeout.due,
    stale_grace.NAME: stale_grace.due,
    preemption_delay.NAME: preemption_delay.due,
    idle_since.NAME: idle_since.due,
    snapshot_interval.NAME: snapshot_interval.due,
    snapshot_retention.NAME: snapshot_retention.due,
    park_limit.NAME: park_limit.due,
    share_turn.NAME: share_turn.due,
    "backoff": _backoff_end,
    "next-request": _next_request,
}


class Timers:
    """One sorted queue of due times (µs) per rule."""

    def __init__(self) -> None:
        self._revision: int | None = None
        self._queues = {name: SortedJobs() for name in DUE}
        self._by_rule = [(self._queues[name], due) for name, due in DUE.items()]

    def refresh(self, state: PoolState, jobs: Iterable[str]) -> None:
        """Updates these jobs, or all jobs if the policy has changed."""
        if self._revision != state.policy_revision:
            self._revision = state.policy_revision
            unended = [job for job in state.jobs.values() if job.ended_at is None]
            for rule, due in DUE.items():
                self._queues[rule].fill((job.id, key) for job in unended if (key := _key(job, 0, due(state, job))) is not None)
            return
        for name in jobs:
            found = state.jobs.get(name)
            for queue, due in self._by_rule:
                moment = None if found is None else due(state, found)
                if found is None or moment is None:
                    queue.drop(name)
                else:
                    queue.put(name, (0, moment, found.seq, name))

    def due(self, state: PoolState, rule: str) -> list[Job]:
        """Jobs for which the rule is due, earliest due time first."""
        order = self._queues[rule].order
        return [state.jobs[key[3]] for key in order[: bisect_left(order, (0, state.now + 1))]]

    def any_due(self, state: PoolState, rule: str) -> bool:
        """Whether the rule is due for any job."""
        order = self._queues[rule].order
        return bool(order) and order[0][1] <= state.now

    def next(self, now: int) -> int | None:
        """The first time after `now` at which a rule is due, µs; `None`: there is none."""
        found = []
        for queue in self._queues.values():
            at = bisect_left(queue.order, (0, now + 1))
            if at < len(queue.order):
                found.append(queue.order[at][1])
        return min(found, default=None)


def timers_of(state: PoolState) -> Timers:
    """The pool's timers, updated."""
    if state.indices.timers is None:
        state.indices.timers = Timers()
    timers = state.indices.timers
    assert isinstance(timers, Timers)
    timers.refresh(state, state.indices.changed_times)
    state.indices.changed_times.clear()
    return timers


def _key(job: Job, rank: int, moment: int | None) -> Key | None:
    return None if moment is None else (rank, moment, job.seq, job.id)
