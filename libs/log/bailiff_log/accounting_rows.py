"""Accounting: GPUs used, borrowed and waited for by each job over time, work lost, and capacity, as rows derived from the log.

`usage_of` defines the figures as a function of the state alone. Rows follow it from decision cycle to decision cycle; all records
of a cycle have one time, so nothing within a cycle takes time. docs/how-to/accounting.md says what the figures mean.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bailiff_core.budgets.rows import row_named, rows_of
from bailiff_core.model.mig import mig_weights_of, usable_gpu_milli
from bailiff_core.model.policy import Policy
from bailiff_core.model.project_tree import tree_of
from bailiff_core.model.resource_vector import UNLIMITED
from bailiff_core.model.state import ENDED, Job, Node, PoolState
from bailiff_core.model.work_lost import allocated_by_model, gpus_of_end, loss_of_end
from bailiff_core.quota.counted_capacity import NO_DEVICE
from bailiff_core.quota.demand_vector import DeviceScale, by_bytes, of_job
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.subjects import jobs_of
from bailiff_core.records.wire import EPOCH_START, MICROSECOND

from .archive import without_nul
from .gpu_allocation_rows import IntervalRows, Key, Table, Values, position_of


class LostWork(NamedTuple):
    """A row of `lost_work`: thousandths of a GPU, also by model (JSON), and GPU-ms.

    Accounting's `lost`, wherever it is shown, is the `work_gpu_ms` of those whose cause is `preemption`, and `preemptions` their
    number.
    """

    attempt: int
    priority_class: str
    cause: str
    outcome: str
    gpu_milli: int
    gpu_models: str
    work_gpu_ms: int
    restart_gpu_ms: int


USAGE_COLUMNS = ("priority_class", "used_gpu_milli", "borrowed_gpu_milli", "waiting_gpu_milli", "gpu_models")
BUDGET_COLUMNS = (
    "project",
    "user_name",
    "priority_class",
    "counted_since",
    "gpu_hours",
    "topped_up",
    "transferred",
    "level",
    "used_gpu_milli",
)
JOB_USAGE = Table("job_usage", ("job", "submitted_seq"), USAGE_COLUMNS)
LOST_WORK = Table("lost_work", ("job", "submitted_seq"), LostWork._fields)
GPU_CAPACITY = Table("gpu_capacity", ("node",), ("gpu_milli",))
BUDGET_USAGE = Table("budget_usage", ("budget",), BUDGET_COLUMNS)
ACCOUNTING_TABLES = (JOB_USAGE, LOST_WORK, GPU_CAPACITY, BUDGET_USAGE)
CHANGES_ALL = (facts.PolicyApplied, facts.NodeJoined, facts.NodeLost)  # weights of MIG devices, sizes of GPUs, quotas


class JobGpus(NamedTuple):
    """GPUs of one job in thousandths. used: of tasks from the order to start until their release is proven. waiting: of the whole
    job while no task of it has GPUs and it is not paused. leaf: where the project tree counts it. order: of jobs that borrow, the
    last first. models: `used` by GPU model, as JSON. budgets: those that count it.
    """

    key: Key
    leaf: str
    order: tuple[int, int, int]
    priority_class: str
    used: int
    waiting: int
    models: str
    budgets: tuple[str, ...]


def gpus_of(state: PoolState, job: Job) -> JobGpus | None:
    """The job's GPUs now; None: it neither uses any nor waits for any."""
    if job.phase in ENDED:
        return None
    held = [task for task in job.tasks if task.state not in ("reserved", "released")]
    models = allocated_by_model(state, job, held)
    used = sum(models.values())
    waiting = 0 if held or job.phase not in ("pending", "reserved") else int(of_job(job, scale_of(state, job)).gpu_milli)
    if not used and not waiting:
        return None
    began = min((task.start_seq for task in held if task.start_seq is not None), default=0)
    leaf = tree_of(state).leaf_of(job.project)
    order = (int(job.preemptible), began, job.seq)
    budgets = tuple(row.name for row in rows_of(state, job))
    return JobGpus((job.id, job.seq), leaf, order, job.class_name, used, waiting, json_of(models), budgets)


def json_of(models: Mapping[str, int]) -> str:
    """GPUs by model as the tables have them."""
    return json.dumps({without_nul(model): amount for model, amount in models.items()})


