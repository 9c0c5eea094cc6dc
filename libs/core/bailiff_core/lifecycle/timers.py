"""When time alone leads to decisions, by rule and job: sorted, so that neither a cycle nor a wake-up looks at all jobs.

`due` of a rule says from which moment on it has something to say about a job. The timers keeps those moments in
`pool.indices.timers` and looks again at jobs that changed (`pool.indices.changed_times`); under another policy, at all.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable

from bailiff_core.model.sorted_jobs import Key, SortedJobs
from bailiff_core.model.state import Job, PoolState
from bailiff_core.queue import ageing, preemption_delay, schedule_timeout

from . import idle_since, stale_grace


def _tried_again(state: PoolState, job: Job) -> int | None:  # noqa: ARG001
    """When the back-off of a job that failed is over."""
    return job.not_before or None if _waits(job) else None


def _asks_again(state: PoolState, job: Job) -> int | None:  # noqa: ARG001
    """When a job that was refused victims may ask again."""
    return job.next_request_at or None if _waits(job) else None


def _waits(job: Job) -> bool:
    return job.phase == "pending" or (job.phase in ("starting", "running") and len(job.tasks) < job.size)


DUE: dict[str, Callable[[PoolState, Job], int | None]] = {
    ageing.NAME: ageing.due,
    schedule_timeout.NAME: schedule_timeout.due,
    stale_grace.NAME: stale_grace.due,
    preemption_delay.NAME: preemption_delay.due,
    idle_since.NAME: idle_since.due,
    "back-off": _tried_again,
    "asks-again": _asks_again,
}


class Timers:
    """One line of moments per rule, and one of when running jobs are going to end."""

    def __init__(self) -> None:
        self._revision: int | None = None
        self._lines = {name: SortedJobs() for name in DUE}
        self._by_rule = [(self._lines[name], due) for name, due in DUE.items()]

    def is_of(self, state: PoolState) -> bool:
        """Whether it goes by the policy in force."""
        return self._revision == state.policy_revision

    def refresh(self, state: PoolState, jobs: Iterable[str]) -> None:
        """Look at these jobs again, or at all where the policy is another one."""
        if not self.is_of(state):
            self._revision = state.policy_revision
            everyone = [job for job in state.jobs.values() if job.ended_at is None]
            for rule, due in DUE.items():
                self._lines[rule].fill((job.id, key) for job in everyone if (key := _key(job, 0, due(state, job))) is not None)
            return
        for name in jobs:
            found = state.jobs.get(name)
            for line, due in self._by_rule:
                moment = None if found is None else due(state, found)
                if found is None or moment is None:
                    line.drop(name)
                else:
                    line.put(name, (0, moment, found.seq, name))

    def due(self, state: PoolState, rule: str) -> list[Job]:
        """Jobs whose moment has come under the rule, the one that waits longest first."""
        order = self._lines[rule].order
        if not order or order[0][1] > state.now:
            return []
        return [state.jobs[key[3]] for key in order[: bisect_left(order, (0, state.now + 1))]]

    def next(self, now: int) -> int | None:
        """The first moment after `now` at which a rule has something to say."""
        found = []
        for line in self._lines.values():
            if line.order:
                at = bisect_left(line.order, (0, now + 1))
                if at < len(line.order):
                    found.append(line.order[at][1])
        return min(found, default=None)


def timers_of(state: PoolState) -> Timers:
    """The pool's timers, up to date."""
    if state.indices.timers is None:
        state.indices.timers = Timers()
    timers = state.indices.timers
    assert isinstance(timers, Timers)
    if state.indices.changed_times or not timers.is_of(state):
        timers.refresh(state, state.indices.changed_times)
        state.indices.changed_times.clear()
    return timers


def _key(job: Job, rank: int, moment: int | None) -> Key | None:
    return None if moment is None else (rank, moment, job.seq, job.id)
