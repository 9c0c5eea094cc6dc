"""When running jobs are expected to end, and what is free on each node after each of them.

Kept up to date with the snapshot, so that who has to end for a unit to find room is counted and not played through.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bailiff_core.model.gpu_shares import shares_devices, task_resources
from bailiff_core.model.resources import add, release
from bailiff_core.model.sorted_jobs import Key
from bailiff_core.model.state import Job, Node, PoolState, Resources, Task
from bailiff_core.model.units import Unit, has_resources, whole_job
from bailiff_core.placement.cluster_resources import ClusterResources, NodeResources
from bailiff_core.placement.task_requirements import TaskRequirements

from .completion_order import KNOWN_END, UNKNOWN_END, completion_order

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
PROMISED = 2  # who has not begun ends after all that run
RANK = 1 << 61  # what a rank adds to a moment
NEVER = (1 << 63) - 1
NEEDS_KEPT = 32
ROOM_PARTS = 4
Parts = tuple[int, int, int, int]  # devices as a mask, CPU, memory, slots


class End(NamedTuple):
    """A place in the order in which jobs are taken to end. `moment`: µs, and the rank of how it is known."""

    moment: int
    seq: int

    def when(self) -> int | None:
        """The moment, µs, of a job with a run-time limit."""
        return self.moment if self.moment < RANK // 2 else None


NOBODY = End(-RANK, -1)


@dataclass(slots=True)
class _Opening:
    """What the endings come to for one need. first: tasks that each node takes now. gains: how many more after each ending.

    seen: changed rows that are counted in.
    """

    eligible_nodes: list[tuple[NodeResources, int]]
    masks: Ints
    first: Ints
    gains: Ints
    seen: int = 0


class Endings:
    """By node number, the ends of the jobs there in order, and the room that is free, or about to be, after each.

    The snapshot must hold no trial whenever this is asked.
    """

    def __init__(self, state: PoolState, rooms: ClusterResources) -> None:
        self._state, self._rooms = state, rooms
        rows = max(state.nodes, default=-1) + 1
        self._standing: dict[str, dict[int, Resources | list[Task]]] = {}
        self._on: dict[int, dict[str, None]] = {}
        self._starting: dict[int, None] = {}
        self._now = state.now
        self._moments: Ints = np.full((rows, 1), NEVER, np.int64)
        self._seqs: Ints = np.zeros((rows, 1), np.int64)
        self._rooms_after: Ints = np.zeros((ROOM_PARTS, rows, 2), np.int64)
        self._openings: dict[TaskRequirements, _Opening] = {}
        self._changed: list[int] = []
        self.refresh(state.active, state.nodes)

    def has_place_for(self, nodes: Iterable[Node]) -> bool:
        """Whether these nodes find their place in the arrays; otherwise all has to be made anew."""
        return all(node.number < len(self._moments) for node in nodes)

    def refresh(self, jobs: Iterable[str], nodes: Iterable[int]) -> None:
        """Look at these jobs and nodes anew, and at those who begin just now."""
        stale = dict.fromkeys(nodes)
        for name in jobs:
            before = self._standing.pop(name, {})
            job = self._state.jobs.get(name)
            now = _standing(job) if job is not None and name in self._state.active else {}
            for number in before:
                del self._on[number][name]
            for number in now:
                self._on.setdefault(number, {})[name] = None
            if now:
                self._standing[name] = now
            stale.update(dict.fromkeys((*before, *now)))
        if self._now != self._state.now:
            self._now = self._state.now
            stale.update(self._starting)
        self._count(list(stale))
        self._changed += stale
        if len(self._changed) > 4 * len(self._moments):
            self._changed.clear()
            self._openings.clear()

    def enough_for(self, need: TaskRequirements, wanted: int) -> End | None:
        """The first end after which so many tasks of the need have room on some nodes, nobody else asking; `None`: never.

        Not for needs that share devices.
        """
        opening = self._opening(need)
        missing = wanted - int(opening.first.sum())
        if missing <= 0:
            return NOBODY
        found = np.flatnonzero(opening.gains)
        moments = self._moments.ravel()[found]
        if len(moments) > missing:  # each brings at least one, so those beyond are not needed
            bound = np.partition(moments, missing - 1)[missing - 1]
            found = found[moments <= bound]
            moments = self._moments.ravel()[found]
        seqs = self._seqs.ravel()[found]
        order = np.lexsort((seqs, moments))
        at = int(np.searchsorted(np.cumsum(opening.gains.ravel()[found][order]), missing))
        return End(int(moments[order[at]]), int(seqs[order[at]])) if at < len(order) else None

    def until(self, last: End) -> int:
        """How many jobs end until then."""
        rank = 0 if last == NOBODY else (last.moment + RANK // 2) // RANK
        agenda = completion_order(self._state)
        count = bisect_left(agenda, (rank, last.moment - rank * RANK, last.seq + 1, ""))
        others = (self._state.jobs[name] for name in {**self._state.starting, **self._state.reserved})
        return count + sum(job.phase != "running" and (end := self._end_of(job)) is not None and end <= last for job in others)

    def leaving(self, need: TaskRequirements, last: End) -> list[Unit]:
        """Those who end until then and stand where a task of the need then has room."""
        opening = self._opening(need)
        gone = self._until(last)
        rows = np.flatnonzero(opening.first + np.where(gone, opening.gains, 0).sum(axis=1))
        found: dict[str, Job] = {}
        for number in rows.tolist():
            for name in self._on.get(number, ()):
                job = self._state.jobs[name]
                end = self._end_of(job)
                if end is not None and end <= last:
                    found[name] = job
        return [whole_job(job) for job in found.values()]

    def _until(self, last: End) -> Flags:
        gone: Flags = (self._moments < last.moment) | ((self._moments == last.moment) & (self._seqs <= last.seq))
        return gone

    def _end_of(self, job: Job) -> End | None:
        limit = job.demand.run_time_limit
        if job.phase == "running" and job.last_start is not None:
            return End(RANK + job.last_start, job.seq) if limit is None else End(job.last_start + limit, job.seq)
        if job.phase == "starting" and job.id in self._state.starting:
            return End(RANK + self._state.now, job.seq) if limit is None else End(self._state.now + limit, job.seq)
        return End(PROMISED * RANK, job.seq) if job.phase == "reserved" else None

    def _count(self, numbers: list[int]) -> None:
        """What is free on these nodes after each end there."""
        if not numbers:
            return
        lines = [self._line(number) for number in numbers]
        self._widen(max(len(line) for line in lines) - 1)
        width = self._moments.shape[1]
        moments, seqs, rooms = [], [], []
        for line in lines:
            filling = width + 1 - len(line)
            moments.append([end.moment for end, _ in line[1:]] + [NEVER] * filling)
            seqs.append([end.seq for end, _ in line[1:]] + [0] * filling)
            rooms.append([room for _, room in line] + [line[-1][1]] * filling)
        self._moments[numbers], self._seqs[numbers] = moments, seqs
        self._rooms_after[:, numbers] = np.array(rooms, np.int64).transpose(2, 0, 1)

    def _line(self, number: int) -> list[tuple[End, Parts]]:
        """What is free on the node now, and after each end there."""
        node = self._rooms.nodes.get(number)
        self._starting.pop(number, None)
        if node is None:
            return [(NOBODY, _parts(Resources()))]
        ends: list[tuple[End, str]] = []
        for name in self._on.get(number, ()):
            job = self._state.jobs[name]
            end = self._end_of(job)
            if end is not None:
                ends.append((end, name))
            if job.phase == "starting":
                self._starting[number] = None
        ends.sort()
        room = node.future
        line = [(NOBODY, _parts(room))]
        for end, name in ends:
            stands = self._standing[name][number]
            amount = stands if isinstance(stands, Resources) else _amount(self._state.jobs[name], stands, node)
            room = release(room, amount, node.units, node.usable)
            line.append((end, _parts(room)))
        return line

    def _widen(self, width: int) -> None:
        """So many end on one node."""
        before = self._moments.shape[1]
        if width > before:
            more_of = max(width, 2 * before) - before
            self._moments = np.pad(self._moments, ((0, 0), (0, more_of)), constant_values=NEVER)
            self._seqs = np.pad(self._seqs, ((0, 0), (0, more_of)))
            self._rooms_after = np.pad(self._rooms_after, ((0, 0), (0, 0), (0, more_of)), mode="edge")
            self._openings.clear()

    def _opening(self, need: TaskRequirements) -> _Opening:
        eligible_nodes = self._rooms.eligible_nodes(need)
        found = self._openings.pop(need, None)
        if found is None or found.eligible_nodes is not eligible_nodes:
            rows, width = self._moments.shape
            masks = np.zeros(rows, np.int64)
            for node, devices in eligible_nodes:
                masks[node.number] = _signed(devices) if need.gpus else 1
            found = _Opening(eligible_nodes, masks, np.zeros(rows, np.int64), np.zeros((rows, width), np.int64))
            self._fill(need, found, np.arange(rows))
            if len(self._openings) >= NEEDS_KEPT:
                del self._openings[next(iter(self._openings))]
        elif found.seen < len(self._changed):
            self._fill(need, found, np.array(list(dict.fromkeys(self._changed[found.seen :])), np.int64))
        found.seen = len(self._changed)
        self._openings[need] = found
        return found

    def _fill(self, need: TaskRequirements, opening: _Opening, rows: Ints) -> None:
        """Count for these nodes how many tasks each takes after each ending: `slots_for`, of all at once."""
        devices, cpu_milli, memory_bytes, counts = self._rooms_after[:, rows]
        if need.cpu_milli:
            counts = np.minimum(counts, cpu_milli // need.cpu_milli)
        if need.memory_bytes:
            counts = np.minimum(counts, memory_bytes // need.memory_bytes)
        masks = opening.masks[rows, None]
        if need.gpus:
            free = np.bitwise_count((devices & masks).view(np.uint64)).astype(np.int64)
            counts = np.minimum(counts, free // need.gpus)
        counts = np.where(masks, np.maximum(counts, 0), 0)
        opening.first[rows] = counts[:, 0]
        opening.gains[rows] = np.diff(counts, axis=1)


def in_order_of_end(state: PoolState) -> Iterator[Job]:
    """Jobs with a run-time limit by their end; then the others, the one that runs longest first; then promised ones.

    Whoever is just being started ends so long from now. Jobs that are leaving are room to come already.
    """
    starting = [state.jobs[name] for name in state.starting]
    begun: list[Key] = sorted(_begins(state.now, job) for job in starting if job.phase == "starting")
    for *_, name in merge(completion_order(state), begun):
        yield state.jobs[name]
    promised = [job for name in state.reserved if (job := state.jobs[name]).phase == "reserved"]
    yield from sorted(promised, key=lambda job: (job.seq, job.id))


def known_end(state: PoolState, job: Job) -> int | None:
    """When a job with a run-time limit ends, µs; from now on, where it has not begun to run. Promised ones: not known."""
    limit = job.demand.run_time_limit
    if limit is None or job.phase == "reserved":
        return None
    return (job.last_start if job.phase == "running" and job.last_start is not None else state.now) + limit


def _begins(now: int, job: Job) -> Key:
    limit = job.demand.run_time_limit
    return (UNKNOWN_END, now, job.seq, job.id) if limit is None else (KNOWN_END, now + limit, job.seq, job.id)


def _standing(job: Job) -> dict[int, Resources | list[Task]]:
    """By node, what the job's tasks take of it; of jobs that share devices, whose amounts go by the devices, the tasks."""
    shares = any(map(shares_devices, job.demand.tasks))
    members: dict[int, list[Task]] = {}
    amounts: dict[int, Resources] = {}
    for task in job.tasks:
        if task.eviction is None and has_resources(task):
            if shares:
                members.setdefault(task.node, []).append(task)
            else:
                group = job.group(task.index)
                add(amounts.setdefault(task.node, Resources()), task.devices, group.cpu_milli, group.memory_bytes)
    return {**amounts, **members}


def _amount(job: Job, tasks: list[Task], node: NodeResources) -> Resources:
    amount = Resources()
    for task in tasks:
        add(amount, *task_resources(node.node, job.group(task.index), task.devices))
    return amount


def _parts(room: Resources) -> Parts:
    return _signed(room.devices), room.cpu_milli, room.memory_bytes, room.slots


def _signed(mask: int) -> int:
    """The mask as a signed number of 64 bits."""
    return mask - (1 << 64) if mask >> 63 else mask
