"""Evictions in progress, of whole jobs and of single tasks."""

from collections.abc import Iterator
from dataclasses import dataclass

from .placement_ranges import ranges
from .state import Eviction, Job, PoolState, Task

IRREVERSIBLE_STAGES = ("yielding", "term_sent", "kill_sent", "frozen")
"""A task that has reached one of these stops, whatever is decided: its node refuses to cancel the eviction."""


@dataclass(frozen=True, slots=True)
class ActiveEviction:
    """One eviction in progress, of a whole job or of some tasks.

    Attributes:
        part: Ranges of the evicted tasks; empty: the whole job.
    """

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

    @property
    def too_late(self) -> bool:
        """Whether its tasks were already told to stop (of a job one of them, of a part all), so that it cannot be cancelled."""
        stopping = [begun_to_stop(task) for task in self.tasks]
        return bool(stopping) and (all(stopping) if self.part else any(stopping))


def begun_to_stop(task: Task) -> bool:
    """Whether the task was told to stop, as far as its node has reported, or has exited."""
    return task.state in ("exited", "released") or any(stage in task.stage_times for stage in IRREVERSIBLE_STAGES)


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
