"""Simulation engine: applies events to a pool in virtual time and runs the real core's decision cycles.

    result = Simulation(workload, policy).run()

Cycles are those of admission: facts are folded, then the core decides. All events of one instant are one cycle; what follows
without delay (a start, a proposal of victim selection, an eviction notice) is the next cycle at the same instant.
"""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from bailiff_core.decision_cycle import wake_at
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.records import decisions, facts
from bailiff_core.records.payload import Decision, Fact

from .agents import Agents
from .intake import Intake
from .job_progress import FOREVER, JobProgress, gpu_milli_of
from .outages import Outages
from .run_stats import Result, RunStats
from .simulated_log import REPORTS, REQUESTS, InputFact, SimulatedLog, Sink
from .timeline import NO_DELAYS, Delays, Timeline
from .workload import Outage, Workload

IDLE_WAKES = 1_000
PROGRESS_CYCLES = 500


class Simulation:
    """One run of a workload. Raises `ValueError` if the workload is inconsistent."""

    def __init__(
        self,
        workload: Workload,
        policy: Policy,
        *,
        delays: Delays = NO_DELAYS,
        until: int | None = None,
        sink: Sink | None = None,
        check: Callable[[PoolState], None] | None = None,
        pool: str = "sim",
    ) -> None:
        """until: end of the simulation, µs UTC. sink: gets every record. check: gets the state after each cycle."""
        self._workload, self._until, self._check = workload, until, check
        self._log = SimulatedLog(pool, policy, workload.begin, sink)
        self.state = self._log.state
        self._time = Timeline(workload.begin, delays)
        self._progress_by_job: dict[str, JobProgress] = {}
        self._agents = Agents(self.state, self._progress_by_job, self._time)
        self._outages = Outages(self.state, self._progress_by_job, self._time, workload.nodes)
        self._intake = Intake(self.state)
        self._stats = RunStats()
        self._taken = self._cycles = 0

    def run(self, progress: Callable[[int, int], None] | None = None) -> Result:
        """Runs until no event is left. progress: called every few hundred cycles with the events taken and their total."""
        with _rare_collections():
            return self._run(progress)

    def _run(self, progress: Callable[[int, int], None] | None) -> Result:
        events = self._workload.events
        self._cycle((self._intake.take(node), REPORTS) for node in self._workload.nodes)
        idle, reported = 0, 0
        while (moment := self._next()) is not None and (self._until is None or moment <= self._until):
            self._time.now = max(self._time.now, moment)
            idle = 0 if self._time.events or self._taken < len(events) or self.state.active else idle + 1
            if idle > IDLE_WAKES:
                break  # what is pending now can never start
            self._cycle(self._instant())
            if progress is not None and self._cycles - reported >= PROGRESS_CYCLES:
                reported = self._cycles
                progress(self._taken, len(events))
        if progress is not None:
            progress(self._taken, len(events))
        log, stats = self._log, self._stats
        for name, work in self._progress_by_job.items():
            found = stats.jobs[name]
            found.lost, found.overhead, found.work = work.lost, work.overhead, work.done_by(self._time.now)
        return Result(stats, self._intake.refused, self._workload.begin, self._time.now, log.digest, log.records, self._cycles)

    def _next(self) -> int | None:
        moments = []
        if self._taken < len(self._workload.events):
            moments.append(self._workload.events[self._taken].time)
        if self._time.events:
            moments.append(self._time.events[0][0])
        wake = wake_at(self.state)
        if wake is not None:
            moments.append(wake)
        return min(moments, default=None)

    def _instant(self) -> Iterator[InputFact]:
        """Yields the facts of this instant: scheduled events, then exogenous ones; `ClockAdvanced` if there are none."""
        seq, events = self.state.seq, self._workload.events
        yield from self._time.due()
        while self._taken < len(events) and events[self._taken].time <= self._time.now:
            event = events[self._taken].event
            self._taken += 1
            if isinstance(event, Outage):
                self._outages.fails(event)
            else:
                yield self._exogenous(event)
        if self.state.seq == seq:
            yield facts.ClockAdvanced(), ""

    def _cycle(self, inputs: Iterable[InputFact]) -> None:
        """Runs one decision cycle and those that follow at the same instant."""
        while (done := self._log.cycle(self._time.now, inputs)) is not None:
            self._cycles += 1
            self._follow(*done)
            if self._check is not None:
                self._check(self.state)
            inputs = self._agents.due_reports()

    def _exogenous(self, event: Fact) -> InputFact:
        fact = self._intake.take(event)
        if isinstance(fact, facts.NodeJoined):
            self._outages.announced(fact)
        if isinstance(fact, facts.JobSubmitted) and isinstance(event, facts.JobSubmitted):
            demand = fact.demand
            outcome = self._workload.outcomes.get(demand.job, FOREVER)
            gpus = [gpu_milli_of(group) for group in demand.tasks for _ in range(group.count)]
            self._progress_by_job[demand.job] = JobProgress(outcome, gpus)
            entry = self.state.rules.find_class(demand.priority_class)
            assert entry is not None
            project = event.demand.project or ""
            self._stats.submitted(demand.job, self._time.now, project, entry.name, entry.value, sum(gpus), outcome)
        return fact, REPORTS if fact.type_name() in REPORTED else REQUESTS

    # --- progress and statistics

    def _follow(self, touched: list[str], decided: list[Decision]) -> None:
        """Updates job progress and statistics after a decision cycle."""
        for decision in decided:
            if isinstance(decision, decisions.JobRequeued):
                self._progress_by_job[decision.job].attempt_over(self._time.now)
                self._stats.requeued(decision.job, self._time.now, decision.cause, decision.outcome)
            elif isinstance(decision, decisions.JobEnded):
                work = self._progress_by_job[decision.job]
                work.ended(self._time.now, in_vain=decision.outcome in ("evicted", "timed-out"))
                self._stats.ended(decision.job, self._time.now, decision.outcome)
        for name in touched:
            found, job = self._progress_by_job.get(name), self.state.jobs.get(name)
            if found is not None and job is not None:
                self._update_job(job, found)

    def _update_job(self, job: Job, work: JobProgress) -> None:
        allocated = sum([work.gpus_of(task.index) for task in job.tasks if task.state in ("running", "exited")])
        if allocated != work.allocated:
            self._stats.change_allocated(job.id, self._time.now, allocated - work.allocated)
            work.allocated = allocated
        if job.phase != "running" or work.finished:
            return
        members = self._working(job)
        if work.attempt != job.attempt:
            work.begin(self._time.now, job.attempt, members)
            self._stats.started(job.id, self._time.now)
            self._agents.schedule_reports(job, work)
            self._agents.schedule_end(job, work)
        elif members != work.running:
            work.resize(self._time.now, members)
            self._agents.schedule_end(job, work)

    def _working(self, job: Job) -> int:
        """Number of tasks that work; 0 if one of the gang's tasks is on a machine that is down."""
        running: list[Task] = [task for task in job.tasks if task.state == "running"]
        return 0 if self._outages.any_down(running) else len(running)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Raises the garbage collector's thresholds: nearly all objects live as long as the run, so collections find little."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 1_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)


REPORTED = {kind.type_name() for kind in (facts.NodeJoined, facts.NodeUnreachable, facts.NodeReachable, facts.NodeLost)}
