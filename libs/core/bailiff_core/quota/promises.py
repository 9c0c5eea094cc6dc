"""GPUs that are promised to projects (`calendar/`): what is left for others now, and at each time to come.

Whole GPUs count: a task that uses a part of one counts as all of it, one with a MIG device as none. What a project uses is
part of what it is promised. Where the promises of a project and of one below it meet, both hold, one beside the other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from bailiff_core.calendar.windows import Calendar, Window, calendar_of
from bailiff_core.humanize import count_text, window_text
from bailiff_core.model.project_tree import ROOT, ProjectTree, project_text
from bailiff_core.model.resource_vector import Amount
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.model.units import Unit, allocated_tasks

from .holdings import Held, gpus_of, held_by
from .leaving import NEVER, Leave, evictable_from, gone_after_start, gone_by, until_evictable, until_limit
from .resource_snapshot import ResourceSnapshot
from .usage import Usage


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
        self.holdings = usage.holdings
        self.gpus = int(usage.schedulable.gpu_milli - self.holdings.mig) // 1000
        self._mig = self._used_mig() if self.holdings.mig else {}
        self.now = self.calendar.promised(state.now)
        self._to_come: dict[Leave, Forecast] = {}

    def _used_mig(self) -> dict[str, Amount]:
        """What MIG devices in use count as, by project, thousandths."""
        used: dict[str, Amount] = {}
        for job in map(self._state.jobs.__getitem__, self.holdings.mig_jobs):
            tasks = tuple(task.index for task in allocated_tasks(job) if job.group(task.index).mig_profile)
            amount = int(self._usage.allocated_to(Unit(job, tasks, core=True)).gpu_milli)
            for project in self._tree.branches[self._usage.leaf_of(job)].path:
                used[project] = used.get(project, 0) + amount
        return used

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
            (self.gpus * 1000 - self.holdings.unused_parts - self._usage.allocated(ROOT).gpu_milli + self._mig.get(ROOT, 0))
            // 1000
        )
        return free - more - missing(self._tree, self.now, used)

    def idle_now(self, more: int = 0, path: tuple[str, ...] = ()) -> int:
        """As `free_now`, of GPUs that everybody has left. Without trials."""

        def used(project: str) -> int:
            return self.holdings.in_use.by(project) + (more if project in path else 0)

        return self.gpus - self.holdings.in_use.by(ROOT) - more - missing(self._tree, self.now, used)

    def free_at(self, moment: Moment, more: int = 0, path: tuple[str, ...] = ()) -> int:
        """The same at a time to come, as far as jobs cannot be gone by then."""
        if not more or moment.promised.keys().isdisjoint(path):
            return moment.free - more  # none of them is promised any of these

        def used(project: str) -> int:
            return moment.held.by(project) + (more if project in path else 0)

        return self.gpus - moment.held.by(ROOT) - more - missing(self._tree, moment.promised, used)

    def moments(self, leave: Leave = until_evictable) -> "Forecast":
        """The times to come from which something else is promised, soonest first.

        Args:
            leave: Until when a job stays: until it may be evicted, or until its limit.
        """
        if leave not in self._to_come:
            self._to_come[leave] = self.at(self.calendar.upcoming(self._state.now), leave)
        return self._to_come[leave]

    def at(self, times: Iterable[tuple[int, Mapping[str, int]]], leave: Leave = until_evictable) -> "Forecast":
        """These times, from now on, soonest first, each with what is promised then."""
        return Forecast(self, list(times), leave)

    def late(self, time: int, leave: Leave) -> Held | None:
        """What else is not free by then: of who would have to begin to leave before now, and of evictions that last longer."""
        late = self.holdings.late(time, self._state.now, leave)
        evicted = [(job, tasks) for job, tasks, end in being_evicted(self._state) if end > time]
        if not late and not evicted:
            return None
        held = Held(self._tree)
        for gpus in late:
            held.add_gpus(gpus)
        for job, tasks in evicted:
            held.add(job, tasks)
        return held

    def moment(self, time: int, promised: Mapping[str, int], held: Held) -> Moment:
        """That time, with what is held and promised then."""
        return Moment(time, promised, held, self.gpus - held.by(ROOT) - missing(self._tree, promised, held.by))


class Forecast:
    """Times to come, each of which is worked out once, when somebody gets so far. No generator: states are copied with it."""

    def __init__(self, promises: Promises, times: Sequence[tuple[int, Mapping[str, int]]], leave: Leave) -> None:
        self._promises, self._times, self._leave = promises, times, leave
        self._departures = promises.holdings.departures(leave)
        self._known: list[Moment] = []

    def __iter__(self) -> Iterator[Moment]:
        for at in range(len(self._times)):
            if at == len(self._known):
                self._known.append(self._next(*self._times[at]))
            yield self._known[at]

    def _next(self, time: int, promised: Mapping[str, int]) -> Moment:
        held, late = self._departures.held_after(time), self._promises.late(time, self._leave)
        if late is not None:
            held = held.copy()
            held.add_all(late)
        return self._promises.moment(time, promised, held)


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
    gone = gone_after_start(state, unit.job)
    # One that may be evicted starts where nobody must go for it: else it might have to at once.
    leave: Leave = until_evictable if evictable_from(state, unit.job) else until_limit
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


def reserved_text(window: Window) -> str:
    """`16 GPUs are reserved for project demo, 2026-12-07 08:00 to 18:00 UTC (reservation demo-1)`."""
    each = window.reservation
    gpus = "1 GPU is" if each.gpus == 1 else f"{count_text(each.gpus, 'GPU')} are"
    return f"{gpus} reserved for {project_text(each.project)}, {window_text(window.begin, window.end)} (reservation {each.name})"


def _held_text(promises: Promises, time: int, path: tuple[str, ...], more: str) -> str:
    windows = promises.calendar.at(time)
    others = [window for window in windows if window.reservation.project not in path] or windows
    return reserved_text(others[0]) + (f" and {len(others) - 1} more" if len(others) > 1 else "") + more
