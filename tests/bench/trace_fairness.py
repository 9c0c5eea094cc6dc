"""Fairness on published traces: Jain's index over windows of an hour, and finish-time fairness; no times are measured.

Jain's index: of what each project that asks for GPUs has of its part of the pool, hour by hour; the mean over the hours in
which at least two ask (1 is best). Finish-time fairness as Themis has it (NSDI '20): how long a job took from its submission
to its end, by how long it takes where each project has its part of the GPUs for itself. Above 1 a job would have been better
off so; the figure is the part of such jobs among those that ended in both (0 is best), the worst project's mean is in the JSON.

Philly's tenants are projects. Helios: the public trace of its jobs is not shipped here, so Philly's jobs have the daily quotas of
Helios' Venus. Alibaba's openb names no tenants: the classes of its pods are projects. Beside Bailiff: first come, first served.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bailiff_core.model.policy import DEFAULT_POLICY, FairnessRules, Policy, Project
from bailiff_core.model.resource_vector import Bounds
from bailiff_sim.metrics import HOUR, SECOND, Series, jain
from bailiff_sim.metrics import Run as Simulated
from bailiff_sim.runs import Experiment, run_all
from bailiff_sim.timeline import Delays
from bailiff_sim.traces.catalogue import cluster, trace
from bailiff_sim.traces.jobs import Trace
from bailiff_sim.workload_builder import Choices

from .table import Row, Run

WEEK = 7 * 24 * HOUR
OWN_PART, FIFO = "own part", "fifo"
SCHEDULERS = {
    "shares": "equal shares",
    "half-life": "equal shares with a half-life of a week",
    "priority": "equal shares without preemption",
}
LATER = 1.01  # what takes a hundredth longer is not later


@dataclass(frozen=True)
class Case:
    """A part of a trace on machines that it fills. jobs: in a quick run, and in a whole one."""

    what: str
    trace: str
    cluster: str
    jobs: tuple[int, int]
    quotas: str = ""
    compress: int = 1000


CASES = (
    Case("Philly", "philly-2017", "3x8", (120, 200), compress=20_000),
    Case("Philly with Helios' quotas", "philly-2017", "3x8", (120, 200), quotas="helios-venus", compress=20_000),
    Case("Alibaba openb", "alibaba-openb-2023/default", "1x8", (120, 200), compress=50_000),
)


def source_of(case: Case) -> Trace:
    """The trace, with a project for each of its tenants."""
    found = trace(case.trace)
    if not any(job.project for job in found.jobs):
        found = replace(found, jobs=[replace(job, project=job.tier.lower(), tier="") for job in found.jobs], tiers={})
    return found


def policies(names: list[str], gpus: int) -> dict[str, Policy]:
    """By label; the baselines have the rules of the first."""
    shares = DEFAULT_POLICY.model_copy(update={"projects": tuple(Project(name=name) for name in names)})
    part = Bounds(gpu_milli=1000 * (gpus // len(names)))
    alone = tuple(Project(name=name, quota=part, limit=part) for name in names)
    return {
        "shares": shares,
        "half-life": shares.model_copy(update={"fairness": FairnessRules(half_life=WEEK)}),
        OWN_PART: DEFAULT_POLICY.model_copy(update={"projects": alone}),
    }


def simulated(case: Case, quick: bool) -> dict[str, Simulated]:
    """Each scheduler's run."""
    source = source_of(case)
    first = sorted(source.jobs, key=lambda job: job.submitted)[: case.jobs[0 if quick else 1]]
    gpus = sum(machine.gpus for machine in cluster(case.cluster))
    names = sorted({job.project for job in first})
    part = gpus // len(names)
    source = replace(source, jobs=[job for job in first if job.gpus <= part])  # the others never run in a part
    rules = policies(names, gpus)
    found: dict[str, Simulated] = {}
    for quotas, labels in (("", (OWN_PART,)), (case.quotas, ("shares", "half-life"))):
        chosen = {label: rules[label] for label in labels}
        choices = Choices(compress=case.compress, quotas=quotas)
        baselines = (FIFO, "priority") if OWN_PART not in labels else ()
        experiment = Experiment(case.trace, case.cluster, choices, Delays(), chosen, baselines, (0,))
        found |= {run.label: run for run in run_all(experiment, source)}
    return found


def jain_over_windows(run: Simulated) -> float:
    """The mean over hours in which at least two projects ask for GPUs."""
    end = max(run.last_arrival, run.begin + SECOND)
    _, got, entitled = Series(run, bins=max(1, -(-(end - run.begin) // HOUR))).by_project()
    found = []
    for has, may in zip(got.T, entitled.T, strict=True):
        asks = may > 1e-9
        index = jain(list(np.minimum(has, may)[asks] / may[asks])) if asks.sum() > 1 else None
        if index is not None:
            found.append(index)
    return float(np.mean(found)) if found else 1.0


def finish_times(run: Simulated, alone: Simulated) -> Mapping[str, list[float]]:
    """How much longer each job took than in its project's own part, by project."""
    found: dict[str, list[float]] = {}
    for name, job in run.jobs.items():
        other = alone.jobs.get(name)
        if other is not None and job.ended is not None and other.ended is not None:
            took = max(SECOND, job.ended - job.submitted), max(SECOND, other.ended - other.submitted)
            found.setdefault(job.project, []).append(took[0] / took[1])
    return found


def later(ratios: Mapping[str, list[float]]) -> float:
    """The part of jobs that took longer, %."""
    every = [ratio for each in ratios.values() for ratio in each]
    return 100 * sum(ratio > LATER for ratio in every) / max(1, len(every))


def measure(run: Run) -> list[Row]:
    """Both figures of each trace and scheduler, beside first come, first served."""
    rows = []
    for case in CASES:
        runs = simulated(case, run.quick)
        indices = {label: jain_over_windows(each) for label, each in runs.items()}
        ratios = {label: finish_times(each, runs[OWN_PART]) for label, each in runs.items()}
        of = f"{case.what}, {len(runs[FIFO].jobs):,} jobs on {case.cluster} GPUs"
        for label, name in SCHEDULERS.items():
            worst = max((float(np.mean(each)) for each in ratios[label].values()), default=0.0)
            detail = {"worst_project_mean": worst, "evictions": sum(job.evicted for job in runs[label].jobs.values())}
            run.say(f"{of}, {name}: Jain {indices[label]:.3f} ({indices[FIFO]:.3f} by fifo)")
            late = later(ratios[label]), "%", "-", later(ratios[FIFO]), "by fifo", detail
            rows.append(Row(f"Jain's index over hours, {of}, {name}", indices[label], "", "-", indices[FIFO], "by fifo", detail))
            rows.append(Row(f"jobs later than in an own part, {of}, {name}", *late))
    return rows
