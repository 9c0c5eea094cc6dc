"""What-if comparison: replays a log's arrivals, failures and run times under another policy.

Three runs are compared: `recorded` is what happened; `again` is the simulation under the policies that were in force; `changed`
is the same simulation under the other policy. The difference between the first two is the error bar of the third.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import Any

from bailiff_core.humanize import count_text, nearest_text
from bailiff_core.model.policy import Policy

from .engine import Simulation
from .from_log import FromLog
from .intake import DEFAULT_PROJECT
from .metrics import GPU_HOUR, Run, metrics, spread
from .run_stats import JobStats, RunStats

NO_EVICTION = ("failed", "lost", "yielded", "gang-failure")
SECOND, HOUR = 1_000_000, 3_600_000_000
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class WhatIf:
    """The three runs.

    Attributes:
        since: From when the other policy is in force, µs UTC.
        to: Until when, µs UTC.
        rejected: Jobs that only the other policy does not accept, with the reason.
        not_simulated: Sentences for the headline.
        scheduler: What recorded the past, if not Bailiff.
    """

    recorded: Run
    again: Run
    changed: Run
    since: int
    to: int
    assumptions: Sequence[str]
    rejected: Mapping[str, str] = field(default_factory=dict)
    not_simulated: Sequence[str] = ()
    scheduler: str = ""

    @property
    def runs(self) -> tuple[Run, Run, Run]:
        """In display order."""
        return self.recorded, self.again, self.changed


def what_if(log: FromLog, policy: Policy, since: int | None = None, progress: Progress | None = None) -> WhatIf:
    """Simulates a log under its own policies and under `policy`.

    Args:
        since: Start of the other policy, µs UTC; None: the start of the log. Jobs that ended before it are left out of the
            figures.
    """
    since, to = max(log.begin, since or log.begin), log.end
    assumptions = list(log.assumptions)
    again = _simulated("simulated", log, None, since, to, progress)
    changed = _simulated("other", log, policy, since, to, progress)
    later = [time for time, _, _ in log.policies[1:] if since <= time <= to]
    if later:
        assumptions.append(f"{count_text(len(later), 'later policy change')} in the log, not applied under the other policy")
    assumptions += _without_project(again, policy)
    recorded = _run("recorded", log, log.recorded, {}, since, to)
    counted = [name for name, job in again.jobs.items() if job.submitted <= to and (job.ended is None or job.ended >= since)]
    rejected = {name: changed.refused[name] for name in counted if name in changed.refused}
    return WhatIf(
        _only(recorded, counted),
        _only(again, counted),
        _only(changed, counted),
        since,
        to,
        assumptions,
        rejected,
        [*log.not_simulated, *_unmet(log, rejected)],
        log.scheduler,
    )


def _without_project(again: Run, policy: Policy) -> list[str]:
    jobs = sum(not job.project for job in again.jobs.values())
    if not jobs or not policy.projects or any(each.name == DEFAULT_PROJECT for each in policy.projects):
        return []
    told = f"{count_text(jobs, 'job')} without a project: under the other policy also without one"
    return [f"{told}, as jobs that were accepted before there were projects, although it requires one"]


def compared(found: WhatIf) -> dict[str, object]:
    """The comparison as JSON; in hours and GPU-hours unless a name says otherwise."""
    same = same_policy(found)
    return {
        "from": found.since,
        "to": found.to,
        "headline": headline(found),
        "assumptions": list(found.assumptions),
        "same_policy": same,
        "confidence": confidence(same, found.scheduler),
        "rejected": [{"job": name, "reason": reason} for name, reason in found.rejected.items()],
        "never_started": never_started(found),
        "runs": [{"label": run.label, **metrics(run)} for run in found.runs],
        "groups": groups(found),
        "improved": most_changed(found, -1),
        "worsened": most_changed(found, 1),
    }


def never_started(found: WhatIf) -> list[str]:
    """Jobs that start under the policies in force, and never under the other one although it accepts them."""
    jobs = found.changed.jobs
    return [name for name, job in found.again.jobs.items() if job.starts and name in jobs and not jobs[name].starts]


def headline(found: WhatIf) -> list[str]:
    """What to know before any figure: jobs that the other policy rejects or never starts, and what is not simulated."""
    lines = []
    if found.rejected:
        name, reason = next(iter(found.rejected.items()))
        lines.append(
            f"{len(found.rejected)} of {count_text(len(found.again.jobs), 'job')} rejected under the other policy: they are in "
            f"no figure of its column. The first is {name}: {reason}"
        )
    late = never_started(found)
    if late:
        names = ", ".join(late[:3]) + (" …" if len(late) > 3 else "")
        lines.append(f"{count_text(len(late), 'job')} that ran would never have started before the end: {names}")
    missing = [name for name in found.again.jobs if name not in found.changed.jobs and name not in found.rejected]
    if missing:
        lines.append(f"{count_text(len(missing), 'job')} not simulated under the other policy, such as {missing[0]}")
    lost = [name for name in found.again.refused if name not in found.changed.refused]
    if found.again.refused:
        lines.append(
            f"{count_text(len(found.again.refused), 'job')} not simulated as it was: rejected already under the policies in force"
            + (f"; {len(lost)} of them accepted by the other policy" if lost else "")
        )
    return [*lines, *found.not_simulated]


def _unmet(log: FromLog, rejected: Mapping[str, str]) -> list[str]:
    waiting = [job.job for _, job in log.workload.demands() if any(each.job in rejected for each in job.after)]
    if not waiting:
        return []
    jobs = f"{count_text(len(waiting), 'job')} on a rejected job, such as that of {waiting[0]}"
    return [f"not simulated: the dependency (--after) of {jobs}; it counts as met"]


def same_policy(found: WhatIf) -> dict[str, object]:
    """Difference between the simulation and the recorded run under unchanged policies."""
    recorded, again = found.recorded.jobs, found.again.jobs
    pairs = [(recorded[name], again[name]) for name in again if name in recorded]
    waits = [abs(before.waited_by(found.to) - after.waited_by(found.to)) for before, after in pairs]
    return {
        "jobs": len(pairs),
        "waits_alike": sum(wait < SECOND for wait in waits),
        "largest_difference_of_a_wait_s": max(waits, default=0) / SECOND,
        "mean_difference_of_waits_s": mean(waits) / SECOND if waits else 0.0,
        "evictions_recorded": sum(evictions(before) for before, _ in pairs),
        "repeat_evictions": sum(evictions(after) for _, after in pairs),
        "jobs_with_other_evictions": sum(evictions(before) != evictions(after) for before, after in pairs),
        "gpu_hours_lost_recorded": sum(_lost(before) for before, _ in pairs),
        "gpu_hours_lost_again": sum(_lost(after) for _, after in pairs),
    }


def confidence(same: Mapping[str, Any], scheduler: str = "") -> str:
    """How well the simulation reproduces the recorded run, as text.

    Args:
        scheduler: What recorded it, if not Bailiff.
    """
    if scheduler:
        return (
            f"The first column is {scheduler}'s own record. The second is Bailiff with the classes and limits that were "
            "imported; the difference between these two is that of the schedulers and of all that the record does not show, so "
            "it is no measure of the simulation's error."
        )
    alike, largest = same["waits_alike"], same["largest_difference_of_a_wait_s"]
    others = f", the others up to {nearest_text(round(largest * SECOND))} longer or shorter" if alike < same["jobs"] else ""
    return (
        f"Accuracy of the simulation under unchanged policies: {alike} of {count_text(same['jobs'], 'job')} "
        f"were pending equally long, within 1 s{others}; {count_text(same['repeat_evictions'], 'eviction')} instead of "
        f"{same['evictions_recorded']}, for {count_text(same['jobs_with_other_evictions'], 'job')} a different number; "
        f"{same['gpu_hours_lost_again']:.1f} GPU-hours lost instead of {same['gpu_hours_lost_recorded']:.1f}. Differences "
        "between the last two columns that are smaller than this are not significant."
    )


def groups(found: WhatIf) -> dict[str, dict[str, dict[str, float]]]:
    """Per project and class, for each run: jobs, wait time (mean, p95; hours), evictions, GPU-hours lost and done."""
    members: dict[str, list[str]] = {}
    for name, job in found.again.jobs.items():
        for key in (f"class {job.class_name}", f"project {job.project}" if job.project else ""):
            members.setdefault(key, []).append(name)
    members.pop("", None)
    return {key: {run.label: _group(run, members[key], found.to) for run in found.runs} for key in sorted(members)}


def most_changed(found: WhatIf, sign: int, most: int = 10) -> list[dict[str, object]]:
    """Jobs with the largest increase (sign 1) or decrease (-1) of lost time: pending, and repeated work."""
    changes = []
    for name, before in found.again.jobs.items():
        after = found.changed.jobs.get(name)
        if after is not None:
            change = _idle(after, found.to) - _idle(before, found.to)
            if change * sign > 0:
                changes.append((-abs(change), name, before, after))
    return [
        {
            "job": name,
            "project": before.project,
            "class": before.class_name,
            "gpus": before.gpu_milli / 1000,
            "time_lost_hours": -size * sign / HOUR,
            "waited_hours": [before.waited_by(found.to) / HOUR, after.waited_by(found.to) / HOUR],
            "evictions": [evictions(before), evictions(after)],
            "gpu_hours_lost": [_lost(before), _lost(after)],
            "outcome": [before.outcome, after.outcome],
        }
        for size, name, before, after in sorted(changes, key=lambda each: each[:2])[:most]
    ]


def evictions(job: JobStats) -> int:
    """Number of evictions; the job's own failures and lost nodes do not count."""
    return sum(count for cause, count in job.evictions.items() if cause not in NO_EVICTION)


