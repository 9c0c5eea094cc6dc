"""Baseline schedulers that no policy can express, with the same jobs, costs and statistics as the engine.

They schedule GPUs only, without CPUs and memory. A GPU share is an amount of its machine's GPUs, not of one device.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from bailiff_core.model.policy import Policy, PriorityClass
from bailiff_core.records.facts import JobSubmitted

from .job_progress import FOREVER, JobProgress, gpu_milli_of
from .run_stats import Result, RunStats
from .workload import Workload

Key = tuple[int, ...]


@dataclass(slots=True)
class Job:
    """One job.

    Attributes:
        needs: Thousandths of a GPU per task, descending.
        nodes: Index of each task's machine; empty while pending.
        evicting: It was preempted and has not exited yet.
    """

    name: str
    number: int
    submitted: int
    priority_class: PriorityClass
    needs: list[int]
    work: JobProgress
    nodes: list[int]
    started: int = 0
    evicting: bool = False
    attempts: int = 0


@dataclass(frozen=True)
class Rule:
    """A scheduling rule.

    Attributes:
        order: Queue order, ascending.
        strict: Strict FIFO; no job passes one that does not fit.
        may_preempt: Whether a pending job may preempt a running one; None: no preemption.
        victim_order: Victims are taken in descending order until the job fits.
    """

    order: Callable[[Job, int], Key]
    strict: bool = False
    may_preempt: Callable[[Job, Job, int], bool] | None = None
    victim_order: Callable[[Job, int], Key] = lambda job, _now: (job.started, job.number)


def remaining(job: Job, now: int) -> int:
    """Remaining work, µs; an oracle, since no scheduler knows it."""
    return job.work.outcome.run_time - job.work.done_by(now)


def _lower_class(preemptor: Job, victim: Job, _now: int) -> bool:
    able = preemptor.priority_class.preemption_policy == "PreemptLowerPriority" and victim.priority_class.preemptible
    return able and victim.priority_class.value < preemptor.priority_class.value


RULES: dict[str, Rule] = {
    "fifo": Rule(lambda job, _now: (job.number,), strict=True),
    "youngest-first": Rule(lambda job, _now: (-job.priority_class.value, job.number), may_preempt=_lower_class),
    "shortest-remaining": Rule(
        lambda job, now: (remaining(job, now), job.number),
        may_preempt=lambda preemptor, victim, now: remaining(victim, now) > remaining(preemptor, now),
        victim_order=lambda job, now: (remaining(job, now), job.number),
    ),
}
DESCRIPTIONS = {
    "fifo": "first come, first served; no job passes the head of the queue",
    "priority": "Bailiff's engine by priority and age, without preemption",
    "youngest-first": "higher classes preempt lower ones, the youngest first, until the job fits, as most schedulers do",
    "shortest-remaining": "an oracle: the job with the least remaining work goes first and preempts those with the most",
}


class Baseline:
    """One run of a rule over a workload. Machines do not fail. policy: has the priority classes of the jobs."""

    def __init__(self, workload: Workload, policy: Policy, rule: Rule) -> None:
        self._workload, self._policy, self._rule = workload, policy, rule
        self._free = [1000 * len(node.devices) for node in workload.nodes]
        self._capacity = sorted(self._free, reverse=True)
        self._pending: list[Job] = []
        self._running: dict[str, Job] = {}
        self._progress_by_job: dict[str, JobProgress] = {}
        self._preemptor = ""
        self._exits: list[tuple[int, int, Job, int]] = []
        self._order = 0
        self._now = workload.begin
        self._last_exit = workload.begin
        self._stats = RunStats()
        self._refused: dict[str, str] = {}

    def run(self, progress: Callable[[int, int], None] | None = None) -> Result:
        """Runs until every job has ended or can never start."""
        arrivals = self._workload.events
        taken = 0
        while taken < len(arrivals) or self._exits:
            moments = [arrivals[taken].time] if taken < len(arrivals) else []
            moments += [self._exits[0][0]] if self._exits else []
            self._now = max(self._now, min(moments))
            while self._exits and self._exits[0][0] <= self._now:
                _, _, job, version = heappop(self._exits)
                self._exited(job, version)
            while taken < len(arrivals) and arrivals[taken].time <= self._now:
                event = arrivals[taken].event
                taken += 1
                if isinstance(event, JobSubmitted):
                    self._submitted(event, taken)
            self._place()
            if progress is not None and taken % 500 == 0:
                progress(taken, len(arrivals))
        for name, found in self._stats.jobs.items():
            work = self._progress_by_job[name]
            found.lost, found.overhead, found.work = work.lost, work.overhead, work.done_by(self._now)
        return Result(self._stats, self._refused, self._workload.begin, self._last_exit)

    def _submitted(self, fact: JobSubmitted, number: int) -> None:
        demand = fact.demand
        needs = [gpu_milli_of(group) for group in demand.tasks for _ in range(group.count)]
        priority_class = self._policy.find_class(demand.priority_class)
        assert priority_class is not None
        if not self._find_nodes(needs, list(self._capacity)):
            self._refused[demand.job] = f"it requests {sum(needs) // 1000} GPUs in {len(needs)} tasks, more than the cluster has"
            return
        outcome = self._workload.outcomes.get(demand.job, FOREVER)
        work = self._progress_by_job[demand.job] = JobProgress(outcome, needs)
        self._stats.submitted(
            demand.job, self._now, demand.project or "", priority_class.name, priority_class.value, sum(needs), outcome
        )
        self._pending.append(Job(demand.job, number, self._now, priority_class, sorted(needs, reverse=True), work, []))

    def _exited(self, job: Job, version: int) -> None:
        if job.work.version != version:
            return
        for node, need in zip(job.nodes, job.needs, strict=True):
            self._free[node] += need
        self._stats.change_allocated(job.name, self._now, -sum(job.needs))
        job.nodes = []
        del self._running[job.name]
        self._last_exit = self._now
        if job.evicting:
            job.evicting = False
            job.work.attempt_over(self._now)
            self._stats.requeued(job.name, self._now, "preemption", "preempted")
            self._pending.append(job)
        else:
            job.work.finish(self._now)
            self._stats.ended(job.name, self._now, job.work.outcome.end)

    def _place(self) -> None:
        """Starts pending jobs, in queue order, on free GPUs; preempts for the first that does not fit, if allowed."""
        if not self._pending:
            return
        failed: set[tuple[int, ...]] = set()
        self._pending.sort(key=lambda job: self._rule.order(job, self._now))
        pending: list[Job] = []
        releasing = any(each.evicting for each in self._running.values())
        for at, job in enumerate(self._pending):
            shape = tuple(job.needs)
            place = None if shape in failed else self._find_nodes(job.needs, self._free)
            if place is not None:
                self._start(job, place)
                continue
            failed.add(shape)
            if not releasing and self._rule.may_preempt is not None and self._preempt(job):
                self._preemptor, releasing = job.name, True
            if self._rule.strict or (releasing and job.name == self._preemptor):
                pending += self._pending[at:]
                break  # no job passes the head, or takes GPUs that are released for the preemptor
            pending.append(job)
        self._pending = pending

    def _preempt(self, preemptor: Job) -> bool:
        """Evicts victims in the rule's order until the job fits. Returns False, without evictions, if it never fits.

        There is one preemptor at a time.
        """
        assert self._rule.may_preempt is not None
        may_preempt, victim_order = self._rule.may_preempt, self._rule.victim_order
        able = [job for job in self._running.values() if may_preempt(preemptor, job, self._now)]
        free = list(self._free)
        chosen: list[Job] = []
        for victim in sorted(able, key=lambda job: victim_order(job, self._now), reverse=True):
            for node, need in zip(victim.nodes, victim.needs, strict=True):
                free[node] += need
            chosen.append(victim)
            if self._find_nodes(preemptor.needs, free) is not None:
                for each in chosen:
                    self._evict(each)
                return True
        return False

    def _evict(self, job: Job) -> None:
        work, grace = job.work, self._grace(job)
        work.stall(self._now)
        save_time = work.outcome.save_time
        if save_time is not None and save_time <= grace:
            work.save()
        job.evicting = True
        self._exit_at(self._now + (0 if save_time is None else min(save_time, grace)), job)

    def _grace(self, job: Job) -> int:
        return job.priority_class.grace if job.priority_class.grace is not None else self._policy.eviction.grace

    def _start(self, job: Job, place: Sequence[int]) -> None:
        job.nodes, job.started = list(place), self._now
        for node, need in zip(place, job.needs, strict=True):
            self._free[node] -= need
        job.attempts += 1
        job.work.begin(self._now, job.attempts, len(job.needs))
        self._running[job.name] = job
        self._stats.change_allocated(job.name, self._now, sum(job.needs))
        self._stats.started(job.name, self._now)
        end = job.work.ends_at()
        if end is not None and end < 1 << 61:
            self._exit_at(end, job)

    def _exit_at(self, time: int, job: Job) -> None:
        self._order += 1
        heappush(self._exits, (time, self._order, job, job.work.version))

    def _find_nodes(self, needs: Iterable[int], free: Sequence[int]) -> list[int] | None:
        """Best fit: the machine of each task, or None if a task does not fit."""
        free = list(free)
        found: list[int] = []
        for need in needs:
            best = -1
            for node, amount in enumerate(free):
                if amount >= need and (best < 0 or amount < free[best]):
                    best = node
                    if amount == need:
                        break
            if best < 0:
                return None
            free[best] -= need
            found.append(best)
        return found
