"""Jobs that hold room, in groups that rules cannot tell apart: for little, brought up to date with the scene."""

from bisect import bisect_left, insort
from collections.abc import Iterable

from bailiff_core.model.pool import Job, Pool

Group = tuple[str, int, str, bool]  # phase, priority, project, preemptible
Age = tuple[int, str]  # the seq of the submission, and the id


class Alike:
    """groups: who is in each, the oldest first."""

    def __init__(self, pool: Pool) -> None:
        self.groups: dict[Group, list[Age]] = {}
        self._of: dict[str, tuple[Group, Age]] = {}
        for name in pool.active:
            group, age = self._of[name] = _group_and_age(pool.jobs[name])
            self.groups.setdefault(group, []).append(age)
        for members in self.groups.values():
            members.sort()

    def group_of(self, name: str) -> Group | None:
        """The job's group; None where it holds no room."""
        found = self._of.get(name)
        return None if found is None else found[0]

    def priorities(self) -> list[int]:
        """All priorities of jobs that hold room."""
        return sorted({group[1] for group in self.groups})

    def refresh(self, pool: Pool, jobs: Iterable[str]) -> None:
        """Look at these jobs anew."""
        for name in jobs:
            before = self._of.get(name)
            job = pool.jobs.get(name) if name in pool.active else None
            now = None if job is None else _group_and_age(job)
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


def _group_and_age(job: Job) -> tuple[Group, Age]:
    return (job.phase, job.priority, job.project, job.preemptible), (job.seq, job.id)
