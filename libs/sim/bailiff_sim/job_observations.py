"""Observations of each job in a log: run times, checkpoints, outcome, and allocated and requested GPUs over time.

The log is folded as by every reader. Progress and statistics are computed as in a simulation, so that recorded and simulated
figures are comparable.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from bailiff_core.fold import close_cycle, fold
from bailiff_core.model.state import Job, PoolState
from bailiff_core.records import Record, decisions, facts

from .job_progress import FOREVER, JobProgress, gpu_milli_of
from .run_stats import RunStats
from .workload import TimedReport


@dataclass
class JobObservation:
    """One submission.

    Attributes:
        name: Unique in the log. Times are µs UTC, durations µs.
        saved_at: Work in each of its own checkpoints.
        fails: Work, repeated work included, at each failure that another attempt followed.
        saves: Time from each eviction decision to the exit, where the job saved a checkpoint.
        evicted: Number of eviction notices.
        refused: (attempt, task) of each refused start.
        began: When the last attempt started to run.
        reports: Node reports of its tasks since then.
        early_reports: Number of those before the whole gang ran.
    """

    name: str
    submitted: int
    work: JobProgress
    class_name: str
    outcome: str | None = None
    cancelled: bool = False
    saved_at: list[int] = field(default_factory=list)
    saves: list[int] = field(default_factory=list)
    fails: list[int] = field(default_factory=list)
    first_exit: int | None = None
    evicted: int = 0
    saved: bool = False
    refused: list[tuple[int, int]] = field(default_factory=list)
    began: int = 0
    reports: list[TimedReport] = field(default_factory=list)
    early_reports: int = 0


class Observation:
    """Observes a log, fed record by record from the first on. jobs: submissions by the seq of their record."""

    def __init__(self) -> None:
        self.state = PoolState()
        self.stats = RunStats()
        self.jobs: dict[int, JobObservation] = {}
        self.took: dict[tuple[str, str, int], int] = {}
        self.begin = -1
        self._live: dict[str, JobObservation] = {}
        self._names: dict[str, int] = {}
        self._since: dict[tuple[str, str, int], int] = {}

    def read(self, records: Iterable[Record]) -> "Observation":
        """Feeds all records and returns the observation."""
        for record in records:
            self.feed(record)
        return self

    def feed(self, record: Record) -> None:
        """Adds a record. Raises `ValueError` if it does not follow the previous one."""
        state = self.state
        if self.begin < 0:
            self.begin = record.time
        self._before(record)
        fold(state, record)
        self._after(record)
        if record.cycle_end:
            for job in state.touched_jobs():
                seen = self._live.get(job.id)
                if seen is not None and job.seq in self.jobs:
                    self._update_job(job, seen)
            close_cycle(state)

    def name_of(self, job: str) -> str | None:
        """Returns the unique name of the unfinished job with this name, or None."""
        seen = self._live.get(job)
        return None if seen is None else seen.name

    def _before(self, record: Record) -> None:
        """Updates what depends on the job's state before the record is folded."""
        data, now = record.data, record.time
        if isinstance(data, decisions.JobRequeued):
            seen = self._live[data.job]
            refused = any(attempt == self.state.jobs[data.job].attempt for attempt, _ in seen.refused)
            if data.outcome == "failed" and seen.first_exit is not None and not refused:
                seen.fails.append(seen.first_exit)
            seen.first_exit = None
            seen.work.attempt_over(now)
            self.stats.requeued(seen.name, now, data.cause, data.outcome)
        elif isinstance(data, decisions.JobEnded):
            seen = self._live[data.job]
            seen.work.ended(now, in_vain=data.outcome in ("evicted", "timed-out"))
            seen.outcome = data.outcome
            self.stats.ended(seen.name, now, data.outcome)
        elif isinstance(data, facts.EvictionStageReached) and data.stage == "noticed":
            self._eviction_stage(self.state.jobs.get(data.job), data, now)

    def _after(self, record: Record) -> None:
        match record.data:
            case facts.JobSubmitted() as fact:
                self._submitted(record, fact)
            case facts.JobCancelled() as fact if fact.job in self._live:
                self._live[fact.job].cancelled = True
            case facts.TaskProgressed() as fact if fact.checkpoint is not None and fact.checkpoint.agreed:
                self._saved(fact, record.time)
            case facts.EvictionStageReached() as fact if fact.stage == "checkpoint_committed" and fact.job in self._live:
                self._live[fact.job].work.save()
                self._live[fact.job].saved = True
            case decisions.PreemptionRequested() as decision:
                self._since.setdefault(("selection", "", decision.selection), record.time)
            case facts.ProposalReceived() as fact:
                self._measure("selection", "", fact.selection, record.time)
            case decisions.JobPlaced() as decision if not decision.reserved:
                self._since["start", decision.job, decision.attempt] = record.time
            case decisions.JobStarting() as decision:
                self._since["start", decision.job, decision.attempt] = record.time
            case decisions.PreemptionDecided() as decision:
                for choice in decision.victims:
                    self._since["exit", choice.job, choice.attempt] = record.time
            case decisions.EvictionDecided() | decisions.MigrationDecided() as decision:
                self._since["exit", decision.job, decision.attempt] = record.time
            case facts.TaskStartRefused() as fact if fact.job in self._live:
                self._live[fact.job].refused.append((fact.attempt, fact.task))
                self._measure("start", fact.job, fact.attempt, record.time)
            case facts.TaskIdle() | facts.ShareExceeded() as fact if fact.job in self._live:
                self._task_report(self._live[fact.job], fact, record.time)
            case facts.TaskExited() as fact:
                self._exited(fact, record.time)
            case facts.TaskReleased() as fact:
                self._measure("release", fact.job, fact.attempt, record.time)

    def _exited(self, fact: facts.TaskExited, now: int) -> None:
        """Notes a task's exit; after an eviction also how long the exit and the save took."""
        seen, since = self._live.get(fact.job), self._since.get(("exit", fact.job, fact.attempt))
        if seen is not None and seen.first_exit is None:
            seen.first_exit = seen.work.lost + seen.work.done_by(now)
        if seen is not None and since is not None and seen.saved:
            seen.saves.append(now - since)
            seen.saved = False
        self._measure("exit", fact.job, fact.attempt, now)
        self._since["release", fact.job, fact.attempt] = now

    def _task_report(self, seen: JobObservation, fact: facts.TaskFact, now: int) -> None:
        if seen.work.attempt == fact.attempt:
            seen.reports.append(TimedReport(fact.attempt, now - seen.began, fact))
        else:
            seen.early_reports += 1

    def _measure(self, what: str, job: str, attempt: int, now: int) -> None:
        """Stores the delay since `_since` under the job's unique name. Of several tasks the last one counts."""
        since = self._since.pop((what, job, attempt), None)
        live = self._live.get(job)
        if since is not None and (live is not None or not job):
            self.took[what, live.name if live is not None else "", attempt] = now - since

    def _submitted(self, record: Record, fact: facts.JobSubmitted) -> None:
        demand = fact.demand
        times = self._names[demand.job] = self._names.get(demand.job, 0) + 1
        name = demand.job if times == 1 else f"{demand.job[:50].rstrip('-._')}.again-{times}"
        gpus = [gpu_milli_of(group) for group in demand.tasks for _ in range(group.count)]
        job = self.state.jobs[demand.job]
        seen = JobObservation(name, record.time, JobProgress(FOREVER, gpus), job.class_name)
        self.jobs[record.seq] = self._live[demand.job] = seen
        self.stats.submitted(name, record.time, demand.project or "", job.class_name, job.base_priority, sum(gpus), FOREVER)

    def _eviction_stage(self, job: Job | None, fact: facts.EvictionStageReached, now: int) -> None:
        """Stalls the job at the first eviction notice of its tasks, as in a simulation."""
        seen = self._live.get(fact.job)
        if job is None or seen is None or job.attempt != fact.attempt or job.eviction is None:
            return
        if any(task.noticed for task in job.tasks):
            return
        seen.evicted += 1
        if not seen.work.finished:
            seen.work.stall(now)

    def _saved(self, fact: facts.TaskProgressed, now: int) -> None:
        """Notes one of the job's own checkpoints: the work until then is safe."""
        seen = self._live.get(fact.job)
        if seen is None or seen.work.attempt != fact.attempt or not seen.work.running:
            return
        work = seen.work
        done = work.done_by(now) - fact.checkpoint_age * work.running // work.size
        if done > work.safe:
            work.safe = done
            seen.saved_at.append(done - work.base)

    def _update_job(self, job: Job, seen: JobObservation) -> None:
        """Updates progress and statistics as the simulation does."""
        work, now = seen.work, self.state.now
        allocated = sum([work.gpus_of(task.index) for task in job.tasks if task.state in ("running", "exited")])
        if allocated != work.allocated:
            self.stats.change_allocated(seen.name, now, allocated - work.allocated)
            work.allocated = allocated
        if seen.outcome is not None:
            if job.phase in ("succeeded", "failed", "cancelled"):
                self._live.pop(job.id, None)
            return
        if job.phase != "running" or work.finished:
            return
        members = sum(task.state == "running" for task in job.tasks)
        if work.attempt != job.attempt:
            self._measure("start", job.id, job.attempt, now)
            work.begin(now, job.attempt, members)
            seen.began = now
            self.stats.started(seen.name, now)
        elif members != work.running:
            work.resize(now, members)

    def finish(self) -> RunStats:
        """Returns the statistics, with lost and done work until now."""
        for seen in self.jobs.values():
            found = self.stats.jobs[seen.name]
            found.lost, found.work = seen.work.lost, seen.work.done_by(self.state.now)
        return self.stats
