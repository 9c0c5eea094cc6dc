"""Metrics of a run: pending time, JCT, slowdown, evictions, work lost, goodput, utilisation, fairness."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .run_stats import JobStats, RunStats

SECOND, HOUR = 1_000_000, 3_600_000_000
GPU_HOUR = 1000 * HOUR
SHORTEST = 10_000_000  # lower bound of run times in slowdowns, so that jobs of a second do not dominate
BINS = 1_000
LARGE = 16  # GPUs
SIZES = ((1, 1), (2, 4), (5, 8), (9, 32), (33, 1 << 30))
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """One run of one scheduler.

    Attributes:
        capacity: As of `Workload.capacity`.
        quotas: Thousandths of GPUs by project with a quota.
        digest: Of its log; empty without one.
        seconds: Processor time.
    """

    label: str
    seed: int
    jobs: Mapping[str, JobStats]
    stats: RunStats
    refused: Mapping[str, str]
    begin: int
    end: int
    last_arrival: int
    capacity: Sequence[tuple[int, int]]
    quotas: Mapping[str, int]
    deadlines: Mapping[str, int]
    digest: str = ""
    records: int = 0
    seconds: float = 0.0


def metrics(run: Run) -> dict[str, object]:
    """Returns all metrics of the run as JSON; durations in hours."""
    jobs = list(run.jobs.values())
    ended = [job for job in jobs if job.ended is not None]
    allocated = sum(_ran(job, run.end) * job.gpu_milli for job in jobs)
    lost = sum(job.lost * job.gpu_milli for job in jobs)
    overhead = sum(job.overhead * job.gpu_milli for job in jobs)
    work = sum(job.work * job.gpu_milli for job in jobs)
    series = Series(run)
    shares = series.shares()
    causes: dict[str, int] = {}
    for job in jobs:
        for cause, count in job.evictions.items():
            causes[cause] = causes.get(cause, 0) + count
    found: dict[str, object] = {
        "jobs": len(jobs),
        "refused": len(run.refused),
        "ended": len(ended),
        "unfinished": len(jobs) - len(ended),
        "hours": (run.end - run.begin) / HOUR,
        "waiting": _by_all(jobs, lambda job: job.waited_by(run.end) / HOUR),
        "jct": _by_all(ended, lambda job: ((job.ended or 0) - job.submitted) / HOUR),
        "slowdown": _by_all(ended, lambda job: max(1.0, ((job.ended or 0) - job.submitted) / max(SHORTEST, job.run_time))),
        "evictions": sum(causes.values()),
        "evictions_by_cause": dict(sorted(causes.items())),
        "jobs_evicted": sum(1 for job in jobs if job.evictions),
        "most_evictions_of_a_job": max((job.evicted for job in jobs), default=0),
        "gpu_hours": {
            "work": work / GPU_HOUR,
            "lost": lost / GPU_HOUR,
            "restarts": overhead / GPU_HOUR,
            "held": max(allocated, work + lost + overhead) / GPU_HOUR,
        },
        "goodput": work / max(1, work + lost + overhead),
        "utilisation": series.utilisation(),
        "large_gangs": spread([job.waited_by(run.end) / HOUR for job in jobs if job.gpu_milli >= 1000 * LARGE]),
        "waiting_by_size": {
            _size(low, high): spread(
                [job.waited_by(run.end) / HOUR for job in jobs if low <= max(1, job.gpu_milli // 1000) <= high]
            )
            for low, high in SIZES
        },
        "fairness": {"jain": jain(list(shares.values())), "share_of_entitlement": shares},
    }
    if run.deadlines:
        found["deadlines_met"] = _deadlines(run)
    return found


class Series:
    """Allocated and requested GPUs over time: means over equal bins, from the first arrival to the last.

    If all jobs arrive at once, to the end of the run.
    """

    def __init__(self, run: Run, bins: int = BINS) -> None:
        self._run = run
        to = run.last_arrival if run.last_arrival >= run.begin + SECOND else max(run.end, run.begin + SECOND)
        self.edges: Array = np.linspace(run.begin, to, bins + 1)
        self.width = self.edges[1] - self.edges[0]

    def allocated(self, chosen: Callable[[str, str], bool] = lambda _project, _class: True) -> Array:
        """GPUs allocated to the chosen jobs (by project and class), per bin."""
        steps = [
            (step.time, step.allocated)
            for step in self._run.stats.steps
            if step.allocated and chosen(step.project, step.class_name)
        ]
        return self._averages(steps) / 1000

    def pending(self, chosen: Callable[[str, str], bool] = lambda _project, _class: True) -> Array:
        """GPUs requested by the chosen jobs while pending, per bin."""
        steps = [(s.time, s.pending) for s in self._run.stats.steps if s.pending and chosen(s.project, s.class_name)]
        return self._averages(steps) / 1000

    def capacity(self) -> Array:
        """GPUs of the machines that had joined, per bin."""
        return self._averages(self._run.capacity) / 1000

    def utilisation(self) -> float:
        """Allocated GPU time over available GPU time, 0 to 1."""
        return float(self.allocated().sum() / max(1.0, self.capacity().sum()))

    def shares(self) -> dict[str, float]:
        """Each project's allocation over its entitlement while it requested it; 1 is all. Empty for fewer than two projects.

        Entitlement: what it requests up to its quota, and an equal part of the rest of the pool.
        """
        projects, allocated, entitled = self.by_project()
        if len(projects) < 2:
            return {}
        total = entitled.sum(axis=1)
        got = np.minimum(allocated, entitled).sum(axis=1)
        return {name: float(got[at] / total[at]) for at, name in enumerate(projects) if total[at] > 0}

    def by_project(self) -> tuple[list[str], Array, Array]:
        """The projects; and for each of them, per bin, the GPUs that it has, and those that it is entitled to, as of `shares`."""
        projects = sorted({job.project for job in self._run.jobs.values()})
        by_name = {project: (lambda name: lambda found, _class: found == name)(project) for project in projects}
        allocated = np.array([self.allocated(by_name[project]) for project in projects])
        requested = allocated + np.array([self.pending(by_name[project]) for project in projects])
        quotas = np.array([self._run.quotas.get(project, 0) / 1000 for project in projects])
        entitled = np.array(
            [_entitlements(requests, quotas, gpus) for requests, gpus in zip(requested.T, self.capacity(), strict=True)]
        ).T
        return projects, allocated, entitled

    def _averages(self, steps: Sequence[tuple[int, int]]) -> Array:
        """Mean of a step function, given as (time, change), per bin."""
        if not steps:
            return np.zeros(len(self.edges) - 1)
        times = np.array([time for time, _ in steps], dtype=float)
        levels = np.cumsum(np.array([change for _, change in steps], dtype=float))
        area = np.concatenate([[0.0], np.cumsum(levels[:-1] * np.diff(times))])
        at = np.searchsorted(times, self.edges, side="right") - 1
        inside = np.where(at >= 0, area[at] + levels[at] * (self.edges - times[at]), 0.0)
        found: Array = np.diff(inside) / self.width
        return found


def jain(shares: Sequence[float]) -> float | None:
    """Jain's index: 1 if all shares are equal, 1/n if one has all. None for fewer than two."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if len(shares) > 1 and squares else None


