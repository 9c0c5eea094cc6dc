"""What each record adds to the figures: asked after the record was folded, with what was known of its jobs before."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from bailiff_bus.log import Entry
from bailiff_core.explain.said import jobs_of
from bailiff_core.model.amounts import UNLIMITED
from bailiff_core.model.loss import held_gpu_milli
from bailiff_core.model.pool import Job, Pool
from bailiff_core.protections import start_within
from bailiff_core.queue.order import shares_now
from bailiff_core.queue.tree import Tree
from bailiff_core.records import Record, decisions, facts
from bailiff_core.scene import scene_of

from .figures import Entitled, Figures, Told
from .spread import bucket_of
from .sums import LENGTHS

# By what right a verb displaces: what stands in the label `rule` of an eviction for somebody else's sake.
RIGHTS = {"preempt": "priority", "reclaim": "quota", "consolidate": "compaction"}
HOLDS = ("starting", "running", "exited")  # states of a task whose GPUs nobody else can have
START_LIMITS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400)  # seconds, of Prometheus' buckets
MILLISECOND, SECOND, MINUTE = 1_000, 1_000_000, 60_000_000


@dataclass(slots=True)
class Known:
    """A job as it was after the record before. gpu_milli: in use; idle: of those, by tasks whose GPUs do nothing, as their

    agents see; whole: of all members that have a place.
    """

    waits_in: str = ""
    projects: tuple[str, ...] = ()
    gpu_milli: int = 0
    idle: int = 0
    whole: int = 0
    last_start: int | None = None
    started: bool = False


UNKNOWN = Known()


@dataclass
class Counting:
    """Counts the records of one domain that are not in `figures` yet. tell: is handed each window that has something to say."""

    figures: Figures
    tell: Callable[[Told], None]
    jobs: dict[str, Known] = field(default_factory=dict)
    available: int = 0
    _tree: Tree = field(default_factory=Tree)

    def look(self, pool: Pool) -> None:
        """Begin here: the pool is as of the last record that is counted already."""
        self.figures.levels.clear()
        self.jobs.clear()
        self.available = 0
        self._tree = Tree(pool.policy.projects if pool.policy is not None else ())
        for name in pool.jobs:
            self._know(pool, name)
        self._nodes(pool)
        for project, entitled in self.figures.sample.items():
            self.figures.level("entitled", project, change=entitled.share)

    def count(self, pool: Pool, entry: Entry) -> None:
        """Count this record, which the pool has just folded."""
        record, figures = entry.record, self.figures
        data = record.data
        stepped = data.by if isinstance(data, facts.ClockStepped) else 0
        for told in figures.advance(record.time, stepped):
            self.tell(told)
        self._event(pool, record)
        if isinstance(data, facts.PolicyApplied):
            self._tree = Tree(pool.rules.projects)
            for name in list(self.jobs):
                self._know(pool, name)
        for name in jobs_of(record):
            self._know(pool, name)
        if data is not None and "node" in type(data).model_fields and "task" not in type(data).model_fields:
            self._nodes(pool)
        if record.turn_end and record.time // MINUTE > figures.looked and pool.policy is not None:
            self._entitle(pool)
            figures.looked = record.time // MINUTE
        figures.next_seq, figures.hash = record.seq + 1, entry.hash

    def path_of(self, pool: Pool, job: str) -> tuple[str, ...]:
        """The job's project and all above it; the pool alone where the job is not known (any more)."""
        found = pool.jobs.get(job)
        return self._tree.branches[self._tree.leaf_of(found.project)].path if found is not None else ("",)

    def _event(self, pool: Pool, record: Record) -> None:
        figures, data = self.figures, record.data
        match data:
            case facts.JobSubmitted():
                figures.add("submitted", pool.jobs[data.demand.job].class_name)
            case facts.TaskStarted():
                self._started(pool, pool.jobs[data.job])
            case decisions.PreemptionDecided():
                for victim in data.victims:
                    if not victim.reserved:
                        figures.add("evictions", data.verb, RIGHTS.get(data.verb, data.verb))
                        self._again(pool.jobs[victim.job], record.time)
            case decisions.EvictionDecided():
                figures.add("evictions", "evict", data.cause)
            case decisions.MigrationDecided():
                figures.add("evictions", "migrate", data.cause)
            case decisions.EvictionWithdrawn():
                figures.add("withdrawn")
            case decisions.JobRequeued():
                self._lost(pool, data, record.time)
            case decisions.JobShrunk():
                figures.add("lost", data.cause if data.outcome.startswith("preempted") else data.outcome, amount=data.lost_gpu_ms)
            case _:
                pass

    def _started(self, pool: Pool, job: Job) -> None:
        if job.first_wait is None or self.jobs.get(job.id, UNKNOWN).started:
            return
        milliseconds, name = job.first_wait // MILLISECOND, job.class_name
        self.figures.add("started", name, str(bucket_of(milliseconds)))
        self.figures.add("start-ms", name, amount=milliseconds)
        within = next((at for at in START_LIMITS if job.first_wait <= at * SECOND), None)
        self.figures.add("started-within", name, "+Inf" if within is None else str(within))
        entry = pool.rules.find_class(name)
        for percent, time in start_within.promises(entry) if entry is not None else ():
            self.figures.add("late", name, str(percent), amount=int(job.first_wait > time))

    def _again(self, job: Job, now: int) -> None:
        for name, length in LENGTHS.items():
            if job.last_eviction is not None and now - job.last_eviction < length:
                self.figures.add_to_window(name, "again")

    def _lost(self, pool: Pool, data: decisions.JobRequeued, now: int) -> None:
        """Saved is what it would have lost without a checkpoint, counted as `model.loss` does, less what it has lost."""
        evicted = data.outcome.startswith("preempted")
        self.figures.add("lost", data.cause if evicted else data.outcome, amount=data.lost_gpu_ms)
        known = self.jobs.get(data.job, UNKNOWN)
        if evicted and known.last_start is not None:
            rules = pool.rules.preemption
            held = min(max(0, now - known.last_start), rules.max_counted_loss)
            without = known.whole * (held + rules.restart_cost) // 1_000_000
            self.figures.add("saved", amount=max(0, without - data.lost_gpu_ms))

    def _know(self, pool: Pool, name: str) -> None:
        """Bring the levels to what the job is now."""
        before, job = self.jobs.pop(name, UNKNOWN), pool.jobs.get(name)
        now = UNKNOWN if job is None or job.ended_at is not None else self._known(pool, job)
        if now is not UNKNOWN:
            self.jobs[name] = now
        for known, sign in ((before, -1), (now, 1)):
            if known.waits_in:
                self.figures.level("waiting", known.waits_in, change=sign)
            for project in known.projects if known.gpu_milli else ():
                self.figures.level("used", project, change=sign * known.gpu_milli)
                self.figures.level("idle", project, change=sign * known.idle)

    def _known(self, pool: Pool, job: Job) -> Known:
        tree = self._tree
        holding = [task for task in job.tasks if task.state in HOLDS]
        idle = [task for task in holding if task.idle_since is not None]
        return Known(
            waits_in=job.class_name if job.phase in ("pending", "reserved") else "",
            projects=tree.branches[tree.leaf_of(job.project)].path,
            gpu_milli=held_gpu_milli(pool, job, holding) if holding else 0,
            idle=held_gpu_milli(pool, job, idle) if idle else 0,
            whole=held_gpu_milli(pool, job, job.tasks) if job.tasks else 0,
            last_start=job.last_start,
            started=job.first_wait is not None,
        )

    def _nodes(self, pool: Pool) -> None:
        usable = sum(
            (node.capacity.devices & ~node.quarantined).bit_count() for node in pool.nodes.values() if node.state != "lost"
        )
        self.figures.level("available", change=1000 * usable - self.available)
        self.available = 1000 * usable

    def _entitle(self, pool: Pool) -> None:
        """Look at what each project may have now. Once in a minute of log time: fair shares of all are some work."""
        figures = self.figures
        for project, entitled in figures.sample.items():
            figures.level("entitled", project, change=-entitled.share)
        figures.sample = entitlements(pool)
        for project, entitled in figures.sample.items():
            figures.level("entitled", project, change=entitled.share)


def entitlements(pool: Pool) -> dict[str, Entitled]:
    """What each project may have now, and wants. The pool is between two turns, and has a policy."""
    scene = scene_of(pool)
    shares = shares_now(scene)
    return {
        name: Entitled(
            _bound(branch.quota.gpu_milli), _bound(branch.limit.gpu_milli),
            int(shares[name].gpu_milli) if name in shares else 0, int(scene.usage.requested(name).gpu_milli),
        )
        for name, branch in scene.usage.tree.branches.items()
    }  # fmt: skip


def _bound(amount: int | Fraction) -> int | None:
    return None if amount == UNLIMITED else int(amount)
