"""What time alone will change, by job: kept in order, so that neither a turn nor a wake-up looks at all jobs.

`due` of a rule says from which moment on it has something to say about a job. The agenda keeps those moments in
`pool.agenda` and looks again at jobs that changed (`pool.stale_times`); under another policy, at all.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable

from bailiff_core.model.pool import Job, Pool
from bailiff_core.protections import ageing, delay, idle, schedule_timeout, stale_gang

Key = tuple[int, int, int, str]
KNOWN_END, UNKNOWN_END = 0, 1


def _tried_again(pool: Pool, job: Job) -> int | None:  # noqa: ARG001
    """When the back-off of a job that failed is over."""
    return job.not_before or None if _waits(job) else None


def _asks_again(pool: Pool, job: Job) -> int | None:  # noqa: ARG001
    """When a job that was refused victims may ask again."""
    return job.next_request_at or None if _waits(job) else None


def _waits(job: Job) -> bool:
    return job.phase == "pending" or (job.phase in ("starting", "running") and len(job.tasks) < job.size)


DUE: dict[str, Callable[[Pool, Job], int | None]] = {
    ageing.NAME: ageing.due,
    schedule_timeout.NAME: schedule_timeout.due,
    stale_gang.NAME: stale_gang.due,
    delay.NAME: delay.due,
    idle.NAME: idle.due,
    "back-off": _tried_again,
    "asks-again": _asks_again,
}


class Line:
    """Jobs in order of their keys, which may change."""

    def __init__(self) -> None:
        self.order: list[Key] = []
        self._keys: dict[str, Key] = {}

    def fill(self, keys: Iterable[tuple[str, Key]]) -> None:
        """Begin anew with these."""
        self._keys = dict(keys)
        self.order = sorted(self._keys.values())

    def put(self, name: str, key: Key) -> None:
        """The job's key from now on."""
        if self._keys.get(name) != key:
            self.drop(name)
            self._keys[name] = key
            insort(self.order, key)

    def drop(self, name: str) -> None:
        """The job has no key from now on."""
        if name in self._keys:
            del self.order[bisect_left(self.order, self._keys.pop(name))]


class Agenda:
    """One line of moments per rule, and one of when running jobs are going to end."""

    def __init__(self) -> None:
        self._revision: int | None = None
        self._lines = {name: Line() for name in DUE}
        self._by_rule = [(self._lines[name], due) for name, due in DUE.items()]
        self._endings = Line()

    def is_of(self, pool: Pool) -> bool:
        """Whether it goes by the policy in force."""
        return self._revision == pool.policy_revision

    def refresh(self, pool: Pool, jobs: Iterable[str]) -> None:
        """Look at these jobs again, or at all where the policy is another one."""
        if not self.is_of(pool):
            self._revision = pool.policy_revision
            everyone = [job for job in pool.jobs.values() if job.ended_at is None]
            for rule, due in DUE.items():
                self._lines[rule].fill((job.id, key) for job in everyone if (key := _key(job, 0, due(pool, job))) is not None)
            self._endings.fill((job.id, key) for job in everyone if (key := _ending(job)) is not None)
            return
        for name in jobs:
            found = pool.jobs.get(name)
            for line, due in self._by_rule:
                moment = None if found is None else due(pool, found)
                if found is None or moment is None:
                    line.drop(name)
                else:
                    line.put(name, (0, moment, found.seq, name))
            ends = None if found is None else _ending(found)
            if ends is None:
                self._endings.drop(name)
            else:
                self._endings.put(name, ends)

    def due(self, pool: Pool, rule: str) -> list[Job]:
        """Jobs whose moment has come under the rule, the one that waits longest first."""
        order = self._lines[rule].order
        if not order or order[0][1] > pool.now:
            return []
        return [pool.jobs[key[3]] for key in order[: bisect_left(order, (0, pool.now + 1))]]

    def next(self, now: int) -> int | None:
        """The first moment after `now` at which a rule has something to say."""
        found = []
        for line in self._lines.values():
            if line.order:
                at = bisect_left(line.order, (0, now + 1))
                if at < len(line.order):
                    found.append(line.order[at][1])
        return min(found, default=None)

    @property
    def endings(self) -> list[Key]:
        """Running jobs in the order in which they are taken to end: `(KNOWN_END, end, ...)`, then `(UNKNOWN_END, start, ...)`."""
        return self._endings.order


def agenda_of(pool: Pool) -> Agenda:
    """The pool's agenda, up to date."""
    if pool.agenda is None:
        pool.agenda = Agenda()
    agenda = pool.agenda
    assert isinstance(agenda, Agenda)
    if pool.stale_times or not agenda.is_of(pool):
        agenda.refresh(pool, pool.stale_times)
        pool.stale_times.clear()
    return agenda


def _key(job: Job, rank: int, moment: int | None) -> Key | None:
    return None if moment is None else (rank, moment, job.seq, job.id)


def _ending(job: Job) -> Key | None:
    """Who has a run-time limit ends with it; who has none ends after all of those, the one that runs longest first."""
    if job.phase != "running" or job.last_start is None:
        return None
    limit = job.demand.run_time_limit
    return _key(job, UNKNOWN_END, job.last_start) if limit is None else _key(job, KNOWN_END, job.last_start + limit)
