"""Builds a workload from a trace, a cluster and the user's options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.policy import Policy
from bailiff_core.records.facts import JobSubmitted, PolicyApplied, RequestId
from bailiff_sim.traces.jobs import Trace, TraceJob
from bailiff_sim.traces.quotas import venus, with_quotas

from .cluster import Machine, joined
from .workload import Outage, Outcome, Workload, WorkloadEvent

SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 86_400 * SECOND
BEGIN = 1_767_225_600 * SECOND  # start of traces with relative times: 2026-01-01
NO_HASH = "0" * 64
REPAIR = 4 * 3600 * SECOND
LONG_AGO = 10 * 365 * DAY


@dataclass(frozen=True)
class Choices:
    """Options of a trace, copied to the manifest. Durations in µs.

    Attributes:
        compress: Divisor of the gaps between arrivals, in thousandths.
        first: Maximum number of jobs.
        skip: Time left out at the start.
        length: Time simulated after it.
        tiers: Priority class per tier of the trace.
        mix: Percentages of classes that jobs without a tier get at random.
        mtbf: Mean time between failures of a machine.
        retry: Lower bound of the policy's `selection_backoff`: a live pool retries preemption every minute, and over months
            nearly all of these are refusals.
        quotas: Name of the data set of daily quotas; empty: none.
    """

    compress: int = 1000
    first: int | None = None
    skip: int = 0
    length: int | None = None
    tiers: Mapping[str, str] = field(default_factory=dict)
    mix: Mapping[str, int] = field(default_factory=dict)
    checkpoint_every: int | None = 30 * MINUTE
    save_time: int | None = 30 * SECOND
    restart_cost: int = MINUTE
    mtbf: int | None = None
    retry: int = 10 * MINUTE
    quotas: str = ""


def assemble(trace: Trace, cluster: Sequence[Machine], choices: Choices, seed: int) -> Workload:
    """Returns the workload; equal arguments give equal workloads. Raises `ValueError` if no job of the trace is selected."""
    _check(trace, choices)
    random = Random(seed)  # noqa: S311 - must be reproducible
    selected = _selected(trace, choices)
    if not selected:
        raise ValueError(f"no job of {trace.name} is in the selected part of it: change --skip or --length")
    largest = max(machine.gpus for machine in cluster)
    models = {machine.model for machine in cluster}
    events, outcomes, deadlines = list[WorkloadEvent](), dict[str, Outcome](), dict[str, int]()
    begin = _begin(trace)
    first = selected[0].submitted
    for job in selected:
        at = begin + (job.submitted - first) * 1000 // choices.compress
        outcomes[job.name] = Outcome(job.run_time, choices.checkpoint_every, choices.save_time, choices.restart_cost, job.end)
        models_wanted = tuple(model for model in job.gpu_models if model in models) if set(job.gpu_models) & models else ()
        demand = JobDemand(
            job=job.name,
            tasks=_groups(job.gpus, job.gpu_milli, job.per_task, largest, job.cpu_milli, job.memory_bytes, models_wanted),
            priority_class=_class_of(job, trace, choices, random),
            project=job.project or None,
            max_failures=0,
            run_time_limit=_limit(job, choices),
            elastic="restart",
        )
        request = RequestId(source="trace", id=job.name, digest=NO_HASH)
        events.append(WorkloadEvent(at, JobSubmitted(request=request, demand=demand, spec_digest=NO_HASH)))
        if job.deadline is not None:
            deadlines[job.name] = at + job.deadline
    if choices.mtbf is not None:
        longest = max(job.run_time for job in selected)
        events += _failures(cluster, choices.mtbf, begin, events[-1].time + min(longest, 30 * DAY), random)
        events.sort(key=lambda event: event.time)
    workload = Workload(trace.name, begin, joined(cluster), events, outcomes)
    workload.deadlines = deadlines
    workload.about = {"jobs": len(selected), "left_out": dict(trace.left_out)}
    return workload


def _check(trace: Trace, choices: Choices) -> None:
    """Raises `ValueError` if `--class` or `--mix` does not match the tiers of the jobs."""
    tiers = {job.tier for job in trace.jobs}
    known = ", ".join(sorted(tier for tier in tiers if tier)) or "none"
    unknown = [tier for tier in choices.tiers if tier not in tiers]
    if unknown:
        raise ValueError(f"--class: {trace.name} has no tier {unknown[0]!r}; its tiers are: {known}")
    if choices.mix and sum(choices.mix.values()) != 100:
        raise ValueError(f"--mix: expected percentages that add up to 100, found {sum(choices.mix.values())}")
    if choices.mix and "" not in tiers:
        raise ValueError(
            f"--mix is for jobs without a tier, and those of {trace.name} have one ({known}): "
            "map each tier to a class with --class"
        )


def with_daily_quotas(workload: Workload, policy: Policy) -> tuple[Workload, Policy]:
    """Returns the workload with Venus' daily quotas for its projects, and the policy with those of the first day."""
    demand: dict[str, int] = {}
    for _, job in workload.demands():
        if job.project is not None:
            demand[job.project] = demand.get(job.project, 0) + workload.outcomes[job.job].run_time * _gpus(job)
    tenants = sorted(demand, key=lambda name: (-demand[name], name))
    if not tenants:
        raise ValueError(f"--daily-quotas: {workload.name} has no projects, so quotas do not apply")
    days = venus(tenants, workload.gpus)
    last = workload.events[-1].time
    changes = [
        WorkloadEvent(workload.begin + day, PolicyApplied(policy=with_quotas(policy, quotas).complete()))
        for day, quotas in days[1:]
        if workload.begin + day <= last
    ]
    merged = sorted([*changes, *workload.events], key=lambda event: event.time)
    changed = Workload(workload.name, workload.begin, workload.nodes, merged, workload.outcomes, workload.about)
    changed.deadlines = workload.deadlines
    return changed, with_quotas(policy, days[0][1])