def simulated_under(log: FromLog, found: WhatIf, label: str, policy: Policy, progress: Progress | None = None) -> Run:
    """The run of the same jobs in the same time under one more policy."""
    return _only(_simulated(label, log, policy, found.since, found.to, progress), list(found.again.jobs))


def _simulated(label: str, log: FromLog, policy: Policy | None, since: int, to: int, progress: Progress | None) -> Run:
    first, workload = log.under(policy, None if policy is None else since)
    report = None if progress is None else (lambda done, of: progress(label, done, of))
    result = Simulation(workload, first, delays=log.delays, until=to).run(report)
    return _run(label, log, result.stats, result.refused, since, to)


def _run(label: str, log: FromLog, stats: RunStats, refused: Mapping[str, str], since: int, to: int) -> Run:
    in_force = [policy for time, _, policy in log.policies if time <= to] or [log.policies[0][2]]
    quotas = {each.name: each.quota.gpu_milli or 0 for each in in_force[-1].projects}
    return Run(label, 0, stats.jobs, stats, refused, since, to, to, log.workload.capacity(), quotas, {})


def _only(run: Run, names: Sequence[str]) -> Run:
    return replace(run, jobs={name: run.jobs[name] for name in names if name in run.jobs})


def _group(run: Run, names: Sequence[str], to: int) -> dict[str, float]:
    jobs = [run.jobs[name] for name in names if name in run.jobs]
    waits = spread([job.waited_by(to) / HOUR for job in jobs])
    return {
        "jobs": len(jobs),
        "waited_mean": waits.get("mean", 0.0),
        "waited_p95": waits.get("p95", 0.0),
        "evictions": sum(evictions(job) for job in jobs),
        "gpu_hours_lost": sum(_lost(job) for job in jobs),
        "gpu_hours_done": sum(job.work * job.gpu_milli for job in jobs) / GPU_HOUR,
    }


def _idle(job: JobStats, to: int) -> int:
    """Time without progress, µs."""
    return job.waited_by(to) + job.lost + job.overhead


def _lost(job: JobStats) -> float:
    return job.lost * job.gpu_milli / GPU_HOUR
