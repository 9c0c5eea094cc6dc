"""Active jobs grouped into classes that are equal to most protections: by phase, priority, project, preemptibility, resources."""

from bisect import bisect_left, insort
from collections.abc import Iterable

from bailiff_core.model.gpu_shares import devices_of
from bailiff_core.model.state import Job, PoolState

EquivalenceClass = tuple[str, int, str, bool, int]  # phase, priority, project, preemptible, kinds of resources
KINDS = GPUS, CPUS, MEMORY = 1, 2, 4  # kinds of resources, as bits
SubmitOrder = tuple[int, str]  # seq of the submission, job id


class EquivalenceClasses:
    """groups: members of each class, oldest first."""

    def __init__(self, state: PoolState) -> None:
        self.groups: dict[EquivalenceClass, list[SubmitOrder]] = {}
        self._of: dict[str, tuple[EquivalenceClass, SubmitOrder]] = {}
        for name in state.active:
            job = state.jobs[name]
            group, age = self._of[name] = class_of(job), (job.seq, job.id)
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
            now = None if job is None else (class_of(job), (job.seq, job.id))
            if before is not None:
                group, age = self._of.pop(name)
                members = self.groups[group]
                del members[bisect_left(members, age)]
                if not members:
                    del self.groups[group]
            if now is not None:
                self._of[name] = now
                insort(self.groups.setdefault(now[0], []), now[1])


def class_of(job: Job) -> EquivalenceClass:
    kinds = 0
    for group in job.demand.tasks:
        if devices_of(group):
            kinds |= GPUS
        if group.cpu_milli:
            kinds |= CPUS
        if group.memory_bytes:
            kinds |= MEMORY
    return job.phase, job.priority, job.project, job.preemptible, kinds
