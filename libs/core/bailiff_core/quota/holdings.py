"""What jobs hold, and when they can be gone: sums by project, kept up to date job by job and node by node.

A promise asks at each decision what is free at times to come. In a pool of 50,000 jobs that must not look at each of them.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.gpu_shares import devices_of, shares_devices, units_of
from bailiff_core.model.mig import device_gpu_milli, mig_weights_of, profile_of
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.project_tree import ProjectTree
from bailiff_core.model.resource_vector import Amount
from bailiff_core.model.state import Job, Node, PoolState
from bailiff_core.model.units import allocated_tasks
from bailiff_core.placement.cluster_resources import usable_devices

from .leaving import Leave, Stay, leaving_time, until_evictable, until_limit

BUCKET = 30  # 2^30 µs, 18 minutes: a pool has few of them, and few jobs are in the one that is looked at


class Gpus(NamedTuple):
    """GPUs of some tasks.

    Attributes:
        path: Whose: the project and those above it.
        whole: So many that nobody shares.
        shared: Others, by node and number; one may be listed more than once.
    """

    path: tuple[str, ...]
    whole: int
    shared: tuple[tuple[int, int], ...] = ()


class Held:
    """GPUs that jobs hold, or that are reserved for them, by project and those above it. A GPU that several share is one."""

    def __init__(self, tree: ProjectTree) -> None:
        self._tree = tree
        self._whole: dict[str, int] = {}
        self._shared: dict[str, dict[tuple[int, int], int]] = {}

    def add(self, job: Job, indices: Iterable[int], sign: int = 1) -> None:
        """These tasks of the job hold theirs; with -1: no longer."""
        self.add_gpus(gpus_held(self._tree, job, indices), sign)

    def add_gpus(self, gpus: Gpus, sign: int = 1) -> None:
        """They are held; with -1: no longer."""
        for project in gpus.path if gpus.whole else ():
            self._whole[project] = self._whole.get(project, 0) + gpus.whole * sign
        for project in gpus.path if gpus.shared else ():
            for key in gpus.shared:
                self._add_shared(project, key, sign)

    def add_all(self, other: "Held", sign: int = 1) -> None:
        """All that is held there is held here, too; with -1: no longer."""
        for project, whole in other._whole.items():
            self._whole[project] = self._whole.get(project, 0) + whole * sign
        for project, shared in other._shared.items():
            for key, tasks in shared.items():
                self._add_shared(project, key, tasks * sign)

    def _add_shared(self, project: str, key: tuple[int, int], tasks: int) -> None:
        of = self._shared.setdefault(project, {})
        of[key] = of.get(key, 0) + tasks
        if not of[key]:
            del of[key]

    def by(self, project: str) -> int:
        """How many GPUs the project holds."""
        return self._whole.get(project, 0) + len(self._shared.get(project, ()))

    def copy(self) -> "Held":
        """As it is now."""
        other = Held(self._tree)
        other._whole, other._shared = dict(self._whole), {name: dict(of) for name, of in self._shared.items()}
        return other


class Staying:
    """GPUs that jobs hold, by when the jobs are gone."""

    def __init__(self, tree: ProjectTree) -> None:
        self.held = Held(tree)
        self.gone_by: dict[str, tuple[int, Gpus]] = {}
        self.buckets: dict[int, tuple[Held, dict[str, None]]] = {}
        self._tree = tree
        self._takes: dict[str, tuple[int, Gpus]] = {}

    def add(self, name: str, stay: Stay, leaving: int, gpus: Gpus) -> None:
        """The job stays until then, and for as long as it needs to leave, µs."""
        until = stay.until + leaving
        if stay.from_now:
            self._takes[name] = until, gpus
            return
        self.gone_by[name] = until, gpus
        held, jobs = self.buckets.setdefault(until >> BUCKET, (Held(self._tree), {}))
        jobs[name] = None
        held.add_gpus(gpus)
        self.held.add_gpus(gpus)

    def remove(self, name: str) -> None:
        """The job holds nothing any more."""
        if self._takes.pop(name, None) is not None:
            return
        until, gpus = self.gone_by.pop(name)
        held, jobs = self.buckets[until >> BUCKET]
        del jobs[name]
        held.add_gpus(gpus, -1)
        self.held.add_gpus(gpus, -1)
        if not jobs:
            del self.buckets[until >> BUCKET]

    def late(self, time: int, now: int, slow: Iterable[str]) -> list[Gpus]:
        """What those hold that `Departures` takes as gone by then, and that are not, as they would have to begin before now.

        Args:
            slow: The jobs that need longer to leave than from now until then.
        """
        found = [gpus for takes, gpus in self._takes.values() if now + takes > time]
        over = (self.gone_by[name] for name in slow if name in self.gone_by)
        return [*found, *(gpus for until, gpus in over if until <= time)]


class Departures:
    """A walk through the times to come, over those of whom it is known when they are gone."""

    def __init__(self, staying: Staying) -> None:
        self._staying, self._held = staying, staying.held
        self._to_come = sorted(staying.buckets, reverse=True)
        self._next: list[tuple[int, str]] = []

    def held_after(self, time: int) -> Held:
        """What those hold that are not gone by then, µs; no earlier time than the last one."""
        left: list[Gpus] = []
        buckets: list[Held] = []
        self._leave(time, left)
        while self._to_come and self._to_come[-1] <= time >> BUCKET:
            bucket = self._to_come.pop()
            held, jobs = self._staying.buckets[bucket]
            if bucket < time >> BUCKET:
                buckets.append(held)
            else:
                self._next = sorted(((self._staying.gone_by[name][0], name) for name in jobs), reverse=True)
                self._leave(time, left)
        if left or buckets:
            self._held = self._held.copy()
        for each in buckets:
            self._held.add_all(each, -1)
        for gpus in left:
            self._held.add_gpus(gpus, -1)
        return self._held

    def _leave(self, time: int, left: list[Gpus]) -> None:
        while self._next and self._next[-1][0] <= time:
            left.append(self._staying.gone_by[self._next.pop()[1]][1])


class Holdings:
    """What the jobs of a pool hold.

    Attributes:
        held: GPUs that jobs have, or that are reserved for them, without those that they leave.
        in_use: GPUs that jobs have not left yet, or that are reserved for them.
        unused_parts: Of GPUs that some tasks share, what none of them uses, thousandths.
        mig: What MIG devices count as, thousandths.
        mig_jobs: Jobs that ask for some.
    """

    def __init__(self, state: PoolState, tree: ProjectTree) -> None:
        self._tree = tree
        self._weights = mig_weights_of(state.policy)
        self.held, self.in_use = Held(tree), Held(tree)
        self.unused_parts = 0
        self.mig: Amount = 0
        self.mig_jobs: dict[str, None] = {}
        self._jobs: dict[str, tuple[Gpus, Gpus, int]] = {}
        self._nodes: dict[int, tuple[int, Amount]] = {}
        self._staying: dict[Leave, Staying] = {leave: Staying(tree) for leave in (until_evictable, until_limit)}
        self._by_leaving: list[tuple[int, str]] = []
        self.refresh(state, state.active, state.nodes)

    def refresh(self, state: PoolState, jobs: Iterable[str], nodes: Iterable[int]) -> None:
        """Take over these jobs and nodes as they are now."""
        for number in nodes:
            unused, mig = self._nodes.get(number, (0, 0))
            now = self._nodes[number] = _unused_parts(state.nodes[number]), _mig_milli(state.nodes[number], self._weights)
            self.unused_parts += now[0] - unused
            self.mig += now[1] - mig
        for name in jobs:
            if name in self._jobs:
                self._remove(name)
            if name in state.active:
                self._add(state, state.jobs[name])

    @property
    def longest(self) -> int:
        """The longest time that one of them needs to leave, µs."""
        return self._by_leaving[-1][0] if self._by_leaving else 0

    def departures(self, leave: Leave) -> Departures:
        """A walk through the times to come."""
        return Departures(self._staying[leave])

    def late(self, time: int, now: int, leave: Leave) -> list[Gpus]:
        """What `Departures` takes as gone by then, and is not."""
        slow = self._by_leaving[bisect_left(self._by_leaving, (time - now + 1, "")) :]
        return self._staying[leave].late(time, now, [name for _, name in slow])

    def _add(self, state: PoolState, job: Job) -> None:
        held, in_use = gpus_held(self._tree, job, held_by(job)), gpus_held(self._tree, job, not_released(job))
        leaving = leaving_time(state, job)
        self._jobs[job.id] = held, in_use, leaving
        self.held.add_gpus(held)
        self.in_use.add_gpus(in_use)
        if any(group.mig_profile for group in job.demand.tasks):
            self.mig_jobs[job.id] = None
        if held.whole or held.shared:
            insort(self._by_leaving, (leaving, job.id))
            for leave, staying in self._staying.items():
                staying.add(job.id, leave(state, job), leaving, held)

    def _remove(self, name: str) -> None:
        held, in_use, leaving = self._jobs.pop(name)
        self.held.add_gpus(held, -1)
        self.in_use.add_gpus(in_use, -1)
        self.mig_jobs.pop(name, None)
        if held.whole or held.shared:
            del self._by_leaving[bisect_left(self._by_leaving, (leaving, name))]
            for staying in self._staying.values():
                staying.remove(name)


def gpus_held(tree: ProjectTree, job: Job, indices: Iterable[int]) -> Gpus:
    """The GPUs that these tasks of the job have, or that are reserved for them."""
    path = tree.branches[tree.leaf_of(job.project)].path
    if not any(map(shares_devices, job.demand.tasks)):
        return Gpus(path, gpus_of(job, indices))
    reserved = {task.index: task for task in job.reservation}
    places = [(index, job.task(index) or reserved[index]) for index in indices]
    shared = ((task.node, number) for index, task in places if _gpus_of_task(job.group(index)) for number in bits(task.devices))
    return Gpus(path, 0, tuple(shared))


def gpus_of(job: Job, indices: Iterable[int]) -> int:
    """GPUs that these tasks use, each counted as a whole."""
    groups = job.demand.tasks
    if len(groups) == 1:
        return _gpus_of_task(groups[0]) * sum(1 for _ in indices)
    return sum(_gpus_of_task(job.group(index)) for index in indices)


def held_by(job: Job) -> list[int]:
    """The tasks that have GPUs, or for which some are reserved, without those that leave them."""
    return [task.index for task in (*allocated_tasks(job), *job.reservation)]


def not_released(job: Job) -> list[int]:
    """The tasks whose GPUs are not free yet, or that have reserved some."""
    stuck = job.eviction is not None and job.eviction.stuck
    left = [] if stuck else [task for task in job.tasks if task.state != "released"]
    return [task.index for task in left if task.eviction is None or not task.eviction.stuck]


def _gpus_of_task(group: TaskGroup) -> int:
    return 0 if group.mig_profile else devices_of(group)


def _unused_parts(node: Node) -> int:
    """Of the GPUs that some tasks share, what none of them uses, thousandths."""
    unused, usable = 0, usable_devices(node) if node.schedulable else 0
    for number in {**node.allocated.shares, **node.reserved.shares}:
        device = node.devices[number]
        if not profile_of(device) and usable >> number & 1:
            taken = node.allocated.shares.get(number, 0) + node.reserved.shares.get(number, 0)
            unused += 1000 - -(-taken * 1000 // units_of(device))
    return unused


def _mig_milli(node: Node, weights: Mapping[str, int]) -> Amount:
    """What the MIG devices that tasks may get count as, thousandths of a GPU."""
    usable = usable_devices(node) if node.schedulable else 0
    found = (device_gpu_milli(each, weights) for each in node.devices if profile_of(each) and usable >> each.number & 1)
    return sum(found, start=0)
