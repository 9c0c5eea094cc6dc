"""Statistics of a run: per job, and allocated and requested GPUs over time."""

from dataclasses import dataclass, field

from .workload import Outcome


@dataclass(slots=True)
class JobStats:
    """One job. Times are µs UTC, durations µs. run_time: what it takes undisturbed. waited: all that it stood in the queue.

    lost: work that was done again or thrown away; overhead: restarts. Both in µs of the whole gang. evictions: by cause, of
    those that cost it an attempt. outcome: None while it has not ended.
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
        """All that it stood in the queue until then, a wait that goes on included."""
        return self.waited + (max(0, end - self.waits_since) if self.waits_since is not None else 0)

    @property
    def evicted(self) -> int:
        """How often it had to leave, whatever for."""
        return sum(self.evictions.values())


@dataclass(slots=True)
class Step:
    """At this moment so much more or less is held or wanted (thousandths of GPUs) by the jobs of a project and a class."""

    time: int
    project: str
    class_name: str
    held: int
    waiting: int


class RunStats:
    """Written by the engine while it runs. steps: in order of time."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobStats] = {}
        self.steps: list[Step] = []

    def submitted(
        self, name: str, now: int, project: str, class_name: str, priority: int, gpu_milli: int, truth: Outcome
    ) -> None:
        """A job was accepted and waits."""
        self.jobs[name] = JobStats(name, project, class_name, priority, gpu_milli, now, truth.run_time)
        self._start_pending(self.jobs[name], now)

    def started(self, name: str, now: int) -> None:
        """All of it runs."""
        job = self.jobs[name]
        job.starts += 1
        if job.first_start is None:
            job.first_start = now
        self._stop_pending(job, now)

    def requeued(self, name: str, now: int, cause: str, outcome: str) -> None:
        """An attempt is over and it waits again."""
        job = self.jobs[name]
        what = cause if cause != "exit" else outcome
        job.evictions[what] = job.evictions.get(what, 0) + 1
        if job.waits_since is None:
            self._start_pending(job, now)

    def ended(self, name: str, now: int, outcome: str) -> None:
        """It is over for good."""
        job = self.jobs[name]
        job.ended, job.outcome = now, outcome
        self._stop_pending(job, now)

    def holds(self, name: str, now: int, change: int) -> None:
        """It holds so much more (thousandths of GPUs), or less."""
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
