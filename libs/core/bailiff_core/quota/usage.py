"""Usage and requests of each project, updated incrementally, with trial changes and rollback."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from bailiff_core.model.mig import device_gpu_milli, mig_weights_of, profile_of
from bailiff_core.model.policy import Policy
from bailiff_core.model.project_tree import ProjectTree
from bailiff_core.model.resource_vector import ZERO, ResourceVector
from bailiff_core.model.state import ENDED, Job, Node, PoolState, Task
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement, TaskPlacement

from .demand_vector import DeviceScale, by_bytes, exact, of_job, of_members, of_places
from .fair_share import Divided

MAX_JOURNAL = 10_000
NO_TASKS: frozenset[int] = frozenset()
NO_DEVICE = 1 << 37  # bytes; GPU size assumed for requests in bytes if the pool has no GPU


@dataclass(slots=True)
class _JobUsage:
    """Usage and requests of one job. leaf: project charged. uncounted: tasks with a placement that are releasing."""

    leaf: str
    preemptible: bool
    allocated: ResourceVector
    requested: ResourceVector
    uncounted: frozenset[int] = NO_TASKS


class Usage:
    """Amounts by project, of its own jobs and of all projects below it; `""` is the whole pool.

    allocated: of tasks that are reserved, starting or running, and of reservations; releasing ones do not count.
    requested: allocated plus pending tasks. total: capacity of the pool's nodes. smallest, largest: scale of the
    pool's GPUs. divided: cache of `fair_shares`.
    """

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self._nodes: dict[int, tuple[ResourceVector, tuple[int, ...]]] = {}
        self._counted_from: dict[int, tuple[object, ...]] = {}  # by node: the values that `_nodes` was computed from
        self._sizes: dict[int, int] = {}
        self.total = ZERO
        self.smallest = self.largest = DeviceScale(NO_DEVICE)
        self._journal: list[str] = []
        self._discarded = 0
        self._trials: list[tuple[str, bool, ResourceVector]] = []
        self._trial_places: dict[tuple[str, int], TaskPlacement] = {}
        for node in state.nodes.values():
            self._count_node(node)
        self._set_sizes()
        self._count_all(state)

    @classmethod
    def of(cls, state: PoolState) -> "Usage":
        """Current usage of the pool's jobs."""
        return cls(state)

    def refresh(self, state: PoolState, jobs: Iterable[str]) -> None:
        """Roll back every trial; reload these jobs and the nodes that changed."""
        self.rollback(0)
        self._trial_places.clear()
        self._state = state
        if len(self._journal) > MAX_JOURNAL:
            self._discarded += len(self._journal)
            self._journal.clear()
        policy_changed = state.policy is not self._policy
        changed_nodes = state.nodes if policy_changed else state.indices.changed_nodes  # it has the weights of MIG devices
        changed = [self._count_node(state.nodes[number]) for number in changed_nodes]
        resized = (any(changed) or policy_changed) and self._set_sizes()
        if policy_changed:  # the tree, and which jobs are preemptible, may have changed
            self._count_all(state)
            return
        for name in jobs:
            self._count(name)
        if resized:
            for name in list(self._by_bytes):
                self._count(name)

    def allocated(self, project: str) -> ResourceVector:
        """Usage of the project."""
        return self._allocated.get(project, ZERO)

    def non_preemptible(self, project: str) -> ResourceVector:
        """Usage of the project's jobs that are not preemptible."""
        return self._non_preemptible.get(project, ZERO)

    def requested(self, project: str) -> ResourceVector:
        """Usage and pending requests of the project, without trials."""
        return self.requests.get(project, ZERO)

    def all_allocated(self) -> dict[str, ResourceVector]:
        """Current `allocated` of all projects that ever had usage."""
        return dict(self._allocated)

    def leaf_of(self, job: Job) -> str:
        """The project at which the job is counted."""
        return self.tree.leaf_of(job.project)

    def allocated_to(self, unit: Unit) -> ResourceVector:
        """Usage of the unit's tasks in their current placement."""
        job = unit.job
        job_usage = self._usage_by_job.get(job.id)
        if job_usage is not None and not job_usage.uncounted and len(unit.indices) == len(job.tasks):
            return job_usage.allocated
        uncounted = job_usage.uncounted if job_usage is not None else ()
        indices = unit.indices if not uncounted else tuple(index for index in unit.indices if index not in uncounted)
        if not by_bytes(job):
            return of_members(job, indices, self.smallest)
        places = (job.task(index) or self._trial_places.get((job.id, index)) for index in indices)
        return of_places(self._state, job, [place for place in places if place is not None], self.smallest)

    def usage_at(self, unit: Unit, place: GangPlacement) -> ResourceVector:
        """Usage of the unit in this placement."""
        return of_places(self._state, unit.job, place.tasks, self.smallest)

    @property
    def position(self) -> int:
        """The current position in the journal, for `changes_since`."""
        return self._discarded + len(self._journal)

    def changes_since(self, position: int) -> list[str] | None:
        """Projects whose `allocated` changed since `position`, with duplicates.

        `None`: the journal no longer reaches back to `position`; any project may have changed.
        """
        start = position - self._discarded
        return self._journal[start:] if start >= 0 else None

    def mark(self) -> int:
        """A savepoint for `rollback`."""
        return len(self._trials)

    def rollback(self, mark: int) -> None:
        """Undo all changes since `mark`, last first."""
        while len(self._trials) > mark:
            leaf, preemptible, amounts = self._trials.pop()
            self._add_usage(leaf, preemptible, ZERO.minus(amounts))

    def evict(self, unit: Unit) -> None:
        """Subtract the unit's usage from its project."""
        self._add_trial(unit.job, ZERO.minus(self.allocated_to(unit)))

    def restore(self, unit: Unit) -> None:
        """Undo `evict` of this unit."""
        self._add_trial(unit.job, self.allocated_to(unit))

    @contextmanager
    def without(self, units: Iterable[Unit]) -> Iterator[None]:
        """Within the context the units' usage is subtracted. `changes_since` does not report it."""
        mark, reported = self.mark(), len(self._journal)
        for unit in units:
            self.evict(unit)
        yield
        self.rollback(mark)
        del self._journal[reported:]

    def reservation_usage(self, job: Job) -> ResourceVector:
        """Usage of the job's reservation, for the whole job or for some of its tasks."""
        return of_places(self._state, job, job.reservation, self.smallest)

    def drop_reservation(self, job: Job) -> None:
        """Subtract the job's reservation."""
        self._add_trial(job, ZERO.minus(self.reservation_usage(job)))

    def restore_reservation(self, job: Job) -> None:
        """Undo `drop_reservation` of this job."""
        self._add_trial(job, self.reservation_usage(job))

    def place(self, unit: Unit, place: GangPlacement) -> None:
        """Add the unit's usage in this placement to its project."""
        if by_bytes(unit.job):
            self._trial_places.update(((unit.job.id, task.index), task) for task in place.tasks)
        self._add_trial(unit.job, self.usage_at(unit, place))

    def _add_trial(self, job: Job, amounts: ResourceVector) -> None:
        change = (self.leaf_of(job), job.preemptible, amounts)
        self._trials.append(change)
        self._add_usage(*change)

    def _add_usage(self, leaf: str, preemptible: bool, change: ResourceVector) -> None:
        path = self.tree.branches[leaf].path
        _add(self._allocated, path, change)
        if not preemptible:
            _add(self._non_preemptible, path, change)
        self._journal.extend(path)

    def _count_all(self, state: PoolState) -> None:
        """Count all jobs under the policy in force."""
        self._discarded += len(self._journal) + 1
        self._journal.clear()
        self._policy: Policy | None = state.policy
        self.tree = ProjectTree(state.policy.projects if state.policy is not None else ())
        self.requests: dict[str, ResourceVector] = {}
        self.divided: dict[str, Divided] = {}
        self._allocated: dict[str, ResourceVector] = {}
        self._non_preemptible: dict[str, ResourceVector] = {}
        self._usage_by_job: dict[str, _JobUsage] = {}
        self._by_bytes: dict[str, None] = {}
        by_leaf: dict[str, list[_JobUsage]] = {}
        for name, job in state.jobs.items():
            if job.phase not in ENDED:
                job_usage = self._usage_by_job[name] = self._usage_of(job)
                by_leaf.setdefault(job_usage.leaf, []).append(job_usage)
                if by_bytes(job):
                    self._by_bytes[name] = None
        for leaf, usages in by_leaf.items():
            path = self.tree.branches[leaf].path
            _add(self.requests, path, _sum(job_usage.requested for job_usage in usages))
            _add(self._allocated, path, _sum(job_usage.allocated for job_usage in usages))
            non_preemptible = [job_usage.allocated for job_usage in usages if not job_usage.preemptible]
            if non_preemptible:
                _add(self._non_preemptible, path, _sum(non_preemptible))

    def _count(self, name: str) -> None:
        job = self._state.jobs.get(name)
        before = self._usage_by_job.pop(name, None)
        now = self._usage_of(job) if job is not None and job.phase not in ENDED else None
        if now is not None:
            self._usage_by_job[name] = now
        if job is not None and now is not None and by_bytes(job):
            self._by_bytes[name] = None
        else:
            self._by_bytes.pop(name, None)
        if before == now:
            return
        if before is not None and now is not None and (before.leaf, before.preemptible) == (now.leaf, now.preemptible):
            self._charge(now, now.allocated.minus(before.allocated), now.requested.minus(before.requested))
            return
        if before is not None:
            self._charge(before, ZERO.minus(before.allocated), ZERO.minus(before.requested))
        if now is not None:
            self._charge(now, now.allocated, now.requested)

    def _charge(self, job_usage: _JobUsage, allocated: ResourceVector, requested: ResourceVector) -> None:
        if allocated != ZERO:
            self._add_usage(job_usage.leaf, job_usage.preemptible, allocated)
        if requested != ZERO:
            _add(self.requests, self.tree.branches[job_usage.leaf].path, requested)

    def _usage_of(self, job: Job) -> _JobUsage:
        leaf = self.leaf_of(job)
        if job.phase in ("paused", "waiting"):
            return _JobUsage(leaf, job.preemptible, ZERO, ZERO)
        demand = of_job(job, self.smallest)
        if not job.tasks and not job.reservation:
            return _JobUsage(leaf, job.preemptible, ZERO, demand)
        charged = [task for task in job.tasks if counts(job, task)]
        if len(charged) == len(job.tasks) and not job.reservation and not by_bytes(job):
            complete = len(charged) == job.size
            allocated = demand if complete else of_members(job, (task.index for task in charged), self.smallest)
            return _JobUsage(leaf, job.preemptible, allocated, demand)
        placed = dict.fromkeys([task.index for task in (*job.tasks, *job.reservation)])
        pending = [index for index in range(job.size) if index not in placed]
        allocated = of_places(self._state, job, [*charged, *job.reservation], self.smallest)
        charged_indices = dict.fromkeys(task.index for task in charged)
        return _JobUsage(
            leaf,
            job.preemptible,
            allocated,
            exact(allocated.plus(of_members(job, pending, self.smallest))),
            frozenset(task.index for task in job.tasks if task.index not in charged_indices),
        )

    def _count_node(self, node: Node) -> bool:
        """Recount the node; returns whether the sizes of its devices changed."""
        capacity, health = node.capacity, [device.healthy for device in node.devices]
        weights = mig_weights_of(self._state.policy)
        masks, others = (capacity.devices, node.quarantined), (capacity.cpu_milli, capacity.memory_bytes)
        counted_from = (node.devices, health, node.schedulable, masks, others, weights)
        previous = self._counted_from.get(node.number)
        if previous is not None and previous[0] is node.devices and previous[1:] == counted_from[1:]:
            return False
        self._counted_from[node.number] = counted_from
        before, sizes_before = self._nodes.pop(node.number, (ZERO, ()))
        now, sizes = _capacity(node, weights)
        self._nodes[node.number] = now, sizes
        if now != before:
            self.total = exact(self.total.plus(now).minus(before))
        if sizes != sizes_before:
            for size in sizes:
                self._sizes[size] = self._sizes.get(size, 0) + 1
            for size in sizes_before:
                self._sizes[size] -= 1
                if not self._sizes[size]:
                    del self._sizes[size]
        return sizes != sizes_before

    def _set_sizes(self) -> bool:
        """Update the smallest and largest size; returns whether the smallest changed."""
        before, weights = self.smallest, mig_weights_of(self._state.policy)
        self.smallest = DeviceScale(min(self._sizes, default=NO_DEVICE), weights)
        self.largest = DeviceScale(max(self._sizes, default=NO_DEVICE), weights)
        return self.smallest != before


