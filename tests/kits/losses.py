"""Follows a log: what a decision says that a job loses, and what the record of its end says, must be the same to the millisecond.

Between the two the job runs on, or saves: that is all that may lie between the figures, and both are in the log.
"""

from collections import Counter
from dataclasses import dataclass

from bailiff_core.fold import apply
from bailiff_core.model.placement_ranges import numbers
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import allocated_tasks
from bailiff_core.model.work_lost import counted_gpu_milli
from bailiff_core.records import Record, decisions

Ending = decisions.JobRequeued | decisions.JobShrunk | decisions.JobEnded


@dataclass(frozen=True)
class Said:
    """What a decision said: `lost` GPU-ms, of so many thousandths of a GPU, if these tasks leave at once."""

    lost: int
    gpu_milli: int
    tasks: frozenset[int]
    at: int
    whole: bool
    for_good: bool


def _leaving(job: Job) -> set[int]:
    """The tasks that go if the whole job is evicted: those that are not leaving by an earlier decision."""
    return {task.index for task in allocated_tasks(job)} | {task.index for task in job.tasks if task.finished}


class Losses:
    """The state, and per job what the newest decision said. seen: what was compared, by kind. wrong: where they differ."""

    def __init__(self) -> None:
        self.state = PoolState()
        self.said: dict[tuple[str, int], Said | None] = {}
        self.seen: Counter[str] = Counter()
        self.wrong: list[str] = []

    def follow(self, record: Record) -> None:
        """The next record."""
        data, state = record.data, self.state
        if isinstance(data, Ending) and getattr(data, "outcome", "").startswith(("preempted", "evicted")):
            self._ends(record, data)
        leaving = {name: _leaving(job) for name, job in state.jobs.items() if job.tasks}  # as before the decision
        apply(state, record)
        match data:
            case decisions.PreemptionDecided():
                for choice in data.victims:
                    job = state.jobs[choice.job]
                    if not choice.reserved and job.tasks:
                        stops = set(numbers(choice.tasks)) if choice.tasks else leaving[choice.job]
                        self._says(job, choice.lost_gpu_ms, stops | set(numbers(choice.restarts)), choice.ends, not choice.tasks)
            case decisions.MigrationDecided():
                job = state.jobs[data.job]
                self._says(job, data.lost_gpu_ms, leaving[data.job], False, True)
            case decisions.EvictionDecided() | decisions.EvictionCancelled():
                self.said[data.job, data.attempt] = None  # the first says no loss; what the second leaves is not compared

    def _says(self, job: Job, lost: int, stops: set[int], for_good: bool, whole: bool) -> None:
        tasks = [task for task in job.tasks if task.index in stops and task.state != "reserved"]
        gpu_milli = counted_gpu_milli(self.state, job, tasks)
        key = job.id, job.attempt
        found = Said(lost, gpu_milli, frozenset(task.index for task in tasks), self.state.now, whole, for_good)
        expected = self._loss(job, found)
        if abs(lost - expected) > 1:
            self.wrong.append(f"#{self.state.seq}: {job.id} is said to lose {lost}, and loses {expected}")
        self.said[key] = None if key in self.said else found  # of two decisions about one attempt the second says less

    def _loss(self, job: Job, said: Said) -> int:
        """What is lost now, read from the job's start and checkpoint."""
        rules = self.state.rules.preemption
        since = max(job.last_start or 0, 0 if said.for_good else job.last_checkpoint or 0)
        lost_time = min(max(0, self.state.now - since), rules.max_counted_loss) if job.last_start is not None else 0
        return said.gpu_milli * (lost_time + (0 if said.for_good else rules.restart_cost)) // 1_000_000

    def _ends(self, record: Record, data: Ending) -> None:
        said, job = self.said.pop((data.job, data.attempt), None), self.state.jobs[data.job]
        started = frozenset(task.index for task in job.tasks if task.state != "reserved")
        left = frozenset(numbers(data.tasks)) if isinstance(data, decisions.JobShrunk) else started
        if said is None or said.tasks != left:
            return
        saved = said.at < (job.last_checkpoint or 0)
        before = (job.last_start or 0) < (job.last_checkpoint or 0)
        kind = "shrinks" if isinstance(data, decisions.JobShrunk) else "restarts to shrink" if not said.whole else "stops"
        self.seen.update([kind, *(["saved"] if before else []), *(["ends for good"] if said.for_good else [])])
        now, self.state.now = self.state.now, record.time
        expected = self._loss(job, said)
        if not saved and abs(said.lost + self._run_on(job, said) - expected) > 1:
            self.wrong.append(f"#{record.seq}: {job.id} was said to lose {said.lost}, and ran on for {record.time - said.at} µs")
        self.state.now = now
        if abs(data.lost_gpu_ms - expected) > 1:
            self.wrong.append(f"#{record.seq}: {job.id} lost {data.lost_gpu_ms}, but {expected} by its start and checkpoint")

    def _run_on(self, job: Job, said: Said) -> int:
        """What the job did since the decision, GPU-ms, as both figures round it."""
        now = self.state.now
        later = self._loss(job, said)
        self.state.now = said.at
        earlier = self._loss(job, said)
        self.state.now = now
        return later - earlier
