"""`start-slo`: how soon jobs of a priority class should start after submission, and how many started late.

A job counts by its first start; a pending one counts as late as soon as its pending time exceeds the target.
"""

from dataclasses import dataclass

from bailiff_core.model.policy import PriorityClass
from bailiff_core.model.state import Job, PoolState

NAME = "start-slo"


@dataclass(frozen=True, slots=True)
class SloStatus:
    """One SLO target of a class: `jobs` measured, `late` of them late, `allowed` may be.

    Attributes:
        within: The target, µs.
    """

    class_name: str
    percent: int
    within: int
    jobs: int
    late: int
    allowed: int

    @property
    def missed(self) -> bool:
        """Whether more jobs were late than allowed."""
        return self.late > self.allowed


def slo_targets(entry: PriorityClass) -> list[tuple[int, int]]:
    """(percent, time in µs) of each SLO target of the class."""
    stated = ((95, entry.start_slo.p95), (99, entry.start_slo.p99))
    return [(percent, time) for percent, time in stated if time is not None]


def start_delay(state: PoolState, job: Job) -> int | None:
    """Time from submission to the first start, or until now, µs; `None`: the job ended without a start."""
    if job.first_wait is not None:
        return job.first_wait
    return state.now - job.submitted_at if job.ended_at is None else None


def slo_status(state: PoolState) -> list[SloStatus]:
    """Status of the SLO targets of all classes, over the jobs that the state still has."""
    stated = {entry.name: slo_targets(entry) for entry in state.rules.priority_classes if slo_targets(entry)}
    waits: dict[str, list[int]] = {name: [] for name in stated}
    for job in state.jobs.values():
        time = start_delay(state, job)
        if job.class_name in waits and time is not None:
            waits[job.class_name].append(time)
    found = []
    for name, entries in stated.items():
        for percent, within in entries:
            jobs, late = len(waits[name]), sum(time > within for time in waits[name])
            found.append(SloStatus(name, percent, within, jobs, late, jobs * (100 - percent) // 100))
    return found
