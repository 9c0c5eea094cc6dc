"""Metrics of a run: pending time, JCT, slowdown, evictions, work lost, goodput, utilisation, fairness."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .run_stats import JobStats, RunStats

SECOND, HOUR = 1_000_000, 3_600_000_000
GPU_HOUR = 1000 * HOUR
SHORTEST = 10_000_000  # a shorter run time counts as this in slowdowns, so that jobs of a second do not rule them
BINS = 1_000
LARGE = 16  # GPUs
SIZES = ((1, 1), (2, 4), (5, 8), (9, 32), (33, 1 << 30))
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """One run of one scheduler. capacity: how many GPUs there are, as `Workload.capacity` says it. quotas: thousandths of
    GPUs by project, of those that have one.

    digest: of its log, if it has one. seconds: what it took, processor time.
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
    """All figures of the run, as JSON; durations in hours."""
    jobs = list(run.jobs.values())
    ended = [job for job in jobs if job.ended is not None]
    held = sum(_ran(job, run.end) * job.gpu_milli for job in jobs)
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
        "slowdown": _by_all(ended, lambda job: ((job.ended or 0) - job.submitted) / max(SHORTEST, job.run_time)),
        "evictions": sum(causes.values()),
        "evictions_by_cause": dict(sorted(causes.items())),
        "jobs_evicted": sum(1 for job in jobs if job.evictions),
        "most_evictions_of_a_job": max((job.evicted for job in jobs), default=0),
        "gpu_hours": {
            "work": work / GPU_HOUR,
            "lost": lost / GPU_HOUR,
            "restarts": overhead / GPU_HOUR,
            "held": max(held, work + lost + overhead) / GPU_HOUR,
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
    """What was held and wanted over time, on average in each of equal bins from the first arrival to the last.

    Where all jobs arrive at once, to the end.
    """

    def __init__(self, run: Run, bins: int = BINS) -> None:
        self._run = run
        to = run.last_arrival if run.last_arrival >= run.begin + SECOND else max(run.end, run.begin + SECOND)
        self.edges: Array = np.linspace(run.begin, to, bins + 1)
        self.width = self.edges[1] - self.edges[0]

    def held(self, chosen: Callable[[str, str], bool] = lambda _project, _class: True) -> Array:
        """GPUs that the chosen jobs (by project and class) held."""
        steps = [(step.time, step.held) for step in self._run.stats.steps if step.held and chosen(step.project, step.class_name)]
        return self._averages(steps) / 1000

    def waiting(self, chosen: Callable[[str, str], bool] = lambda _project, _class: True) -> Array:
        """GPUs that the chosen jobs waited for."""
        steps = [(s.time, s.waiting) for s in self._run.stats.steps if s.waiting and chosen(s.project, s.class_name)]
        return self._averages(steps) / 1000

    def there(self) -> Array:
        """GPUs of the machines that had joined."""
        return self._averages(self._run.capacity) / 1000

    def utilisation(self) -> float:
        """Of all GPUs."""
        return float(self.held().sum() / max(1.0, self.there().sum()))

    def shares(self) -> dict[str, float]:
        """Of what each project was entitled to while it wanted it, how much it held; 1 is all of it.

        Entitled: up to its quota what it wants; what is left of the pool is divided equally among those that want more.
        """
        projects = sorted({job.project for job in self._run.jobs.values()})
        if len(projects) < 2:
            return {}
        by_name = {project: (lambda name: lambda found, _class: found == name)(project) for project in projects}
        held = np.array([self.held(by_name[project]) for project in projects])
        wanted = held + np.array([self.waiting(by_name[project]) for project in projects])
        quotas = np.array([self._run.quotas.get(project, 0) / 1000 for project in projects])
        entitled = np.array([_divided(wants, quotas, gpus) for wants, gpus in zip(wanted.T, self.there(), strict=True)]).T
        total = entitled.sum(axis=1)
        got = np.minimum(held, entitled).sum(axis=1)
        return {name: float(got[at] / total[at]) for at, name in enumerate(projects) if total[at] > 0}

    def _averages(self, steps: Sequence[tuple[int, int]]) -> Array:
        """The mean of a step function in each bin."""
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
    """Jain's index: 1 where all have the same share, 1/n where one has all. None for fewer than two."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if len(shares) > 1 and squares else None


def _divided(wanted: Array, quotas: Array, total: float) -> Array:
    given = np.minimum(wanted, quotas)
    left = max(0.0, total - float(given.sum()))
    while left > 1e-9:
        open_ = wanted - given > 1e-9
        if not open_.any():
            break
        part = min(left / int(open_.sum()), float((wanted - given)[open_].min()))
        given = given + np.where(open_, part, 0.0)
        left -= part * int(open_.sum())
    return given


def _by_all(jobs: Iterable[JobStats], value: Callable[[JobStats], float]) -> dict[str, object]:
    """Of all, of each class and of each project."""
    found: dict[str, list[float]] = {}
    for job in jobs:
        of = value(job)
        for key in ("all", f"class {job.class_name}", f"project {job.project}" if job.project else ""):
            found.setdefault(key, []).append(of)
    found.pop("", None)
    return {key: spread(values) for key, values in sorted(found.items())}


def spread(values: Sequence[float]) -> dict[str, float | int]:
    """How many, their mean, and percentiles by nearest rank."""
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
