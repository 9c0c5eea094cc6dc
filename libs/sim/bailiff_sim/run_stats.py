"""Statistics of a run: per job, and allocated and requested GPUs over time."""

from dataclasses import dataclass, field

from .workload import Outcome


@dataclass(slots=True)
class JobStats:
    """Statistics of one job. Times are µs UTC, durations µs.

    Attributes:
        run_time: Undisturbed run time.
        waited: Pending time of completed waits.
        waits_since: Start of the current one.
        lost: Repeated or discarded work.
        overhead: Restarts; both in µs of the whole gang.
        evictions: By cause, those that cost an attempt.
        outcome: None while it has not ended.
    """

    name: str
    project: str
    class_name: str
    priority: int
    gpu_milli: int
    submitted: int
    run_time: int
    first_start: int | None = None
    ended: int | None = None
    outcome: str | None = None
    waited: int = 0
    starts: int = 0
    lost: int = 0
    overhead: int = 0
    work: int = 0
    evictions: dict[str, int] = field(default_factory=dict)
    waits_since: int | None = None

    def waited_by(self, end: int) -> int:
        """Pending time until `end`, an open wait included, µs."""
        return self.waited + (max(0, end - self.waits_since) if self.waits_since is not None else 0)

    @property
    def evicted(self) -> int:
        """Number of evictions, for any cause."""
        return sum(self.evictions.values())


@dataclass(slots=True)
class Step:
    """A change of allocated and pending GPUs of a project and class, in thousandths."""

    time: int
    project: str
    class_name: str
    allocated: int
    pending: int


class RunStats:
    """Statistics that the engine writes as it runs. steps: in time order."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobStats] = {}
        self.steps: list[Step] = []

    def submitted(
        self, name: str, now: int, project: str, class_name: str, priority: int, gpu_milli: int, outcome: Outcome
    ) -> None:
        """A job was accepted and is pending."""
        self.jobs[name] = JobStats(name, project, class_name, priority, gpu_milli, now, outcome.run_time)
        self._start_pending(self.jobs[name], now)

    def started(self, name: str, now: int) -> None:
        """All tasks of the job run."""
        job = self.jobs[name]
        job.starts += 1
        if job.first_start is None:
            job.first_start = now
        self._stop_pending(job, now)

    def requeued(self, name: str, now: int, cause: str, outcome: str) -> None:
        """An attempt is over; the job is pending again."""
        job = self.jobs[name]
        counted = cause if cause != "exit" else outcome
        job.evictions[counted] = job.evictions.get(counted, 0) + 1
        if job.waits_since is None:
            self._start_pending(job, now)

    def ended(self, name: str, now: int, outcome: str) -> None:
        """The job has ended."""
        job = self.jobs[name]
        job.ended, job.outcome = now, outcome
        self._stop_pending(job, now)

    def change_allocated(self, name: str, now: int, change: int) -> None:
        """The job's allocation changed by `change` thousandths of GPUs."""
        job = self.jobs[name]
        self.steps.append(Step(now, job.project, job.class_name, change, 0))

    def _start_pending(self, job: JobStats, now: int) -> None:
        job.waits_since = now
        self.steps.append(Step(now, job.project, job.class_name, 0, job.gpu_milli))

    def _stop_pending(self, job: JobStats, now: int) -> None:
        if job.waits_since is not None:
            job.waited += now - job.waits_since
            job.waits_since = None
            self.steps.append(Step(now, job.project, job.class_name, 0, -job.gpu_milli))


@dataclass
class Result:
    """Result of one run.

    Attributes:
        refused: Reason per rejected job.
        begin: µs UTC, as `end`.
        digest: Hash of the last record, which covers all before it; empty for a scheduler that writes no log.
    """

    stats: RunStats
    refused: dict[str, str]
    begin: int
    end: int
    digest: str = ""
    records: int = 0
    cycles: int = 0

    @property
    def jobs(self) -> dict[str, JobStats]:
        """Statistics of every accepted job, by name."""
        return self.stats.jobs
