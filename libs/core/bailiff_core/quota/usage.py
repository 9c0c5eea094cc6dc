"""Usage and requests of each project, updated incrementally, with trial changes and rollback."""

from collections.abc import Iterable
from dataclasses import dataclass

from bailiff_core.model.policy import Policy
from bailiff_core.model.project_tree import ProjectTree
from bailiff_core.model.resource_vector import ZERO, ResourceVector
from bailiff_core.model.state import ENDED, Job, Node, PoolState, Task
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement, TaskPlacement

from .demand_vector import by_bytes, exact, of_job, of_members, of_places
from .fair_share import Divided

JOURNAL_KEPT = 10_000
NO_TASKS: frozenset[int] = frozenset()
NO_DEVICE = 1 << 37  # bytes; measures requests in bytes of a device where the pool has none


@dataclass(slots=True)
class _Counted:
    """The amounts of one job, and the project charged. uncounted: tasks with a placement that are releasing."""

    leaf: str
    preemptible: bool
    allocated: ResourceVector
    requested: ResourceVector
    uncounted: frozenset[int] = NO_TASKS


class Usage:
    """Amounts by project: its own jobs' and those of all projects below it; `""` is the whole pool.

    allocated: of tasks that are reserved, starting or running, or reserved for; releasing ones do not count.
    requested: allocated plus pending tasks. total: capacity of the pool's nodes. smallest, largest: of the
    pool's devices, bytes. divided: cache of `fair_shares`.
    """

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self._nodes: dict[int, tuple[ResourceVector, tuple[int, ...]]] = {}
        self._made_of: dict[int, tuple[object, ...]] = {}  # what that was counted from
        self._sizes: dict[int, int] = {}
        self.total = ZERO
        self.smallest = self.largest = NO_DEVICE
        self._journal: list[str] = []
        self._forgotten = 0
        self._trials: list[tuple[str, bool, ResourceVector]] = []
        self._tried_places: dict[tuple[str, int], TaskPlacement] = {}
        for node in state.nodes.values():
            self._count_node(node)
        self._set_sizes()
        self._begin(state)

    @classmethod
    def of(cls, state: PoolState) -> "Usage":
        """Current usage of the pool's jobs."""
        return cls(state)

    def refresh(self, state: PoolState, jobs: Iterable[str]) -> None:
        """Roll back every trial; reload these jobs and the nodes that changed."""
        self.rollback(0)
        self._tried_places.clear()
        self._state = state
        if len(self._journal) > JOURNAL_KEPT:
            self._forgotten += len(self._journal)
            self._journal.clear()
        changed = [self._count_node(state.nodes[number]) for number in state.indices.changed_nodes]
        resized = any(changed) and self._set_sizes()
        if state.policy is not self._policy:  # another tree perhaps, and what is preemptible may have changed for all jobs
            self._begin(state)
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
        """`allocated` of all projects that ever used anything, as it is now."""
        return dict(self._allocated)

    def leaf_of(self, job: Job) -> str:
        """The project at which the job is counted."""
        return self.tree.leaf_of(job.project)

    def allocated_to(self, unit: Unit) -> ResourceVector:
        """Usage of the unit's tasks in their current placement."""
        job = unit.job
        counted = self._counted.get(job.id)
        if counted is not None and not counted.uncounted and len(unit.indices) == len(job.tasks):
            return counted.allocated
        uncounted = counted.uncounted if counted is not None else ()
        indices = unit.indices if not uncounted else tuple(index for index in unit.indices if index not in uncounted)
        if not by_bytes(job):
            return of_members(job, indices, self.smallest)
        places = (job.task(index) or self._tried_places.get((job.id, index)) for index in indices)
        return of_places(self._state, job, [place for place in places if place is not None], self.smallest)

    def usage_at(self, unit: Unit, place: GangPlacement) -> ResourceVector:
        """What the unit would use at this place."""
        return of_places(self._state, unit.job, place.tasks, self.smallest)

    def changes_since(self, position: int) -> tuple[int, list[str] | None]:
        """Projects whose `allocated` changed since that position, repeats included, and the position now.

        `None`: too long ago, it may be any.
        """
        start = position - self._forgotten
        now = self._forgotten + len(self._journal)
        return now, (self._journal[start:] if start >= 0 else None)

    def mark(self) -> int:
        """A savepoint for `rollback`."""
        return len(self._trials)

    def rollback(self, mark: int) -> None:
        """Undo everything since `mark`, the last change first."""
        while len(self._trials) > mark:
            leaf, preemptible, amounts = self._trials.pop()
            self._use(leaf, preemptible, ZERO.minus(amounts))

    def evict(self, unit: Unit) -> None:
        """Its project no longer uses what the unit holds."""
        self._try(unit.job, ZERO.minus(self.allocated_to(unit)))

    def restore(self, unit: Unit) -> None:
        """The opposite of `evict`."""
        self._try(unit.job, self.allocated_to(unit))

    def kept_for(self, job: Job) -> ResourceVector:
        """Usage of the job's reservation, for the whole job or for some of its tasks."""
        return of_places(self._state, job, job.reservation, self.smallest)

    def drop_reservation(self, job: Job) -> None:
        """Subtract the job's reservation."""
        self._try(job, ZERO.minus(self.kept_for(job)))

    def restore_reservation(self, job: Job) -> None:
        """The opposite of `drop_reservation`."""
        self._try(job, self.kept_for(job))

    def place(self, unit: Unit, place: GangPlacement) -> None:
        """Its project uses what the unit takes at this place."""
        if by_bytes(unit.job):
            self._tried_places.update(((unit.job.id, task.index), task) for task in place.tasks)
        self._try(unit.job, self.usage_at(unit, place))

    def _try(self, job: Job, amounts: ResourceVector) -> None:
        change = (self.leaf_of(job), job.preemptible, amounts)
        self._trials.append(change)
        self._use(*change)

    def _use(self, leaf: str, preemptible: bool, change: ResourceVector) -> None:
        path = self.tree.branches[leaf].path
        _add(self._allocated, path, change)
        if not preemptible:
            _add(self._non_preemptible, path, change)
        self._journal.extend(path)

    def _begin(self, state: PoolState) -> None:
        """Count all jobs under the policy in force."""
        self._forgotten += len(self._journal) + 1
        self._journal.clear()
        self._policy: Policy | None = state.policy
        self.tree = ProjectTree(state.policy.projects if state.policy is not None else ())
        self.requests: dict[str, ResourceVector] = {}
        self.divided: dict[str, Divided] = {}
        self._allocated: dict[str, ResourceVector] = {}
        self._non_preemptible: dict[str, ResourceVector] = {}
        self._counted: dict[str, _Counted] = {}
        self._by_bytes: dict[str, None] = {}
        by_leaf: dict[str, list[_Counted]] = {}
        for name, job in state.jobs.items():
            if job.phase not in ENDED:
                counted = self._counted[name] = self._measured(job)
                by_leaf.setdefault(counted.leaf, []).append(counted)
                if by_bytes(job):
                    self._by_bytes[name] = None
        for leaf, found in by_leaf.items():
            path = self.tree.branches[leaf].path
            _add(self.requests, path, _sum(counted.requested for counted in found))
            _add(self._allocated, path, _sum(counted.allocated for counted in found))
            fixed = [counted.allocated for counted in found if not counted.preemptible]
            if fixed:
                _add(self._non_preemptible, path, _sum(fixed))

    def _count(self, name: str) -> None:
        job = self._state.jobs.get(name)
        before = self._counted.pop(name, None)
        now = self._measured(job) if job is not None and job.phase not in ENDED else None
        if now is not None:
            self._counted[name] = now
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

    def _charge(self, counted: _Counted, allocated: ResourceVector, requested: ResourceVector) -> None:
        if allocated != ZERO:
            self._use(counted.leaf, counted.preemptible, allocated)
        if requested != ZERO:
            _add(self.requests, self.tree.branches[counted.leaf].path, requested)

    def _measured(self, job: Job) -> _Counted:
        leaf = self.leaf_of(job)
        if job.phase == "paused":
            return _Counted(leaf, job.preemptible, ZERO, ZERO)
        everything = of_job(job, self.smallest)
        if not job.tasks and not job.reservation:
            return _Counted(leaf, job.preemptible, ZERO, everything)
        standing = [task for task in job.tasks if counts(job, task)]
        if len(standing) == len(job.tasks) and not job.reservation and not by_bytes(job):
            complete = len(standing) == job.size
            held = everything if complete else of_members(job, (task.index for task in standing), self.smallest)
            return _Counted(leaf, job.preemptible, held, everything)
        placed = dict.fromkeys([task.index for task in (*job.tasks, *job.reservation)])
        pending = [index for index in range(job.size) if index not in placed]
        held = of_places(self._state, job, [*standing, *job.reservation], self.smallest)
        stays = dict.fromkeys(task.index for task in standing)
        return _Counted(
            leaf,
            job.preemptible,
            held,
            exact(held.plus(of_members(job, pending, self.smallest))),
            frozenset(task.index for task in job.tasks if task.index not in stays),
        )

    def _count_node(self, node: Node) -> bool:
        """Whether its devices are of other sizes now."""
        capacity, health = node.capacity, [device.healthy for device in node.devices]
        usable = capacity.devices & ~node.quarantined
        made_of = (node.devices, health, node.schedulable, usable, capacity.cpu_milli, capacity.memory_bytes)
        known = self._made_of.get(node.number)
        if known is not None and known[0] is node.devices and known[1:] == made_of[1:]:
            return False
        self._made_of[node.number] = made_of
        before, sizes_before = self._nodes.pop(node.number, (ZERO, ()))
        now, sizes = _capacity(node)
        self._nodes[node.number] = now, sizes
        if now != before:
            self.total = self.total.plus(now).minus(before)
        if sizes != sizes_before:
            for size in sizes:
                self._sizes[size] = self._sizes.get(size, 0) + 1
            for size in sizes_before:
                self._sizes[size] -= 1
                if not self._sizes[size]:
                    del self._sizes[size]
        return sizes != sizes_before

    def _set_sizes(self) -> bool:
        """Whether the smallest device is another one now."""
        before = self.smallest
        self.smallest, self.largest = min(self._sizes, default=NO_DEVICE), max(self._sizes, default=NO_DEVICE)
        return self.smallest != before


