"""Evictions in progress, of whole jobs and of single tasks."""

from collections.abc import Iterator
from dataclasses import dataclass

from .placement_ranges import ranges
from .state import Eviction, Job, PoolState, Task


@dataclass(frozen=True, slots=True)
class ActiveEviction:
    """One eviction in progress, of a whole job or of some tasks. part: ranges of these tasks; empty: the whole job."""

    job: Job
    eviction: Eviction
    tasks: list[Task]
    part: str

    @property
    def remaining(self) -> list[Task]:
        """Tasks that have not exited yet."""
        return [task for task in self.tasks if task.state not in ("exited", "released")]

    @property
    def cancellable(self) -> bool:
        """Whether the eviction can be cancelled: no agent was notified, or no task has exited (for a part: not all have)."""
        remaining = self.remaining
        return self.eviction.started_seq is None or (bool(remaining) and (bool(self.part) or len(remaining) == len(self.tasks)))


def active_evictions(state: PoolState) -> Iterator[ActiveEviction]:
    """Yields all evictions in progress, in the order in which their jobs' evictions were decided."""
    for name in list(state.evicting):
        yield from evictions_of(state.jobs[name])


def evictions_of(job: Job) -> list[ActiveEviction]:
    """Returns the job's evictions: that of the whole job alone, or those of single tasks, grouped by decision."""
    whole, single = job.eviction, [task for task in job.tasks if task.eviction is not None]
    if whole is not None and whole.cancel_seq is None:
        return [ActiveEviction(job, whole, job.tasks, "")]
    found = []
    if whole is not None:
        found.append(ActiveEviction(job, whole, [task for task in job.tasks if task.eviction is None], ""))
    groups: dict[tuple[int, bool], list[Task]] = {}
    for task in single:
        assert task.eviction is not None
        groups.setdefault((task.eviction.decided_seq, task.eviction.cancel_seq is not None), []).append(task)
    for tasks in groups.values():
        eviction = tasks[0].eviction
        assert eviction is not None
        found.append(ActiveEviction(job, eviction, tasks, ranges(task.index for task in tasks)))
    return found