def _entitlements(requested: Array, quotas: Array, total: float) -> Array:
    given = np.minimum(requested, quotas)
    left = max(0.0, total - float(given.sum()))
    while left > 1e-9:
        open_ = requested - given > 1e-9
        if not open_.any():
            break
        part = min(left / int(open_.sum()), float((requested - given)[open_].min()))
        given = given + np.where(open_, part, 0.0)
        left -= part * int(open_.sum())
    return given


def _by_all(jobs: Iterable[JobStats], value: Callable[[JobStats], float]) -> dict[str, object]:
    """Statistics of a value over all jobs, per class and per project."""
    found: dict[str, list[float]] = {}
    for job in jobs:
        of = value(job)
        for key in ("all", f"class {job.class_name}", f"project {job.project}" if job.project else ""):
            found.setdefault(key, []).append(of)
    found.pop("", None)
    return {key: spread(values) for key, values in sorted(found.items())}


def spread(values: Sequence[float]) -> dict[str, float | int]:
    """Count, mean, maximum, and percentiles by nearest rank."""
    if not values:
        return {"count": 0}
    ranked = sorted(values)
    at = {name: ranked[max(0, -(-len(ranked) * share // 100) - 1)] for name, share in (("p50", 50), ("p95", 95), ("p99", 99))}
    return {"count": len(ranked), "mean": sum(ranked) / len(ranked), **at, "max": ranked[-1]}


def _deadlines(run: Run) -> dict[str, float]:
    by_class: dict[str, list[bool]] = {}
    for name, moment in run.deadlines.items():
        job = run.jobs.get(name)
        if job is not None:
            by_class.setdefault(job.class_name, []).append(job.ended is not None and job.ended <= moment)
    return {name: sum(met) / len(met) for name, met in sorted(by_class.items())}


def _ran(job: JobStats, end: int) -> int:
    return (end if job.ended is None else job.ended) - job.submitted - job.waited_by(end)


def _size(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}" if high < 1 << 30 else f"{low}+"