def scale_of(state: PoolState, job: Job) -> DeviceScale:
    """What the job's requests in bytes count as: parts of the pool's smallest GPU; MIG devices: their weight."""
    memories: Iterable[int] = ()
    if by_bytes(job):
        memories = (device.memory_bytes for node in state.nodes.values() for device in node.devices if device.memory_bytes)
    return DeviceScale(min(memories, default=NO_DEVICE), mig_weights_of(state.policy))


def borrowed_of(state: PoolState, leaf: str, jobs: Iterable[JobGpus]) -> dict[Key, int]:
    """What each of the project's jobs borrows: the project's used GPUs above its quota, of those that started last.

    Jobs that are not preemptible borrow last.
    """
    branch = tree_of(state).branches.get(leaf)
    if branch is None or branch.quota.gpu_milli == UNLIMITED:
        return {}
    jobs = sorted(jobs, key=lambda each: each.order, reverse=True)
    above = sum(each.used for each in jobs) - int(branch.quota.gpu_milli)
    found: dict[Key, int] = {}
    for each in jobs:
        if above <= 0:
            break
        found[each.key] = min(above, each.used)
        above -= each.used
    return found


def usage_of(state: PoolState) -> dict[Key, Values]:
    """The rows of `job_usage` that hold in this state: class, and GPUs used, borrowed and waited for, by job and submission."""
    jobs = [found for job in state.jobs.values() if (found := gpus_of(state, job)) is not None]
    by_leaf: dict[str, list[JobGpus]] = {}
    for each in jobs:
        by_leaf.setdefault(each.leaf, []).append(each)
    borrowed = {key: amount for leaf, members in by_leaf.items() for key, amount in borrowed_of(state, leaf, members).items()}
    return {each.key: _values(each, borrowed.get(each.key, 0)) for each in jobs}


def capacity_of(node: Node, policy: Policy | None) -> int:
    """The node's healthy GPUs that are not quarantined, in thousandths; none of a lost node. Draining takes none away."""
    return 0 if node.state == "lost" else int(usable_gpu_milli(node, policy))


WITH_SNAPSHOT = (facts.TaskStarted, facts.TaskRestoreFailed, facts.ParkedTaskStageReached, decisions.SnapshotExpired)
"""Records that a snapshot is of no use, where they name a loss."""


def lost_work_of(state: PoolState, record: Record) -> tuple[Key, LostWork] | None:
    """The row of `lost_work` that this record gives. state: right after it."""
    data = record.data
    if isinstance(data, WITH_SNAPSHOT):
        return _lost_with_snapshot(state, data)
    if not isinstance(data, decisions.JobRequeued | decisions.JobShrunk | decisions.JobEnded):
        return None
    if isinstance(data, decisions.JobEnded) and data.outcome != "evicted":
        return None
    job = state.jobs[data.job]
    stopped, loss = gpus_of_end(state, job.id), loss_of_end(state, job.id)
    gpus = sum(stopped.values()), json_of(stopped)
    return (job.id, job.seq), LostWork(data.attempt, job.class_name, data.cause, data.outcome, *gpus, loss.work, loss.restart)


def _lost_with_snapshot(
    state: PoolState,
    data: facts.TaskStarted | facts.TaskRestoreFailed | facts.ParkedTaskStageReached | decisions.SnapshotExpired,
) -> tuple[Key, LostWork] | None:
    """The work that only a snapshot had which could not be restored, or had expired."""
    if not data.lost_gpu_ms:
        return None
    job = state.jobs[data.job]
    models = allocated_by_model(state, job, job.tasks)
    gpus = sum(models.values()), json_of(models)
    outcome = "expired" if isinstance(data, decisions.SnapshotExpired) else "not-restored"  # or lost while it was parked
    return (job.id, job.seq), LostWork(data.attempt, job.class_name, "restore", outcome, *gpus, data.lost_gpu_ms, 0)


def budget_of(state: PoolState, name: str) -> Values | None:
    """The row of `budget_usage` that holds in this state; None: the policy has no such budget."""
    row, use = row_named(state, name), state.budgets.get(name)
    if row is None or use is None:
        return None
    jobs = row.project, without_nul(row.user) if row.user is not None else None, row.priority_class
    counted_since = EPOCH_START + use.counted_since * MICROSECOND
    return *jobs, counted_since, row.gpu_hours, use.topped_up, use.transferred, use.level, use.held


