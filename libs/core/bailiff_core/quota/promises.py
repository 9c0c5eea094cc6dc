"""GPUs that are promised to projects (`calendar/`): what is left for others now, and at each time to come.

Whole GPUs count: a task that uses a part of one counts as all of it, one with a MIG device as none. What a project uses is
part of what it is promised. Where the promises of a project and of one below it meet, both hold, one beside the other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from bailiff_core.calendar.windows import Calendar, Window, calendar_of
from bailiff_core.humanize import count_text, window_text
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.gpu_shares import devices_of, shares_devices, units_of
from bailiff_core.model.mig import device_gpu_milli, mig_weights_of, profile_of
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.project_tree import ROOT, ProjectTree, project_text
from bailiff_core.model.resource_vector import Amount
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.model.units import Unit, allocated_tasks
from bailiff_core.placement.cluster_resources import usable_devices

from .leaving import NEVER, ends_by, evictable_from, gone_by
from .resource_snapshot import ResourceSnapshot
from .usage import Usage

SECOND = 1_000_000


Leave = Callable[[PoolState, Job], int]


class Moment(NamedTuple):
    """A time to come.

    Attributes:
        promised: GPUs, by project.
        held: By jobs that cannot be gone by then, or by those that will not by themselves.
        free: GPUs for whoever was promised none; less than 0: some that were promised are missing.
    """

    time: int
    promised: Mapping[str, int]
    held: "Held"
    free: int


class Promises:
    """What reservations leave to others, in one state of the pool."""

    def __init__(self, state: PoolState, usage: Usage, calendar: Calendar | None = None) -> None:
        self.calendar = calendar_of(state) if calendar is None else calendar
        self._state, self._usage, self._tree = state, usage, usage.tree
        self.gpus, self._unused_parts, self._mig = _whole_gpus(state, usage)
        self.now = self.calendar.promised(state.now)
        self._to_come: dict[Leave, Forecast] = {}

    def free_now(self, more: int = 0, path: tuple[str, ...] = ()) -> int:
        """GPUs that are free now for whoever was promised none; less than 0: some that were promised are missing. With trials.

        Args:
            more: GPUs, in use besides.
            path: Whose, and all above it.
        """

        def used(project: str) -> int:
            milli = self._usage.allocated(project).gpu_milli - self._mig.get(project, 0)
            return -int(-milli // 1000) + (more if project in path else 0)

        free = int(
            (self.gpus * 1000 - self._unused_parts - self._usage.allocated(ROOT).gpu_milli + self._mig.get(ROOT, 0)) // 1000
        )
        return free - more - missing(self._tree, self.now, used)

    @cached_property
    def in_use(self) -> "Held":
        """GPUs that jobs have not left yet, or that are reserved for them. Without trials."""
        held = Held(self._tree)
        for job in self._state.active_jobs():
            held.add(job, _not_released(job))
        return held

    def idle_now(self, more: int = 0, path: tuple[str, ...] = ()) -> int:
        """As `free_now`, of GPUs that everybody has left. Without trials."""

        def used(project: str) -> int:
            return self.in_use.by(project) + (more if project in path else 0)

        return self.gpus - self.in_use.by(ROOT) - more - missing(self._tree, self.now, used)

    def free_at(self, moment: Moment, more: int = 0, path: tuple[str, ...] = ()) -> int:
        """The same at a time to come, as far as jobs cannot be gone by then."""
        if not more or moment.promised.keys().isdisjoint(path):
            return moment.free - more  # none of them is promised any of these

        def used(project: str) -> int:
            return moment.held.by(project) + (more if project in path else 0)

        return self.gpus - moment.held.by(ROOT) - more - missing(self._tree, moment.promised, used)

    def moments(self, leave: Leave = gone_by) -> "Forecast":
        """The times to come from which something else is promised, soonest first.

        Args:
            leave: When a job is gone: `gone_by`, or `ends_by`.
        """
        if leave not in self._to_come:
            self._to_come[leave] = self.at(self.calendar.upcoming(self._state.now), leave)
        return self._to_come[leave]

    def at(self, times: Iterable[tuple[int, Mapping[str, int]]], leave: Leave = gone_by) -> "Forecast":
        """These times, from now on, soonest first, each with what is promised then."""
        stays = [(leave(self._state, job), job, held_by(job)) for job in self._state.active_jobs()]
        stays += [(end, job, tasks) for job, tasks, end in being_evicted(self._state)]
        held = Held(self._tree)
        for _, job, tasks in stays:
            held.add(job, tasks)
        return Forecast(self.gpus, self._tree, list(times), sorted(stays, key=lambda each: -each[0]), held)


Stay = tuple[int, Job, list[int]]
"""Until when, µs, these tasks of the job hold their GPUs."""


class Forecast:
    """Times to come, each of which is worked out once, when somebody gets so far. No generator: states are copied with it."""

    def __init__(
        self,
        gpus: int,
        tree: ProjectTree,
        times: Sequence[tuple[int, Mapping[str, int]]],
        stays: "list[Stay]",
        held: "Held",
    ) -> None:
        self._gpus, self._tree, self._times, self._stays, self._held = gpus, tree, times, stays, held
        self._known: list[Moment] = []

    def __iter__(self) -> Iterator[Moment]:
        for at in range(len(self._times)):
            if at == len(self._known):
                self._known.append(self._next(*self._times[at]))
            yield self._known[at]

    def _next(self, time: int, promised: Mapping[str, int]) -> Moment:
        left = False
        while self._stays and self._stays[-1][0] <= time:
            _, job, tasks = self._stays.pop()
            self._held.add(job, tasks, -1)
            left = True
        held = self._held.copy() if left or not self._known else self._known[-1].held
        return Moment(time, promised, held, self._gpus - held.by(ROOT) - missing(self._tree, promised, held.by))


def promises_of(state: PoolState, usage: Usage) -> Promises:
    """The promises, as of the state."""
    key = state.seq, state.now, usage
    cached = state.indices.promises
    if not isinstance(cached, tuple) or cached[0] != key:
        cached = state.indices.promises = key, Promises(state, usage)
    found = cached[1]
    assert isinstance(found, Promises)
    return found


def promise_broken(snapshot: ResourceSnapshot, unit: Unit) -> str | None:
    """Why the unit may not start now, as a sentence: others have its GPUs reserved, now or before it could be gone.

    Trials count for what is free now.
    """
    state = snapshot.state
    if not state.gpu_reservations:
        return None
    gpus = gpus_of(unit.job, unit.indices)
    if not gpus:
        return None
    promises, usage = promises_of(state, snapshot.usage), snapshot.usage
    path = usage.tree.branches[usage.leaf_of(unit.job)].path
    if promises.now:
        free_now = promises.free_now if usage.mark() else promises.idle_now  # in a trial, those leave that are not gone
        free = free_now(gpus, path)
        if free < 0 and free < free_now():
            return _held_text(promises, state.now, path, "")
    gone, leave = gone_by(state, unit.job), gone_by
    if not evictable_from(state, unit.job):
        # It starts for no less time than a restart costs, or where nobody must go for it: else it might have to at once.
        gone, leave = gone + max(state.rules.preemption.restart_cost, SECOND), ends_by
    for moment in promises.moments(leave):
        if gone <= moment.time:
            break
        free = promises.free_at(moment, gpus, path)
        if free < 0 and free < promises.free_at(moment):
            return _held_text(promises, moment.time, path, ", and it could not be gone by then")
    return None


def excess_over_promises(snapshot: ResourceSnapshot, unit: Unit) -> int:
    """How many GPUs others have to leave before the unit takes none that are reserved now, thousandths. With trials."""
    state, usage = snapshot.state, snapshot.usage
    gpus = gpus_of(unit.job, unit.indices) if state.gpu_reservations else 0
    promises = promises_of(state, usage) if gpus else None
    if promises is None or not promises.now:
        return 0
    free = promises.free_now(gpus, usage.tree.branches[usage.leaf_of(unit.job)].path)
    return max(0, min(-free, promises.free_now() - free)) * 1000


def start_breaks_promise(snapshot: ResourceSnapshot, job: Job) -> bool:
    """Whether a job with reserved resources may not start on them any more: it could not be gone by the time of a promise."""
    state = snapshot.state
    promises, gone = promises_of(state, snapshot.usage), gone_by(state, job)
    gpus, path = gpus_of(job, held_by(job)), snapshot.usage.tree.branches[snapshot.usage.leaf_of(job)].path
    times = (moment for moment in promises.moments() if moment.time < gone)
    return any(promises.free_at(moment) < min(0, promises.free_at(moment, -gpus, path)) for moment in times)


def start_waits_for_promise(snapshot: ResourceSnapshot, job: Job, members: Iterable[Task]) -> bool:
    """Whether these reserved tasks wait, although their GPUs are free: for a promise of now, others have to leave first."""
    state, usage = snapshot.state, snapshot.usage
    promises = promises_of(state, usage)
    if not promises.now:
        return False
    gpus, path = gpus_of(job, [task.index for task in members]), usage.tree.branches[usage.leaf_of(job)].path
    idle = promises.idle_now()
    return idle < 0 and idle < promises.idle_now(-gpus, path)


def _not_released(job: Job) -> list[int]:
    """The tasks whose GPUs are not free yet, or that have reserved some."""
    stuck = job.eviction is not None and job.eviction.stuck
    left = [] if stuck else [task for task in job.tasks if task.state != "released"]
    return [task.index for task in left if task.eviction is None or not task.eviction.stuck]


def being_evicted(state: PoolState) -> Iterator[tuple[Job, list[int], int]]:
    """Tasks whose eviction is in progress, and when it ends at the latest, µs; `NEVER`: it was cancelled, so that they stay.

    What a stuck eviction keeps is none of the pool's GPUs.
    """
    margin = state.rules.reservations.margin
    for job in (state.jobs[name] for name in state.evicting):
        ends: dict[int, list[int]] = {}
        for task in job.tasks:
            eviction = job.eviction or task.eviction
            if eviction is None or eviction.stuck or task.state in ("reserved", "released"):
                continue
            began = state.now if eviction.started_at is None else eviction.started_at
            end = NEVER if eviction.cancel_seq is not None else max(began + eviction.grace, state.now) + margin // 2
            ends.setdefault(end, []).append(task.index)
        for end, tasks in ends.items():
            yield job, tasks, end


def missing(tree: ProjectTree, promised: Mapping[str, int], used: Callable[[str], int]) -> int:
    """The GPUs that have to be free for the promises: what projects are promised and do not use."""
    known = [name for name in promised if name in tree.branches]
    total = 0
    of: dict[str, int] = {}
    below: dict[str, int] = dict.fromkeys(known, 0)
    for name in sorted(known, key=lambda name: -len(tree.branches[name].path)):
        of[name] = of.get(name, 0) + promised[name]
        left = max(below[name], of[name] - used(name))
        above = next((each for each in tree.branches[name].path[1:] if each in below), None)
        if above is None:
            total += left
        else:
            below[above] += left
            of[above] = of.get(above, 0) + of[name]
    return total


def gpus_of(job: Job, indices: Iterable[int]) -> int:
    """GPUs that these tasks use, each counted as a whole."""
    groups = job.demand.tasks
    if len(groups) == 1:
        return _gpus_of_task(groups[0]) * sum(1 for _ in indices)
    return sum(_gpus_of_task(job.group(index)) for index in indices)


class Held:
    """GPUs that jobs hold, or that are reserved for them, by project and those above it. A GPU that several share is one."""

    def __init__(self, tree: ProjectTree, jobs: Iterable[Job] = ()) -> None:
        self._tree = tree
        self._whole: dict[str, int] = {}
        self._shared: dict[str, dict[tuple[int, int], int]] = {}
        for job in jobs:
            self.add(job, held_by(job))

    def add(self, job: Job, indices: Iterable[int], sign: int = 1) -> None:
        """These tasks of the job hold theirs; with -1: no longer."""
        tasks = tuple(indices)
        path = self._tree.branches[self._tree.leaf_of(job.project)].path
        if not any(map(shares_devices, job.demand.tasks)):
            gpus = gpus_of(job, tasks) * sign
            for project in path if gpus else ():
                self._whole[project] = self._whole.get(project, 0) + gpus
            return
        reserved = {task.index: task for task in job.reservation}
        for index in tasks:
            task = job.task(index) or reserved[index]
            for number in bits(task.devices) if _gpus_of_task(job.group(index)) else ():
                for project in path:
                    of = self._shared.setdefault(project, {})
                    key = task.node, number
                    of[key] = of.get(key, 0) + sign
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


def held_by(job: Job) -> list[int]:
    """The tasks that have GPUs, or for which some are reserved, without those that leave them."""
    return [task.index for task in (*allocated_tasks(job), *job.reservation)]


def reserved_text(window: Window) -> str:
    """`16 GPUs are reserved for project demo, 2026-12-07 08:00 to 18:00 UTC (reservation demo-1)`."""
    each = window.reservation
    gpus = "1 GPU is" if each.gpus == 1 else f"{count_text(each.gpus, 'GPU')} are"
    return f"{gpus} reserved for {project_text(each.project)}, {window_text(window.begin, window.end)} (reservation {each.name})"


def _held_text(promises: Promises, time: int, path: tuple[str, ...], more: str) -> str:
    windows = promises.calendar.at(time)
    others = [window for window in windows if window.reservation.project not in path] or windows
    return reserved_text(others[0]) + (f" and {len(others) - 1} more" if len(others) > 1 else "") + more


def _gpus_of_task(group: TaskGroup) -> int:
    return 0 if group.mig_profile else devices_of(group)


def _whole_gpus(state: PoolState, usage: Usage) -> tuple[int, int, dict[str, int]]:
    """GPUs that tasks may get; thousandths that others of the same GPU leave unused; what MIG devices count as, by project."""
    weights = mig_weights_of(state.policy)
    mig: Amount = 0
    unused = 0
    for node in state.nodes.values():
        if not node.schedulable:
            continue
        usable = usable_devices(node)
        for device in node.devices:
            if profile_of(device) and usable >> device.number & 1:
                mig += device_gpu_milli(device, weights)
        for number in {**node.allocated.shares, **node.reserved.shares}:
            whole = node.devices[number]
            if not profile_of(whole) and usable >> number & 1:
                taken = node.allocated.shares.get(number, 0) + node.reserved.shares.get(number, 0)
                unused += 1000 - -(-taken * 1000 // units_of(whole))
    used: dict[str, int] = {}
    for job in state.active_jobs() if mig else ():
        if any(group.mig_profile for group in job.demand.tasks):
            unit = Unit(job, tuple(task.index for task in allocated_tasks(job) if job.group(task.index).mig_profile), core=True)
            amount = int(usage.allocated_to(unit).gpu_milli)
            for project in usage.tree.branches[usage.leaf_of(job)].path:
                used[project] = used.get(project, 0) + amount
    return int(usage.schedulable.gpu_milli - mig) // 1000, unused, used
