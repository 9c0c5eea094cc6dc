"""Who stands where, for looking at few of very many jobs: brought up to date with the scene, never rebuilt.

For each node, how many whole GPUs what is preemptible holds there, by priority, and since when the work on each of them
would be lost.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bailiff_core.model.pool import Job, Node, Pool
from bailiff_core.model.sharing import shares_devices
from bailiff_core.model.units import holds

from .alike import Group

Ints = NDArray[np.int64]
NOT_YET = 1 << 60  # since when work is lost that has not begun


@dataclass(slots=True)
class Standing:
    """One job: its group, its seq, since when its work would be lost, and what it holds by node. shrinks: it has surplus."""

    group: Group
    seq: int
    since: int
    shrinks: bool
    tasks: int
    nodes: dict[int, "Share"]

    @property
    def gpus(self) -> int:
        """All GPUs on which it stands, shared ones once per task."""
        return sum(share.gpus + share.for_nothing for share in self.nodes.values())


@dataclass(slots=True)
class Share:
    """GPUs of one job on one node: those that cost nothing to take, and of the others how many each task has; what leaves

    already is in neither. stays: all but those.
    """

    for_nothing: int = 0
    of_tasks: list[int] = field(default_factory=list)
    stays: int = 0

    @property
    def gpus(self) -> int:
        """Those that count."""
        return sum(self.of_tasks)


@dataclass(slots=True)
class Level:
    """What is preemptible at one priority, per node: its GPUs; since when each, the latest first; how few jobs and tasks

    hold so many of them; whether a job may shrink; and the youngest job. for_nothing: GPUs of promises, and shared ones,
    which count as costing nothing. least: for each number of GPUs, the fewest that must be taken to get so many.
    largest: the most that a single job has.
    """

    gpus: Ints
    since: Ints
    jobs_for: Ints
    tasks_for: Ints
    shrinks: Ints
    youngest: Ints
    for_nothing: Ints
    least: Ints
    largest: Ints

    @classmethod
    def empty(cls, rows: int, widest: int) -> "Level":
        """Nobody anywhere."""
        gpus, shrinks, youngest, for_nothing, largest = (np.zeros(rows, np.int64) for _ in range(5))
        jobs_for, tasks_for, least = (np.zeros((rows, widest + 1), np.int64) for _ in range(3))
        since = np.full((rows, widest), NOT_YET, np.int64)
        return cls(gpus, since, jobs_for, tasks_for, shrinks, youngest, for_nothing, least, largest)

    def put(self, number: int, here: list[tuple[Standing, Share]]) -> None:
        """These stand on the node."""
        self.largest[number] = max((share.stays for _, share in here), default=0)
        self.for_nothing[number] = sum(share.for_nothing for _, share in here)
        gpus = [standing.since for standing, share in here for _ in range(share.gpus)]
        gpus.sort(reverse=True)
        self.gpus[number] = len(gpus)
        self.since[number, : len(gpus)] = gpus
        self.since[number, len(gpus) :] = NOT_YET
        _fewest(self.jobs_for[number], [share.gpus for _, share in here])
        _fewest(self.tasks_for[number], [gpus for _, share in here for gpus in share.of_tasks])
        _least(self.least[number], [size for standing, share in here for size in _pieces(standing, share)])
        self.shrinks[number] = any(standing.shrinks for standing, _ in here)
        self.youngest[number] = max((standing.seq for standing, _ in here), default=0)

    def put_all(self, held: dict[int, list[tuple[Standing, Share]]]) -> None:
        """`put` for many nodes."""
        width = self.least.shape[1]
        rows: Ints = np.fromiter(held, np.int64, len(held))
        counts: list[int] = []
        largest: list[int] = []
        nothing: list[int] = []
        youngest: list[int] = []
        shrinks: list[bool] = []
        since: list[int] = []
        at: list[int] = []  # where in the flat array each of these belongs
        fewest_jobs, fewest_tasks, least = _Tables(_fewest, width), _Tables(_fewest, width), _Tables(_least, width)
        for number, here in held.items():
            sizes = [share.gpus for _, share in here]
            gpus = [standing.since for (standing, _), size in zip(here, sizes, strict=True) for _ in range(size)]
            gpus.sort(reverse=True)
            counts.append(len(gpus))
            since += gpus
            at += range(number * (width - 1), number * (width - 1) + len(gpus))
            largest.append(max([share.stays for _, share in here]))
            nothing.append(sum([share.for_nothing for _, share in here]))
            youngest.append(max([standing.seq for standing, _ in here]))
            shrinking = any(standing.shrinks for standing, _ in here)
            shrinks.append(shrinking)
            fewest_jobs.add(sizes)
            fewest_tasks.add([size for _, share in here for size in share.of_tasks])
            least.add([size for standing, share in here for size in _pieces(standing, share)] if shrinking else sizes)
        self.gpus[rows], self.largest[rows], self.for_nothing[rows] = counts, largest, nothing
        self.shrinks[rows], self.youngest[rows] = shrinks, youngest
        self.since.reshape(-1)[at] = since
        self.jobs_for[rows], self.tasks_for[rows], self.least[rows] = fewest_jobs.all(), fewest_tasks.all(), least.all()


class _Tables:
    """What `count` makes of each of many lists of sizes, in any order: made once for equal ones."""

    def __init__(self, count: Callable[[Ints, list[int]], None], width: int) -> None:
        self._count, self._width = count, width
        self._known: dict[tuple[int, ...], int] = {}
        self._made: list[Ints] = []
        self._wanted: list[int] = []

    def add(self, sizes: list[int]) -> None:
        """The next list."""
        key = tuple(sorted(sizes)) if len(sizes) > 1 else tuple(sizes)
        place = self._known.get(key)
        if place is None:
            place = self._known[key] = len(self._made)
            counts = np.zeros(self._width, np.int64)
            self._count(counts, sizes)
            self._made.append(counts)
        self._wanted.append(place)

    def all(self) -> Ints:
        """One row for each list."""
        return np.stack(self._made)[self._wanted]


def _pieces(standing: Standing, share: Share) -> list[int]:
    """How many GPUs go at once: those of a job, or, where it can shrink, of each of its tasks."""
    return share.of_tasks if standing.shrinks else [share.gpus]


def _least(counts: Ints, sizes: list[int]) -> None:
    """For each number of GPUs, the smallest sum of some of these that is not below it."""
    sums = 1  # a bit for each sum that some of them have
    for size in sizes:
        sums |= sums << size
    for wanted in range(1, min(len(counts), sum(sizes) + 1)):
        above = sums >> wanted
        counts[wanted] = wanted + (above & -above).bit_length() - 1


def _fewest(counts: Ints, sizes: list[int]) -> None:
    """For each number of GPUs, how few of these hold at least so many."""
    held = 0
    for count, size in enumerate(sorted(sizes, reverse=True), start=1):
        counts[held + 1 : held + size + 1] = count
        held += size


@dataclass(slots=True)
class Holdings:
    """All jobs that hold room. all_gpus: of everybody who stays, per node. tasks, gpus: of all jobs together."""

    of: dict[str, Standing] = field(default_factory=dict)
    on: dict[int, dict[str, None]] = field(default_factory=dict)
    levels: dict[int, Level] = field(default_factory=dict)
    all_gpus: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    widest: int = 0
    tasks: int = 0
    gpus: int = 0

    @classmethod
    def of_pool(cls, pool: Pool) -> "Holdings":
        """Of the pool as it is."""
        made = cls()
        rows = max(pool.nodes, default=-1) + 1
        made.all_gpus = np.zeros(rows, np.int64)
        made.widest = max((len(node.devices) for node in pool.nodes.values()), default=0)
        made._fill(pool)
        return made

    def has_room_for(self, nodes: Iterable[Node]) -> bool:
        """Whether these nodes find their place in the arrays; otherwise it has to be made anew."""
        return all(node.number < len(self.all_gpus) and len(node.devices) <= self.widest for node in nodes)

    def refresh(self, pool: Pool, jobs: Iterable[str]) -> None:
        """Look at these jobs anew."""
        rows: dict[int, None] = {}
        for name in list(jobs):
            job = pool.jobs.get(name)
            before = self.of.pop(name, None)
            if before is not None:
                self._leave(name, before)
                rows.update(dict.fromkeys(before.nodes))
            if job is not None and name in pool.active:
                after = self.of[name] = _standing(job)
                self.tasks += after.tasks
                self.gpus += after.gpus
                for number in after.nodes:
                    self.on.setdefault(number, {})[name] = None
                rows.update(dict.fromkeys(after.nodes))
        for number in rows:
            self._count(number)

    def _fill(self, pool: Pool) -> None:
        """`refresh` of all jobs, for nobody is known yet: each list is sorted once, each array written once."""
        held: dict[int, dict[int, list[tuple[Standing, Share]]]] = {}
        staying = [0] * len(self.all_gpus)
        for name in pool.active:
            standing = self.of[name] = _standing(pool.jobs[name])
            phase, priority, _, preemptible = standing.group
            self.tasks += standing.tasks
            for number, share in standing.nodes.items():
                self.gpus += share.gpus + share.for_nothing
                self.on.setdefault(number, {})[name] = None
                staying[number] += share.stays
                if preemptible and phase != "evicting":
                    held.setdefault(priority, {}).setdefault(number, []).append((standing, share))
        self.all_gpus[:] = staying
        for priority in sorted(held):
            self.levels[priority] = Level.empty(len(self.all_gpus), self.widest)
            self.levels[priority].put_all(held[priority])

    def _leave(self, name: str, before: Standing) -> None:
        self.tasks -= before.tasks
        self.gpus -= before.gpus
        for number in before.nodes:
            del self.on[number][name]

    def _count(self, number: int) -> None:
        by_priority: dict[int, list[tuple[Standing, Share]]] = {}
        everybody = 0
        for name in self.on[number]:
            standing = self.of[name]
            phase, priority, _, preemptible = standing.group
            share = standing.nodes[number]
            everybody += share.stays
            if preemptible and phase != "evicting":  # what leaves already is room to come
                by_priority.setdefault(priority, []).append((standing, share))
        self.all_gpus[number] = everybody
        for priority in by_priority:
            if priority not in self.levels:
                self.levels[priority] = Level.empty(len(self.all_gpus), self.widest)
        for priority, level in self.levels.items():
            here = by_priority.get(priority, [])
            if here or level.gpus[number] or level.for_nothing[number]:
                level.put(number, here)


def _standing(job: Job) -> Standing:
    nodes: dict[int, Share] = {}
    count = 0
    stays, shared = job.phase != "evicting", any(map(shares_devices, job.demand.tasks))
    for task in job.tasks:
        if not holds(task):
            continue
        count += 1
        share = nodes.get(task.node)
        if share is None:
            share = nodes[task.node] = Share()
        if task.eviction is not None:
            continue
        gpus = task.devices.bit_count()
        if stays:
            share.stays += gpus
        if task.state == "reserved" or (shared and shares_devices(job.group(task.index))):
            share.for_nothing += gpus
        else:
            share.of_tasks.append(gpus)
    since = NOT_YET if job.last_start is None else max(job.last_start, job.last_checkpoint or 0)
    shrinks = count > job.minimum or bool(job.demand.sub_groups)
    return Standing((job.phase, job.priority, job.project, job.preemptible), job.seq, since, shrinks, count, nodes)
