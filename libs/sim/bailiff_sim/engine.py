"""Simulation engine: applies events to a pool in virtual time and runs the real core's decision cycles.

    result = Simulation(workload, policy).run()

Every turn is one of admission's: facts folded, then everything that the core decides. All that happens at one instant is one
turn; what follows from it without delay (a start, an answer of victim selection, a notice) is the next one at the same instant.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bailiff_core.decision_cycle import wake_at
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.records import decisions, facts
from bailiff_core.records.payload import Decision, Fact

from .agents import Agents
from .intake import Intake
from .job_progress import FOREVER, JobProgress, gpu_milli_of
from .outages import Outages
from .run_stats import JobStats, RunStats
from .simulated_log import REPORTS, REQUESTS, Given, SimulatedLog, Sink
from .timeline import AT_ONCE, Delays, Timeline
from .workload import Outage, Workload

IDLE_WAKES = 1_000
TOLD_EVERY = 500


@dataclass
class Result:
    """What came of a workload under a policy.

    jobs: figures of every accepted job, by name. refused: jobs that were not accepted, and why. digest: hash of the last
    record, which covers all before it. begin, end: µs UTC. capacity: of the workload.
    """

    policy: Policy
    jobs: dict[str, JobStats]
    stats: RunStats
    refused: dict[str, str]
    begin: int
    end: int
    digest: str
    records: int
    cycles: int
    capacity: Sequence[tuple[int, int]]


class Simulation:
    """One run of a workload. Raises `ValueError` where the workload contradicts itself."""

    def __init__(
        self,
        workload: Workload,
        policy: Policy,
        *,
        delays: Delays = AT_ONCE,
        until: int | None = None,
        sink: Sink | None = None,
        check: Callable[[PoolState], None] | None = None,
        pool: str = "sim",
    ) -> None:
        """until: nothing later is simulated, µs UTC. sink: gets every record and its bytes. check: sees the pool after turns."""
        self._workload, self._policy, self._until, self._check = workload, policy, until, check
        self._tape = SimulatedLog(pool, policy, workload.begin, sink)
        self.state = self._tape.state
        self._time = Timeline(workload.begin, delays)
        self._works: dict[str, JobProgress] = {}
        self._agents = Agents(self.state, self._works, self._time)
        self._outages = Outages(self.state, self._works, self._time, workload.nodes)
        self._intake = Intake(self.state)
        self._books = RunStats()
        self._taken = self._turns = 0

    def run(self, progress: Callable[[int, int], None] | None = None) -> Result:
        """Until nothing is left to happen. progress: told now and then how many happenings are over, of how many."""
        with _few_collections():
            return self._run(progress)

    def _run(self, progress: Callable[[int, int], None] | None) -> Result:
        happenings = self._workload.happenings
        self._cycle((self._intake.take(node), REPORTS) for node in self._workload.nodes)
        idle, told = 0, 0
        while (moment := self._next()) is not None and (self._until is None or moment <= self._until):
            self._time.now = max(self._time.now, moment)
            idle = 0 if self._time.events or self._taken < len(happenings) or self.state.active else idle + 1
            if idle > IDLE_WAKES:
                break  # who waits now waits for ever
            self._cycle(self._instant())
            if progress is not None and self._turns - told >= TOLD_EVERY:
                told = self._turns
                progress(self._taken, len(happenings))
        if progress is not None:
            progress(self._taken, len(happenings))
        tape, stats = self._tape, self._books
        for name, work in self._works.items():
            found = stats.jobs[name]
            found.lost, found.overhead, found.work = work.lost, work.overhead, work.done_by(self._time.now)
        return Result(
            self._policy, stats.jobs, stats, self._intake.refused, self._workload.begin, self._time.now,
            tape.digest, tape.records, self._turns, self._workload.capacity(),
        )  # fmt: skip

    def _next(self) -> int | None:
        moments = []
        if self._taken < len(self._workload.happenings):
            moments.append(self._workload.happenings[self._taken].time)
        if self._time.events:
            moments.append(self._time.events[0][0])
        wake = wake_at(self.state)
        if wake is not None:
            moments.append(wake)
        return min(moments, default=None)

    def _instant(self) -> Iterator[Given]:
        """What happens now: what was put down for this moment, what comes from outside, or else only time."""
        seq, happenings = self.state.seq, self._workload.happenings
        yield from self._time.due()
        while self._taken < len(happenings) and happenings[self._taken].time <= self._time.now:
            what = happenings[self._taken].what
            self._taken += 1
            if isinstance(what, Outage):
                self._outages.fails(what)
            else:
                yield self._exogenous(what)
        if self.state.seq == seq:
            yield facts.ClockAdvanced(), ""

    def _cycle(self, given: Iterable[Given]) -> None:
        """One turn, and those that follow from it at the same instant."""
        while (done := self._tape.cycle(self._time.now, given)) is not None:
            self._turns += 1
            self._follow(*done)
            if self._check is not None:
                self._check(self.state)
            given = self._agents.due_reports()

    def _exogenous(self, what: Fact) -> Given:
        fact = self._intake.take(what)
        if isinstance(fact, facts.NodeJoined):
            self._outages.announced(fact)
        if isinstance(fact, facts.JobSubmitted) and isinstance(what, facts.JobSubmitted):
            demand = fact.demand
            outcome = self._workload.outcomes.get(demand.job, FOREVER)
            gpus = [gpu_milli_of(group) for group in demand.tasks for _ in range(group.count)]
            self._works[demand.job] = JobProgress(outcome, gpus)
            entry = self.state.rules.find_class(demand.priority_class)
            assert entry is not None
            project = what.demand.project or ""
            self._books.submitted(demand.job, self._time.now, project, entry.name, entry.value, sum(gpus), outcome)
        return fact, REPORTS if fact.type_name() in REPORTED else REQUESTS

    # --- what came of it

    def _follow(self, touched: list[str], said: list[Decision]) -> None:
        """Bring works and books up to date with a turn."""
        for decision in said:
            if isinstance(decision, decisions.JobRequeued):
                self._works[decision.job].attempt_over(self._time.now)
                self._books.requeued(decision.job, self._time.now, decision.cause, decision.outcome)
            elif isinstance(decision, decisions.JobEnded):
                work = self._works[decision.job]
                work.ended(self._time.now, in_vain=decision.outcome in ("evicted", "timed-out"))
                self._books.ended(decision.job, self._time.now, decision.outcome)
        for name in touched:
            found, job = self._works.get(name), self.state.jobs.get(name)
            if found is not None and job is not None:
                self._update_job(job, found)

    def _update_job(self, job: Job, work: JobProgress) -> None:
        held = sum([work.gpus_of(task.index) for task in job.tasks if task.state in ("running", "exited")])
        if held != work.held:
            self._books.holds(job.id, self._time.now, held - work.held)
            work.held = held
        if job.phase != "running" or work.finished:
            return
        members = self._working(job)
        if work.attempt != job.attempt:
            work.begin(self._time.now, job.attempt, members)
            self._books.started(job.id, self._time.now)
            self._agents.schedule_reports(job, work)
            self._agents.schedule_end(job, work)
        elif members != work.running:
            work.resize(self._time.now, members)
            self._agents.schedule_end(job, work)

    def _working(self, job: Job) -> int:
        """How many members work: none of a gang that has one on a machine that is down."""
        here: list[Task] = [task for task in job.tasks if task.state == "running"]
        return 0 if self._outages.any_down(here) else len(here)


@contextmanager
def _few_collections() -> Iterator[None]:
    """Nearly all that a run makes lives as long as the run: to look for garbage again and again costs time."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 1_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)


REPORTED = {kind.type_name() for kind in (facts.NodeJoined, facts.NodeUnreachable, facts.NodeReachable, facts.NodeLost)}