def peak_demand(workload: Workload) -> int:
    """Maximum number of GPUs in use if every job started when it is submitted."""
    changes: list[tuple[int, int]] = []
    for time, job in workload.demands():
        changes += [(time, _gpus(job)), (time + workload.outcomes[job.job].run_time, -_gpus(job))]
    peak = now = 0
    for _, change in sorted(changes):
        now += change
        peak = max(peak, now)
    return peak


def _gpus(job: JobDemand) -> int:
    return sum(group.count * max(1, group.gpu_milli // 1000) for group in job.tasks)


def _selected(trace: Trace, choices: Choices) -> list[TraceJob]:
    jobs = sorted(trace.jobs, key=lambda job: (job.submitted, job.name))
    first = jobs[0].submitted + choices.skip
    until = LONG_AGO * 100 if choices.length is None else first + choices.length
    return [job for job in jobs if first <= job.submitted < until][: choices.first]


def _begin(trace: Trace) -> int:
    first = min(job.submitted for job in trace.jobs)
    return first if first > LONG_AGO else BEGIN


def _class_of(job: TraceJob, trace: Trace, choices: Choices, random: Random) -> str | None:
    if job.tier:
        found = {**trace.tiers, **choices.tiers}.get(job.tier, "")
        return found or None
    if not choices.mix:
        return choices.tiers.get("", None)
    drawn = random.randrange(sum(choices.mix.values()))
    for name, share in choices.mix.items():
        drawn -= share
        if drawn < 0:
            return name
    raise AssertionError


def _limit(job: TraceJob, choices: Choices) -> int | None:
    """The job's run-time limit, at least what it is known to need: with another scheduler it may restart."""
    return None if job.run_time_limit is None else max(job.run_time_limit, job.run_time + choices.restart_cost)


@lru_cache(maxsize=10_000)
def _groups(
    gpus: int, gpu_milli: int, per_task: int | None, largest: int, cpu: int, memory: int, models: tuple[str, ...]
) -> tuple[TaskGroup, ...]:
    """Task groups with as few tasks as the largest machine allows; all tasks are equal but the last.

    cpu, memory: of a task with `per_task` GPUs.
    """
    if gpu_milli < 1000:
        count = gpus // (per_task or gpus)
        return (TaskGroup(count=count, gpu_share_milli=gpu_milli, cpu_milli=cpu, memory_bytes=memory, gpu_models=models),)
    given = per_task or gpus
    size = min(given, largest)
    count, rest = divmod(gpus, size)

    def group(count: int, size: int) -> TaskGroup:
        cpus, memory_of_task = cpu * size // given, memory * size // given
        return TaskGroup(count=count, gpu_milli=1000 * size, cpu_milli=cpus, memory_bytes=memory_of_task, gpu_models=models)

    return (group(count, size), group(1, rest)) if rest else (group(count, size),)


def _failures(cluster: Sequence[Machine], mtbf: int, begin: int, end: int, random: Random) -> list[WorkloadEvent]:
    """Returns random, independent failures of the machines; each is back after `REPAIR`."""
    found: list[WorkloadEvent] = []
    for machine in cluster:
        at = begin
        while (at := at + round(random.expovariate(1 / mtbf))) < end:
            found.append(WorkloadEvent(at, Outage(machine.name, REPAIR)))
            at += REPAIR
    return sorted(found, key=lambda event: (event.time, str(event.event)))
