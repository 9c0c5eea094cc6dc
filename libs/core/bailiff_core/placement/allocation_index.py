"""Index of allocations by node and priority, so that victim search on large pools examines few jobs; updated incrementally.

Per node and priority: the number of GPUs of preemptible jobs, and the start of the work on each that would be lost.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bailiff_core.model.gpu_shares import uses_parts
from bailiff_core.model.snapshots import checkpointing
from bailiff_core.model.state import Job, Node, PoolState
from bailiff_core.model.units import has_resources

from .equivalence_classes import EquivalenceClass, class_of

Ints = NDArray[np.int64]
NO_LOSS = 1 << 60  # start of the work to lose, for jobs that have not started
NO_RESTART = NO_LOSS + 1  # and for those whose nodes may save them: their restart may cost less than is assumed


@dataclass(slots=True)
class JobAllocation:
    """Allocation of one job by node.

    Attributes:
        since: Start of the work that an eviction would lose.
        shrinks: Whether it has surplus tasks.
        cpu_milli: CPUs of its tasks without GPUs.
    """

    group: EquivalenceClass
    seq: int
    since: int
    shrinks: bool
    tasks: int
    nodes: dict[int, "NodeAllocation"]
    cpu_milli: int = 0

    @property
    def gpus(self) -> int:
        """All its GPUs, shared ones once per task."""
        return sum(share.gpus + share.cost_free for share in self.nodes.values())


@dataclass(slots=True)
class NodeAllocation:
    """GPUs of one job on one node, without those of evicting tasks.

    Attributes:
        cost_free: GPUs whose eviction counts as having no cost here: parts of GPUs, and reserved ones.
        of_tasks: The other GPUs, per task.
        staying: All GPUs; 0 if the job is evicting.
    """

    cost_free: int = 0
    of_tasks: list[int] = field(default_factory=list)
    staying: int = 0

    @property
    def gpus(self) -> int:
        """GPUs with a cost."""
        return sum(self.of_tasks)


@dataclass(slots=True)
class PriorityLevel:
    """Preemptible GPUs at one priority, as one row per node.

    Attributes:
        gpus: Number of GPUs.
        since: Start of the work on each GPU, latest first.
        jobs_for: For each number of GPUs, the fewest jobs that have at least that number.
        tasks_for: For each number of GPUs, the fewest tasks that have at least that number.
        shrinks: Whether some job has surplus tasks.
        youngest: The highest seq of the jobs.
        cost_free: Reserved and shared GPUs, and MIG devices.
        least: For each number of GPUs, the fewest that must be evicted to free at least that number, as jobs are evicted whole.
    """

    gpus: Ints
    since: Ints
    jobs_for: Ints
    tasks_for: Ints
    shrinks: Ints
    youngest: Ints
    cost_free: Ints
    least: Ints

    @classmethod
    def empty(cls, rows: int, max_devices: int) -> "PriorityLevel":
        """No allocation on any node."""
        gpus, shrinks, youngest, cost_free = (np.zeros(rows, np.int64) for _ in range(4))
        jobs_for, tasks_for, least = (np.zeros((rows, max_devices + 1), np.int64) for _ in range(3))
        since = np.full((rows, max_devices), NO_LOSS, np.int64)
        return cls(gpus, since, jobs_for, tasks_for, shrinks, youngest, cost_free, least)

    def set(self, number: int, allocations: list[tuple[JobAllocation, NodeAllocation]]) -> None:
        """Set the row of one node."""
        self.cost_free[number] = sum(share.cost_free for _, share in allocations)
        gpus = [job_allocation.since for job_allocation, share in allocations for _ in range(share.gpus)]
        gpus.sort(reverse=True)
        self.gpus[number] = len(gpus)
        self.since[number, : len(gpus)] = gpus
        self.since[number, len(gpus) :] = NO_LOSS
        _min_count(self.jobs_for[number], [share.gpus for _, share in allocations])
        _min_count(self.tasks_for[number], [gpus for _, share in allocations for gpus in share.of_tasks])
        _min_taken(
            self.least[number],
            [size for job_allocation, share in allocations for size in _gpus_taken_together(job_allocation, share)],
        )
        self.shrinks[number] = any(job_allocation.shrinks for job_allocation, _ in allocations)
        self.youngest[number] = max((job_allocation.seq for job_allocation, _ in allocations), default=0)

    def set_all(self, by_node: dict[int, list[tuple[JobAllocation, NodeAllocation]]]) -> None:
        """`set` for many nodes."""
        width = self.least.shape[1]
        rows: Ints = np.fromiter(by_node, np.int64, len(by_node))
        counts: list[int] = []
        cost_free_counts: list[int] = []
        youngest: list[int] = []
        shrinks: list[bool] = []
        since: list[int] = []
        at: list[int] = []  # index of each in the flat array
        fewest_jobs, fewest_tasks, least = (
            _CachedRows(_min_count, width),
            _CachedRows(_min_count, width),
            _CachedRows(_min_taken, width),
        )
        for number, allocations in by_node.items():
            sizes = [share.gpus for _, share in allocations]
            gpus = [
                job_allocation.since for (job_allocation, _), size in zip(allocations, sizes, strict=True) for _ in range(size)
            ]
            gpus.sort(reverse=True)
            counts.append(len(gpus))
            since += gpus
            at += range(number * (width - 1), number * (width - 1) + len(gpus))
            cost_free_counts.append(sum([share.cost_free for _, share in allocations]))
            youngest.append(max([job_allocation.seq for job_allocation, _ in allocations]))
            shrinking = any(job_allocation.shrinks for job_allocation, _ in allocations)
            shrinks.append(shrinking)
            fewest_jobs.add(sizes)
            fewest_tasks.add([size for _, share in allocations for size in share.of_tasks])
            least.add(
                [size for job_allocation, share in allocations for size in _gpus_taken_together(job_allocation, share)]
                if shrinking
                else sizes
            )
        self.gpus[rows], self.cost_free[rows] = counts, cost_free_counts
        self.shrinks[rows], self.youngest[rows] = shrinks, youngest
        self.since.reshape(-1)[at] = since
        self.jobs_for[rows], self.tasks_for[rows], self.least[rows] = fewest_jobs.all(), fewest_tasks.all(), least.all()


class _CachedRows:
    """Rows computed by `count` from many lists of sizes; computed once for equal lists."""

    def __init__(self, count: Callable[[Ints, list[int]], None], width: int) -> None:
        self._count, self._width = count, width
        self._known: dict[tuple[int, ...], int] = {}
        self._rows: list[Ints] = []
        self._wanted: list[int] = []

    def add(self, sizes: list[int]) -> None:
        """The next list."""
        key = tuple(sorted(sizes)) if len(sizes) > 1 else tuple(sizes)
        place = self._known.get(key)
        if place is None:
            place = self._known[key] = len(self._rows)
            counts = np.zeros(self._width, np.int64)
            self._count(counts, sizes)
            self._rows.append(counts)
        self._wanted.append(place)

    def all(self) -> Ints:
        """One row for each list."""
        return np.stack(self._rows)[self._wanted]


def _gpus_taken_together(job_allocation: JobAllocation, share: NodeAllocation) -> list[int]:
    """Numbers of GPUs that are evicted together: all of a job, or those of each task if it can shrink."""
    return share.of_tasks if job_allocation.shrinks else [share.gpus]


def _min_taken(counts: Ints, sizes: list[int]) -> None:
    """For each number of GPUs, the smallest subset sum of `sizes` that is at least that number."""
    sums = 1  # bit n is set if some subset has the sum n; at first only the empty one, whose sum is 0
    for size in sizes:
        sums |= sums << size
    for gpus in range(1, min(len(counts), sum(sizes) + 1)):
        larger_sums = sums >> gpus  # bit 0: some subset has exactly this sum; bit 1: one more; ...
        lowest_bit = larger_sums & -larger_sums
        counts[gpus] = gpus + lowest_bit.bit_length() - 1


def _min_count(counts: Ints, sizes: list[int]) -> None:
    """For each number of GPUs, the fewest of `sizes` whose sum is at least that number."""
    covered = 0
    for count, size in enumerate(sorted(sizes, reverse=True), start=1):
        counts[covered + 1 : covered + size + 1] = count
        covered += size


@dataclass(slots=True)
class AllocationIndex:
    """Allocations of all active jobs.

    Attributes:
        all_gpus: GPUs per node, of jobs that are not evicting.
        tasks: Number of all tasks.
        gpus: Number of all GPUs.
        cpu_milli: CPUs of all tasks without GPUs.
    """

    of: dict[str, JobAllocation] = field(default_factory=dict)
    on: dict[int, dict[str, None]] = field(default_factory=dict)
    levels: dict[int, PriorityLevel] = field(default_factory=dict)
    all_gpus: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    max_devices: int = 0
    tasks: int = 0
    gpus: int = 0
    cpu_milli: int = 0

    @classmethod
    def of_pool(cls, state: PoolState) -> "AllocationIndex":
        """The index of the current state."""
        index = cls()
        rows = max(state.nodes, default=-1) + 1
        index.all_gpus = np.zeros(rows, np.int64)
        index.max_devices = max((len(node.devices) for node in state.nodes.values()), default=0)
        index._fill(state)
        return index

    def covers(self, nodes: Iterable[Node]) -> bool:
        """Whether the arrays have rows and columns for these nodes; otherwise the index must be rebuilt."""
        return all(node.number < len(self.all_gpus) and len(node.devices) <= self.max_devices for node in nodes)

    def refresh(self, state: PoolState, jobs: Iterable[str]) -> None:
        """Reload these jobs from the state."""
        rows: dict[int, None] = {}
        for name in list(jobs):
            before = self.of.pop(name, None)
            if before is not None:
                self._remove(name, before)
                rows.update(dict.fromkeys(before.nodes))
            if name in state.active:
                after = self.of[name] = _allocation_of_job(state, state.jobs[name])
                self.tasks += after.tasks
                self.gpus += after.gpus
                self.cpu_milli += after.cpu_milli
                for number in after.nodes:
                    self.on.setdefault(number, {})[name] = None
                rows.update(dict.fromkeys(after.nodes))
        for number in rows:
            self._count(number)

    def _fill(self, state: PoolState) -> None:
        """`refresh` of all jobs for an empty index: each list is sorted once, each array written once."""
        by_node: dict[int, dict[int, list[tuple[JobAllocation, NodeAllocation]]]] = {}
        staying = [0] * len(self.all_gpus)
        for name in state.active:
            job_allocation = self.of[name] = _allocation_of_job(state, state.jobs[name])
            phase, priority, _, preemptible, _ = job_allocation.group
            self.tasks += job_allocation.tasks
            self.cpu_milli += job_allocation.cpu_milli
            for number, share in job_allocation.nodes.items():
                self.gpus += share.gpus + share.cost_free
                self.on.setdefault(number, {})[name] = None
                staying[number] += share.staying
                if preemptible and phase != "evicting":
                    by_node.setdefault(priority, {}).setdefault(number, []).append((job_allocation, share))
        self.all_gpus[:] = staying
        for priority in sorted(by_node):
            self.levels[priority] = PriorityLevel.empty(len(self.all_gpus), self.max_devices)
            self.levels[priority].set_all(by_node[priority])

    def _remove(self, name: str, before: JobAllocation) -> None:
        self.tasks -= before.tasks
        self.gpus -= before.gpus
        self.cpu_milli -= before.cpu_milli
        for number in before.nodes:
            del self.on[number][name]

    def _count(self, number: int) -> None:
        by_priority: dict[int, list[tuple[JobAllocation, NodeAllocation]]] = {}
        total = 0
        for name in self.on[number]:
            job_allocation = self.of[name]
            phase, priority, _, preemptible, _ = job_allocation.group
            share = job_allocation.nodes[number]
            total += share.staying
            if preemptible and phase != "evicting":  # its resources are releasing already
                by_priority.setdefault(priority, []).append((job_allocation, share))
        self.all_gpus[number] = total
        for priority in by_priority:
            if priority not in self.levels:
                self.levels[priority] = PriorityLevel.empty(len(self.all_gpus), self.max_devices)
        for priority, level in self.levels.items():
            allocations = by_priority.get(priority, [])
            if allocations or level.youngest[number]:  # 0: no job was there before, not even one without GPUs
                level.set(number, allocations)


def _allocation_of_job(state: PoolState, job: Job) -> JobAllocation:
    nodes: dict[int, NodeAllocation] = {}
    count = cpu_milli = 0
    staying = job.phase != "evicting"
    for task in job.tasks:
        if not has_resources(task):
            continue
        count += 1
        if not task.devices:
            cpu_milli += job.group(task.index).cpu_milli
        share = nodes.get(task.node)
        if share is None:
            share = nodes[task.node] = NodeAllocation()
        if task.eviction is not None:
            continue
        gpus = task.devices.bit_count()
        if staying:
            share.staying += gpus
        if task.state == "reserved" or uses_parts(job.group(task.index)):
            share.cost_free += gpus
        else:
            share.of_tasks.append(gpus)
    # Of a job that is believed less, only some of its running time counts: no loss is a lower bound of it.
    since = NO_LOSS if job.last_start is None or job.unkept else max(job.last_start, job.last_checkpoint or 0)
    if checkpointing(state.rules, job) in ("snapshot", "auto"):
        since = NO_RESTART
    shrinks = count > job.minimum or bool(job.demand.sub_groups)
    return JobAllocation(class_of(job), job.seq, since, shrinks, count, nodes, cpu_milli)
