"""Active jobs grouped into classes that are equal to all protections (phase, priority, project, preemptible)."""

from bisect import bisect_left, insort
from collections.abc import Iterable

from bailiff_core.model.state import Job, PoolState

EquivalenceClass = tuple[str, int, str, bool]  # phase, priority, project, preemptible
SubmitOrder = tuple[int, str]  # seq of the submission, job id


class EquivalenceClasses:
    """groups: members of each class, oldest first."""

    def __init__(self, state: PoolState) -> None:
        self.groups: dict[EquivalenceClass, list[SubmitOrder]] = {}
        self._of: dict[str, tuple[EquivalenceClass, SubmitOrder]] = {}
        for name in state.active:
            group, age = self._of[name] = _class_and_order(state.jobs[name])
            self.groups.setdefault(group, []).append(age)
        for members in self.groups.values():
            members.sort()

    def group_of(self, name: str) -> EquivalenceClass | None:
        """The job's class; None if it is not active."""
        found = self._of.get(name)
        return None if found is None else found[0]

    def priorities(self) -> list[int]:
        """All priorities of active jobs, ascending."""
        return sorted({group[1] for group in self.groups})

    def refresh(self, state: PoolState, jobs: Iterable[str]) -> None:
        """Reload these jobs from the state."""
        for name in jobs:
            before = self._of.get(name)
            job = state.jobs.get(name) if name in state.active else None
            now = None if job is None else _class_and_order(job)
            if now == before:
                continue
            if before is not None:
                group, age = self._of.pop(name)
                members = self.groups[group]
                del members[bisect_left(members, age)]
                if not members:
                    del self.groups[group]
            if now is not None:
                self._of[name] = now
                insort(self.groups.setdefault(now[0], []), now[1])


def _class_and_order(job: Job) -> tuple[EquivalenceClass, SubmitOrder]:
    return (job.phase, job.priority, job.project, job.preemptible), (job.seq, job.id)
