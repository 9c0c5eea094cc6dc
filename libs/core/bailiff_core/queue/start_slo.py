"""Serving: how soon jobs of a class should run after they are submitted (`start_slo`), and which of them did not.

A job counts with its first start; one that still waits counts as late from the moment that it is.
"""

from dataclasses import dataclass

from bailiff_core.model.policy import PriorityClass
from bailiff_core.model.state import Job, PoolState

NAME = "start-slo"


@dataclass(frozen=True, slots=True)
class Kept:
    """One promise of a class: so many of its jobs are known, so many were `late`, at most `allowed` may be."""

    class_name: str
    percent: int
    within: int
    jobs: int
    late: int
    allowed: int

    @property
    def missed(self) -> bool:
        """Whether too many were late."""
        return self.late > self.allowed


def promises(entry: PriorityClass) -> list[tuple[int, int]]:
    """(percent, time in µs) of each promise that the class states."""
    stated = ((95, entry.start_slo.p95), (99, entry.start_slo.p99))
    return [(percent, time) for percent, time in stated if time is not None]


def waited(state: PoolState, job: Job) -> int | None:
    """How long the job waited for its first start, or has waited so far, µs; `None`: it ended without one."""
    if job.first_wait is not None:
        return job.first_wait
    return state.now - job.submitted_at if job.ended_at is None else None


def kept(state: PoolState) -> list[Kept]:
    """How the promises of all classes stand, over the jobs that the state remembers."""
    stated = {entry.name: promises(entry) for entry in state.rules.priority_classes if promises(entry)}
    waits: dict[str, list[int]] = {name: [] for name in stated}
    for job in state.jobs.values() if stated else ():
        time = waited(state, job)
        if job.class_name in waits and time is not None:
            waits[job.class_name].append(time)
    found = []
    for name, entries in stated.items():
        for percent, within in entries:
            jobs, late = len(waits[name]), sum(time > within for time in waits[name])
            found.append(Kept(name, percent, within, jobs, late, jobs * (100 - percent) // 100))
    return found
