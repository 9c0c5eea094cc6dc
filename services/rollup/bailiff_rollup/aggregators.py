"""Aggregates the records of one pool's log: each record after it is folded, with the job's levels before it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from bailiff_core.model.mig import usable_gpu_milli
from bailiff_core.model.project_tree import ProjectTree
from bailiff_core.model.resource_vector import UNLIMITED
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.work_lost import allocated_gpu_milli, counted_gpu_milli, loss_of_end
from bailiff_core.queue import start_slo
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.subjects import jobs_of
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_log.reader import Entry

from .aggregates import Aggregates, Entitlement, WindowSnapshot
from .eviction_times import Measured, measure
from .histogram import bucket_of
from .windowed_counters import LENGTHS

# Label `rule` of an eviction, by action.
EVICTION_RULES = {"preempt": "priority", "reclaim": "quota", "consolidate": "compaction"}
ALLOCATED_STATES = ("starting", "running", "exited")  # states of a task that has its GPUs allocated
START_LIMITS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400)  # bounds of Prometheus buckets, s
STAGE_LIMITS = (0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 7_200)
NODE_LIMITS = (1, 10, 60, 300)  # few, as there are many nodes
MOST_NODES = 1_000  # with times of their own; those of others are summed under the empty name
MILLISECOND, SECOND, MINUTE = 1_000, 1_000_000, 60_000_000


@dataclass(slots=True)
class JobLevels:
    """A job's levels after the previous record. gpu_milli: allocated; idle: by idle tasks.

    placed: of all placed tasks, as work lost counts them.
    """

    pending_class: str = ""
    projects: tuple[str, ...] = ()
    gpu_milli: int = 0
    idle: int = 0
    placed: int = 0
    last_start: int | None = None
    started: bool = False


NO_LEVELS = JobLevels()


@dataclass
class Aggregator:
    """Adds the records of one pool to `aggregates`. emit: called with each window to publish. available: usable GPUs, milli."""

    aggregates: Aggregates
    emit: Callable[[WindowSnapshot], None]
    jobs: dict[str, JobLevels] = field(default_factory=dict)
    available: int = 0
    _tree: ProjectTree = field(default_factory=ProjectTree)

    def reset_levels(self, state: PoolState) -> None:
        """Set all levels from the state after the last aggregated record."""
        self.aggregates.levels.clear()
        self.jobs.clear()
        self.available = 0
        self._tree = ProjectTree(state.policy.projects if state.policy is not None else ())
        for name in state.jobs:
            self._update_job(state, name)
        self._update_nodes(state)
        for project, entitlement in self.aggregates.sample.items():
            self.aggregates.level("entitled", project, change=entitlement.share)

    def count(self, state: PoolState, entry: Entry) -> None:
        """Aggregate this record. state: after it."""
        record, aggregates = entry.record, self.aggregates
        data = record.data
        stepped = data.jump if isinstance(data, facts.ClockStepped) else 0
        for snapshot in aggregates.advance(record.time, stepped):
            self.emit(snapshot)
        self._count_event(state, record)
        for stage in measure(aggregates.evictions, state, record):
            self._count_stage(state, stage)
        if isinstance(data, facts.PolicyApplied):
            self._tree = ProjectTree(state.rules.projects)
            for name in list(self.jobs):
                self._update_job(state, name)
        for name in jobs_of(record):
            self._update_job(state, name)
        if data is not None and "node" in type(data).model_fields and "task" not in type(data).model_fields:
            self._update_nodes(state)
        if record.cycle_end and record.time // MINUTE > aggregates.sample_minute and state.policy is not None:
            self._sample_entitlements(state)
            aggregates.sample_minute = record.time // MINUTE
        aggregates.next_seq, aggregates.hash = record.seq + 1, entry.hash

    def path_of(self, state: PoolState, job: str) -> tuple[str, ...]:
        """The job's project and its ancestors; only the pool if the job is unknown."""
        found = state.jobs.get(job)
        return self._tree.branches[self._tree.leaf_of(found.project)].path if found is not None else ("",)

    def _count_event(self, state: PoolState, record: Record) -> None:
        aggregates, data = self.aggregates, record.data
        match data:
            case facts.JobSubmitted():
                aggregates.add("submitted", state.jobs[data.demand.job].class_name)
            case facts.TaskStarted():
                self._count_start(state, state.jobs[data.job])
            case decisions.PreemptionDecided():
                aggregates.add("preemptions", data.action, EVICTION_RULES.get(data.action, data.action))
                for victim in data.new_victims:
                    if not victim.reserved:
                        aggregates.add("evictions", data.action, EVICTION_RULES.get(data.action, data.action))
                        self._count_repeat_eviction(state.jobs[victim.job], record.time)
            case decisions.EvictionDecided():
                aggregates.add("evictions", "evict", data.cause)
            case decisions.MigrationDecided():
                aggregates.add("evictions", "migrate", data.cause)
            case decisions.EvictionCancelled():
                aggregates.add("cancelled-evictions")
            case decisions.JobRequeued():
                self._count_work_lost(state, data, record.time)
            case decisions.JobShrunk():
                self._count_loss(state, data)
            case decisions.JobEnded(outcome="evicted"):
                self._count_loss(state, data)
            case _:
                pass

    def _count_start(self, state: PoolState, job: Job) -> None:
        if job.first_wait is None or self.jobs.get(job.id, NO_LEVELS).started:
            return
        milliseconds, name = job.first_wait // MILLISECOND, job.class_name
        self.aggregates.add("started", name, str(bucket_of(milliseconds)))
        self.aggregates.add_time("start", name, micros=job.first_wait, limits=START_LIMITS)
        entry = state.rules.find_class(name)
        for percent, time in start_slo.slo_targets(entry) if entry is not None else ():
            self.aggregates.add("late", name, str(percent), amount=int(job.first_wait > time))

    def _count_stage(self, state: PoolState, measured: Measured) -> None:
        aggregates, name = self.aggregates, state.jobs[measured.job].class_name
        aggregates.add_time("stage", measured.stage, name, micros=measured.micros, limits=STAGE_LIMITS)
        if measured.node:
            nodes = aggregates.evictions.setdefault("nodes", {})
            if measured.node not in nodes and len(nodes) < MOST_NODES:
                nodes[measured.node] = True
            node = measured.node if measured.node in nodes else ""
            aggregates.add_time("node-stage", measured.stage, node, micros=measured.micros, limits=NODE_LIMITS)

    def _count_repeat_eviction(self, job: Job, now: int) -> None:
        for name, length in LENGTHS.items():
            if job.last_eviction is not None and now - job.last_eviction < length:
                self.aggregates.add_to_window(name, "repeat-evictions")

    def _count_work_lost(self, state: PoolState, data: decisions.JobRequeued, now: int) -> None:
        """Count the work lost, and the work saved: the loss without a checkpoint (`model.work_lost`) less the actual loss."""
        work = self._count_loss(state, data)
        known = self.jobs.get(data.job, NO_LEVELS)
        if data.outcome.startswith("preempted") and known.last_start is not None:
            runtime = min(max(0, now - known.last_start), state.rules.preemption.max_counted_loss)
            self.aggregates.add("saved", amount=max(0, known.placed * runtime // 1_000_000 - work))

    def _count_loss(self, state: PoolState, data: decisions.JobRequeued | decisions.JobShrunk | decisions.JobEnded) -> int:
        """Count the work lost, which is returned, and the assumed cost of the restart."""
        loss = loss_of_end(state, data.job)
        cause = data.cause if data.outcome.startswith(("preempted", "evicted")) else data.outcome
        self.aggregates.add("lost", cause, amount=loss.work)
        self.aggregates.add("restart", cause, amount=loss.restart)
        return loss.work

    def _update_job(self, state: PoolState, name: str) -> None:
        """Update the levels to the job's current state."""
        before, job = self.jobs.pop(name, NO_LEVELS), state.jobs.get(name)
        now = NO_LEVELS if job is None or job.ended_at is not None else self._levels_of(state, job)
        if now is not NO_LEVELS:
            self.jobs[name] = now
        for levels, sign in ((before, -1), (now, 1)):
            if levels.pending_class:
                self.aggregates.level("pending", levels.pending_class, change=sign)
            for project in levels.projects if levels.gpu_milli else ():
                self.aggregates.level("used", project, change=sign * levels.gpu_milli)
                self.aggregates.level("idle", project, change=sign * levels.idle)

    def _levels_of(self, state: PoolState, job: Job) -> JobLevels:
        tree = self._tree
        allocated = [task for task in job.tasks if task.state in ALLOCATED_STATES]
        idle = [task for task in allocated if task.idle_since is not None]
        return JobLevels(
            pending_class=job.class_name if job.phase in ("pending", "reserved") else "",
            projects=tree.branches[tree.leaf_of(job.project)].path,
            gpu_milli=allocated_gpu_milli(state, job, allocated) if allocated else 0,
            idle=allocated_gpu_milli(state, job, idle) if idle else 0,
            placed=counted_gpu_milli(state, job, job.tasks) if job.tasks else 0,
            last_start=job.last_start,
            started=job.first_wait is not None,
        )

    def _update_nodes(self, state: PoolState) -> None:
        available = int(sum(usable_gpu_milli(node, state.policy) for node in state.nodes.values() if node.state != "lost"))
        self.aggregates.level("available", change=available - self.available)
        self.available = available

    def _sample_entitlements(self, state: PoolState) -> None:
        """Sample each project's entitlement. Once per minute of log time only, because fair shares are expensive to compute."""
        aggregates = self.aggregates
        for project, entitlement in aggregates.sample.items():
            aggregates.level("entitled", project, change=-entitlement.share)
        aggregates.sample = entitlements(state)
        for project, entitlement in aggregates.sample.items():
            aggregates.level("entitled", project, change=entitlement.share)


def entitlements(state: PoolState) -> dict[str, Entitlement]:
    """Each project's entitlement now, by name. Requires a policy and no open decision cycle."""
    usage = current_snapshot(state).usage
    return {
        name: Entitlement(
            _gpu_milli(branch.quota.gpu_milli),
            _gpu_milli(branch.limit.gpu_milli),
            int((usage.entitlements[name].share if name else usage.schedulable).gpu_milli),
            int(usage.requested(name).gpu_milli),
        )
        for name, branch in usage.tree.branches.items()
    }


def _gpu_milli(amount: int | Fraction) -> int | None:
    return None if amount == UNLIMITED else int(amount)