def counts(job: Job, task: Task) -> bool:
    """Whether its project is charged for the task: it has a placement and is not releasing, or its eviction is stuck."""
    if task.state in ("released", "exited"):
        return task.state == "exited" and job.eviction is not None and job.eviction.stuck
    return not any(
        eviction is not None and not eviction.stuck and eviction.cancel_seq is None for eviction in (job.eviction, task.eviction)
    )


def _capacity(node: Node) -> tuple[ResourceVector, tuple[int, ...]]:
    """Capacity of a schedulable node, and the memory of each of its usable devices."""
    if not node.schedulable:
        return ZERO, ()
    usable = node.capacity.devices & ~node.quarantined
    devices = [device for device in node.devices if device.healthy and usable >> device.number & 1]
    capacity = node.capacity
    sizes = tuple(device.memory_bytes for device in devices if device.memory_bytes)
    return ResourceVector(1000 * len(devices), capacity.cpu_milli, capacity.memory_bytes), sizes


def _sum(amounts: Iterable[ResourceVector]) -> ResourceVector:
    gpus, cpus, memory = zip(*amounts, strict=True)
    return ResourceVector(sum(gpus), sum(cpus), sum(memory))


def _add(amounts: dict[str, ResourceVector], path: tuple[str, ...], change: ResourceVector) -> None:
    for project in path:
        amounts[project] = exact(amounts.get(project, ZERO).plus(change))
