"""Forecast for backfill: when running jobs are expected to complete, and the free resources of each node after each completion.

Updated with the snapshot, so that the completions that a unit needs are counted with arrays instead of simulated.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bailiff_core.model.gpu_shares import shares_devices, task_resources
from bailiff_core.model.resources import add, release
from bailiff_core.model.state import Job, Node, PoolState, Resources, Task
from bailiff_core.model.units import Unit, has_resources, whole_job
from bailiff_core.placement.cluster_resources import ClusterResources, NodeResources
from bailiff_core.placement.task_requirements import TaskRequirements

from .completion_order import ASSUMED_EVICTED, NO_COMPLETION, RANK, RESERVED, End, completion_order

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
NEVER = (1 << 63) - 1
CACHE_SIZE = 32
PARTS = 4
Parts = tuple[int, int, int, int]  # devices as a mask, CPU, memory, slots


@dataclass(slots=True)
class _TaskForecast:
    """Forecast for one task type. first: tasks that fit on each node now. gains: additional tasks after each completion.

    seen: number of changed rows that are included.
    """

    eligible_nodes: list[tuple[NodeResources, int]]
    masks: Ints
    first: Ints
    gains: Ints
    seen: int = 0


class CompletionForecast:
    """Expected completions by node number, in order, and the node's free and releasing resources after each.

    Must be queried while the snapshot contains no trial.
    """

    def __init__(self, state: PoolState, cluster: ClusterResources) -> None:
        self._state, self._cluster = state, cluster
        rows = max(state.nodes, default=-1) + 1
        self._allocated: dict[str, dict[int, Resources | list[Task]]] = {}
        self._on: dict[int, dict[str, None]] = {}
        self._starting: dict[int, None] = {}
        self._now = state.now
        self._moments: Ints = np.full((rows, 1), NEVER, np.int64)
        self._seqs: Ints = np.zeros((rows, 1), np.int64)
        self._free_after: Ints = np.zeros((PARTS, rows, 2), np.int64)
        self._task_forecasts: dict[TaskRequirements, _TaskForecast] = {}
        self._changed: list[int] = []
        self.refresh(state.active, state.nodes)

    def covers(self, nodes: Iterable[Node]) -> bool:
        """Whether the arrays have rows for these nodes; otherwise the forecast must be rebuilt."""
        return all(node.number < len(self._moments) for node in nodes)

    def refresh(self, jobs: Iterable[str], nodes: Iterable[int]) -> None:
        """Reload these jobs and nodes from the state, and the nodes of jobs that are starting."""
        stale = dict.fromkeys(nodes)
        for name in jobs:
            before = self._allocated.pop(name, {})
            job = self._state.jobs.get(name)
            now = _allocated(job) if job is not None and name in self._state.active else {}
            for number in before:
                del self._on[number][name]
            for number in now:
                self._on.setdefault(number, {})[name] = None
            if now:
                self._allocated[name] = now
            stale.update(dict.fromkeys((*before, *now)))
        if self._now != self._state.now:
            self._now = self._state.now
            stale.update(self._starting)
        self._update(list(stale))
        self._changed += stale
        if len(self._changed) > 4 * len(self._moments):
            self._changed.clear()
            self._task_forecasts.clear()

    def first_fit(self, need: TaskRequirements, wanted: int) -> End | None:
        """Returns the first completion after which `wanted` of these tasks fit if nothing else is placed; `None`: never.

        Not for requirements that share devices.
        """
        task_forecast = self._task_forecast(need)
        missing = wanted - int(task_forecast.first.sum())
        if missing <= 0:
            return NO_COMPLETION
        found = np.flatnonzero(task_forecast.gains)
        moments = self._moments.ravel()[found]
        if len(moments) > missing:  # each gains at least one task, so later ones are not needed
            bound = np.partition(moments, missing - 1)[missing - 1]
            found = found[moments <= bound]
            moments = self._moments.ravel()[found]
        seqs = self._seqs.ravel()[found]
        order = np.lexsort((seqs, moments))
        at = int(np.searchsorted(np.cumsum(task_forecast.gains.ravel()[found][order]), missing))
        return End(int(moments[order[at]]), int(seqs[order[at]])) if at < len(order) else None

    def count_until(self, last: End) -> int:
        """Number of jobs that complete up to and including `last`."""
        rank = 0 if last == NO_COMPLETION else (last.moment + RANK // 2) // RANK
        running = completion_order(self._state)
        count = bisect_left(running, (rank, last.moment - rank * RANK, last.seq + 1, ""))
        others = (self._state.jobs[name] for name in {**self._state.starting, **self._state.reserved})
        return count + sum(job.phase != "running" and (end := self._end_of(job)) is not None and end <= last for job in others)

    def completing(self, need: TaskRequirements, last: End) -> list[Unit]:
        """Jobs that complete up to `last` and are allocated on nodes where one of these tasks then fits."""
        task_forecast = self._task_forecast(need)
        completed = self._completed_by(last)
        rows = np.flatnonzero(task_forecast.first + np.where(completed, task_forecast.gains, 0).sum(axis=1))
        found: dict[str, Job] = {}
        for number in rows.tolist():
            for name in self._on.get(number, ()):
                job = self._state.jobs[name]
                end = self._end_of(job)
                if end is not None and end <= last:
                    found[name] = job
        return [whole_job(job) for job in found.values()]

    def _completed_by(self, last: End) -> Flags:
        completed: Flags = (self._moments < last.moment) | ((self._moments == last.moment) & (self._seqs <= last.seq))
        return completed

    def _end_of(self, job: Job) -> End | None:
        if job.id in self._state.indices.assumed_evicted:
            return End(ASSUMED_EVICTED, job.seq)
        limit = job.demand.run_time_limit
        if job.phase == "running" and job.last_start is not None:
            return End(RANK + job.last_start, job.seq) if limit is None else End(job.last_start + limit, job.seq)
        if job.phase == "starting" and job.id in self._state.starting:
            return End(RANK + self._state.now, job.seq) if limit is None else End(self._state.now + limit, job.seq)
        return End(RESERVED * RANK, job.seq) if job.phase == "reserved" else None

    def _update(self, numbers: list[int]) -> None:
        """Recompute the free resources of these nodes after each completion."""
        if not numbers:
            return
        forecasts = [self._forecast(number) for number in numbers]
        self._widen(max(len(forecast) for forecast in forecasts) - 1)
        width = self._moments.shape[1]
        moments, seqs, resources = [], [], []
        for forecast in forecasts:
            padding = width + 1 - len(forecast)
            moments.append([end.moment for end, _ in forecast[1:]] + [NEVER] * padding)
            seqs.append([end.seq for end, _ in forecast[1:]] + [0] * padding)
            resources.append([free for _, free in forecast] + [forecast[-1][1]] * padding)
        self._moments[numbers], self._seqs[numbers] = moments, seqs
        self._free_after[:, numbers] = np.array(resources, np.int64).transpose(2, 0, 1)

    def _forecast(self, number: int) -> list[tuple[End, Parts]]:
        """Free and releasing resources of the node now, and after each completion there."""
        node = self._cluster.nodes.get(number)
        self._starting.pop(number, None)
        if node is None:
            return [(NO_COMPLETION, _parts(Resources()))]
        ends: list[tuple[End, str]] = []
        for name in self._on.get(number, ()):
            job = self._state.jobs[name]
            end = self._end_of(job)
            if end is not None:
                ends.append((end, name))
            if job.phase == "starting":
                self._starting[number] = None
        ends.sort()
        free = node.future
        forecast = [(NO_COMPLETION, _parts(free))]
        for end, name in ends:
            allocated = self._allocated[name][number]
            amount = allocated if isinstance(allocated, Resources) else _amount(self._state.jobs[name], allocated, node)
            free = release(free, amount, node.units, node.usable)
            forecast.append((end, _parts(free)))
        return forecast

    def _widen(self, width: int) -> None:
        """Extend the arrays to this number of completions per node."""
        before = self._moments.shape[1]
        if width > before:
            added = max(width, 2 * before) - before
            self._moments = np.pad(self._moments, ((0, 0), (0, added)), constant_values=NEVER)
            self._seqs = np.pad(self._seqs, ((0, 0), (0, added)))
            self._free_after = np.pad(self._free_after, ((0, 0), (0, 0), (0, added)), mode="edge")
            self._task_forecasts.clear()

    def _task_forecast(self, need: TaskRequirements) -> _TaskForecast:
        eligible_nodes = self._cluster.eligible_nodes(need)
        found = self._task_forecasts.pop(need, None)
        if found is None or found.eligible_nodes is not eligible_nodes:
            rows, width = self._moments.shape
            masks = np.zeros(rows, np.int64)
            for node, devices in eligible_nodes:
                masks[node.number] = _signed(devices) if need.gpus else 1
            found = _TaskForecast(eligible_nodes, masks, np.zeros(rows, np.int64), np.zeros((rows, width), np.int64))
            self._fill(need, found, np.arange(rows))
            if len(self._task_forecasts) >= CACHE_SIZE:
                del self._task_forecasts[next(iter(self._task_forecasts))]
        elif found.seen < len(self._changed):
            self._fill(need, found, np.array(list(dict.fromkeys(self._changed[found.seen :])), np.int64))
        found.seen = len(self._changed)
        self._task_forecasts[need] = found
        return found

    def _fill(self, need: TaskRequirements, task_forecast: _TaskForecast, rows: Ints) -> None:
        """Count the tasks that fit on each of these nodes after each completion: `slots_for`, vectorized."""
        devices, cpu_milli, memory_bytes, counts = self._free_after[:, rows]
        if need.cpu_milli:
            counts = np.minimum(counts, cpu_milli // need.cpu_milli)
        if need.memory_bytes:
            counts = np.minimum(counts, memory_bytes // need.memory_bytes)
        masks = task_forecast.masks[rows, None]
        if need.gpus:
            free = np.bitwise_count((devices & masks).view(np.uint64)).astype(np.int64)
            counts = np.minimum(counts, free // need.gpus)
        counts = np.where(masks, np.maximum(counts, 0), 0)
        task_forecast.first[rows] = counts[:, 0]
        task_forecast.gains[rows] = np.diff(counts, axis=1)


def _allocated(job: Job) -> dict[int, Resources | list[Task]]:
    """Resources of the job's tasks by node; for jobs that share devices, whose amounts depend on the devices, the tasks."""
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


def _parts(free: Resources) -> Parts:
    return _signed(free.devices), free.cpu_milli, free.memory_bytes, free.slots


def _signed(mask: int) -> int:
    """The mask as a signed number of 64 bits."""
    return mask - (1 << 64) if mask >> 63 else mask