def counts(job: Job, task: Task) -> bool:
    """Whether its project is charged for the task: it has a placement and is not releasing, or its eviction is stuck."""
    if task.state in ("released", "exited"):
        return task.state == "exited" and job.eviction is not None and job.eviction.stuck
    return not any(
        eviction is not None and not eviction.stuck and eviction.cancel_seq is None for eviction in (job.eviction, task.eviction)
    )


def _capacity(node: Node, mig_weights: Mapping[str, int]) -> tuple[ResourceVector, tuple[int, ...]]:
    """Capacity of a schedulable node, and the memory of each of its usable GPUs."""
    if not node.schedulable:
        return ZERO, ()
    usable = node.capacity.devices & ~node.quarantined
    devices = [device for device in node.devices if device.healthy and usable >> device.number & 1]
    capacity = node.capacity
    sizes = tuple(device.memory_bytes for device in devices if device.memory_bytes and not profile_of(device))
    gpus = sum((device_gpu_milli(device, mig_weights) for device in devices), start=0)
    return exact(ResourceVector(gpus, capacity.cpu_milli, capacity.memory_bytes)), sizes


def _sum(amounts: Iterable[ResourceVector]) -> ResourceVector:
    gpus, cpus, memory = zip(*amounts, strict=True)
    return ResourceVector(sum(gpus), sum(cpus), sum(memory))


def _add(amounts: dict[str, ResourceVector], path: tuple[str, ...], change: ResourceVector) -> None:
    for project in path:
        amounts[project] = exact(amounts.get(project, ZERO).plus(change))