@dataclass
class Accounting:
    """The accounting tables of one pool, as of the last cycle passed to `at`."""

    usage: IntervalRows = field(default_factory=lambda: IntervalRows(JOB_USAGE))
    lost: IntervalRows = field(default_factory=lambda: IntervalRows(LOST_WORK))
    capacity: IntervalRows = field(default_factory=lambda: IntervalRows(GPU_CAPACITY))
    budgets: IntervalRows = field(default_factory=lambda: IntervalRows(BUDGET_USAGE))
    _jobs: dict[str, JobGpus] = field(default_factory=dict, init=False)
    _leaves: dict[str, dict[str, None]] = field(default_factory=dict, init=False)
    _touched: dict[str, None] = field(default_factory=dict, init=False)
    _nodes: dict[str, None] = field(default_factory=dict, init=False)
    _all: bool = field(default=False, init=False)
    _budgets: dict[str, None] = field(default_factory=dict, init=False)

    def begin(self, state: PoolState) -> None:
        """Start from the state of a snapshot, which is at the end of a cycle and whose rows are stored."""
        self._all = True
        self._cycle(state, stored=True)

    def at(self, state: PoolState, record: Record, *, stored: bool) -> None:
        """Update the rows after this record. state: after the record. stored: the database has its changes already."""
        if record.seq == 0:  # the log is folded again from the start
            self.usage.open.clear()
            self.capacity.open.clear()
            self.budgets.open.clear()
            self._jobs.clear()
            self._leaves.clear()
        lost = lost_work_of(state, record)
        if lost is not None and not stored:
            self.lost.moment(*lost, position_of(state))
        self._touched |= jobs_of(record)
        self._all |= isinstance(record.data, CHANGES_ALL)
        if record.data is not None and record.data.NAME.startswith(("Node", "Device")):
            self._nodes[str(getattr(record.data, "node", None) or "")] = None
            self._budgets |= dict.fromkeys(state.budgets)  # parts of GPUs of other sizes
        if isinstance(record.data, decisions.BudgetLevelChanged | facts.BudgetToppedUp):
            self._budgets[record.data.budget] = None
        if isinstance(record.data, facts.BudgetTransferred):
            self._budgets |= {record.data.budget: None, record.data.to: None}
        if record.cycle_end:
            self._cycle(state, stored=stored)

    async def write(self, connection: Any, pool: int) -> None:
        """Write the changes since the last call. Call inside a transaction."""
        for rows in (self.usage, self.lost, self.capacity, self.budgets):
            await rows.write(connection, pool)

    def _cycle(self, state: PoolState, *, stored: bool) -> None:
        if self._all:
            self._touched = dict.fromkeys([*self._jobs, *state.jobs])
            self._nodes = dict.fromkeys(node.name for node in state.nodes.values())
            self._budgets = dict.fromkeys([*self.budgets.open, *state.budgets])
        leaves: dict[str, None] = {}
        for name in self._touched:
            leaves |= self._count(state, name)
        changed = dict(self._touched)
        borrowed: dict[Key, int] = {}
        for leaf in leaves:
            members = self._leaves.get(leaf, {})
            changed |= members
            borrowed |= borrowed_of(state, leaf, (self._jobs[name] for name in members))
        position = position_of(state)
        for name in changed:
            found = self._jobs.get(name)
            rows = {found.key: _values(found, borrowed.get(found.key, 0))} if found is not None else {}
            self.usage.update(name, rows, position, stored=stored)
        for name in self._nodes:
            number = state.node_numbers.get(name)
            gpus = capacity_of(state.nodes[number], state.policy) if number is not None else 0
            self.capacity.update(name, {(name,): (gpus,)} if gpus else {}, position, stored=stored)
        for name in self._budgets:
            budget = budget_of(state, name)
            self.budgets.update(name, {(name,): budget} if budget is not None else {}, position, stored=stored)
        self._touched, self._nodes, self._budgets, self._all = {}, {}, {}, False

    def _count(self, state: PoolState, name: str) -> dict[str, None]:
        """Count the job anew; returns the projects whose borrowed GPUs may be others, or whose jobs are."""
        job = state.jobs.get(name)
        before, now = self._jobs.pop(name, None), gpus_of(state, job) if job is not None else None
        self._budgets |= dict.fromkeys(budget for each in (before, now) if each is not None for budget in each.budgets)
        if before is not None:
            self._leaves[before.leaf].pop(name)
        if now is not None:
            self._jobs[name] = now
            self._leaves.setdefault(now.leaf, {})[name] = None
        return dict.fromkeys(each.leaf for each in (before, now) if each is not None)


def _values(gpus: JobGpus, borrowed: int) -> Values:
    return gpus.priority_class, gpus.used, borrowed, gpus.waiting, gpus.models
