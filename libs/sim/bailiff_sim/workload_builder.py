"""Builds a workload from a trace, a cluster and the user's options."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from random import Random

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.policy import Policy
from bailiff_core.records.facts import JobSubmitted, PolicyApplied, RequestId
from bailiff_sim.traces.jobs import Trace, TraceJob
from bailiff_sim.traces.quotas import venus, with_quotas

from .cluster import Machine, joined
from .workload import Happening, Outage, Outcome, Workload

SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 86_400 * SECOND
BEGIN = 1_767_225_600 * SECOND  # of traces that count from their own start: 2026-01-01
NO_HASH = "0" * 64
REPAIR = 4 * 3600 * SECOND
LONG_AGO = 10 * 365 * DAY


@dataclass(frozen=True)
class Choices:
    """What the user chose about a trace; it stands in the manifest as it is. Times µs.

    compress: gaps between arrivals are divided by this, in thousandths. first: so many jobs only. skip: of the trace's
    beginning; length: of what follows. tiers: the priority class of each of the trace's own words. mix: shares of classes, in
    percent, dealt by chance over jobs that have no tier. mtbf: mean time between failures of one machine. retry: the shortest
    `selection_backoff` that a policy has here: a live pool asks every minute whether somebody can leave by now, and in months
    of that nearly all is refusals. quotas: whose daily quotas the projects have.
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

    def as_json(self) -> dict[str, object]:
        """As the manifest holds it."""
        return asdict(self)


def assemble(trace: Trace, cluster: Sequence[Machine], choices: Choices, seed: int) -> Workload:
    """The same arguments make the same workload. Raises `ValueError` where nothing is left of the trace."""
    _check(trace, choices)
    random = Random(seed)  # noqa: S311 - repeatable chance is what is asked for
    picked = _picked(trace, choices)
    if not picked:
        raise ValueError(f"no job of {trace.name} lies in what was chosen of it")
    largest = max(machine.gpus for machine in cluster)
    models = {machine.model for machine in cluster}
    happenings, outcomes, deadlines = list[Happening](), dict[str, Outcome](), dict[str, int]()
    begin = _begin(trace)
    first = picked[0].submitted
    for job in picked:
        at = begin + (job.submitted - first) * 1000 // choices.compress
        outcomes[job.name] = Outcome(job.run_time, choices.checkpoint_every, choices.save_time, choices.restart_cost, job.end)
        wanted = tuple(model for model in job.gpu_models if model in models) if set(job.gpu_models) & models else ()
        asked = JobDemand(
            job=job.name,
            tasks=_groups(job.gpus, job.gpu_milli, job.per_task, largest, job.cpu_milli, job.memory_bytes, wanted),
            priority_class=_class_of(job, trace, choices, random),
            project=job.project or None,
            max_failures=0,
            elastic="restart",
        )
        request = RequestId(source="trace", id=job.name, digest=NO_HASH)
        happenings.append(Happening(at, JobSubmitted(request=request, demand=asked, spec_digest=NO_HASH)))
        if job.deadline is not None:
            deadlines[job.name] = at + job.deadline
    if choices.mtbf is not None:
        longest = max(job.run_time for job in picked)
        happenings += _failures(cluster, choices.mtbf, begin, happenings[-1].time + min(longest, 30 * DAY), random)
        happenings.sort(key=lambda happening: happening.time)
    workload = Workload(trace.name, begin, joined(cluster), happenings, outcomes)
    workload.deadlines = deadlines
    workload.about = {"jobs": len(picked), "left_out": dict(trace.left_out)}
    return workload


def _check(trace: Trace, choices: Choices) -> None:
    """What is said of classes is about some of these jobs."""
    words = {job.tier for job in trace.jobs}
    there = ", ".join(sorted(word for word in words if word)) or "none"
    unknown = [word for word in choices.tiers if word not in words]
    if unknown:
        raise ValueError(f"--class: {trace.name} has no word {unknown[0]!r} for a class; its own are: {there}")
    if choices.mix and sum(choices.mix.values()) != 100:
        raise ValueError(f"--mix: expected percentages that add up to 100, found {sum(choices.mix.values())}")
    if choices.mix and "" not in words:
        raise ValueError(
            f"--mix is for jobs without a class of their own, and those of {trace.name} have one ({there}): "
            "what each of its words stands for is said with --class"
        )


def with_daily_quotas(workload: Workload, policy: Policy) -> tuple[Workload, Policy]:
    """The workload with Venus' quotas over its projects, day by day, and the policy with those of the first day."""
    demand: dict[str, int] = {}
    for _, job in workload.demands():
        if job.project is not None:
            demand[job.project] = demand.get(job.project, 0) + workload.outcomes[job.job].run_time * _gpus(job)
    tenants = sorted(demand, key=lambda name: (-demand[name], name))
    if not tenants:
        raise ValueError(f"{workload.name} names no projects that quotas could be for")
    days = venus(tenants, workload.gpus)
    last = workload.happenings[-1].time
    changes = [
        Happening(workload.begin + day, PolicyApplied(policy=with_quotas(policy, quotas).complete()))
        for day, quotas in days[1:]
        if workload.begin + day <= last
    ]
    together = sorted([*changes, *workload.happenings], key=lambda happening: happening.time)
    changed = Workload(workload.name, workload.begin, workload.nodes, together, workload.outcomes, workload.about)
    changed.deadlines = workload.deadlines
    return changed, with_quotas(policy, days[0][1])


def peak_demand(workload: Workload) -> int:
    """GPUs in use at once, at most, if every job started when it is submitted."""
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


def _picked(trace: Trace, choices: Choices) -> list[TraceJob]:
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


@lru_cache(maxsize=10_000)
def _groups(
    gpus: int, gpu_milli: int, per_task: int | None, largest: int, cpu: int, memory: int, models: tuple[str, ...]
) -> tuple[TaskGroup, ...]:
    """As few tasks as the largest machine allows, all alike but for the last."""
    if gpu_milli < 1000:
        count = gpus // (per_task or gpus)
        return (TaskGroup(count=count, gpu_share_milli=gpu_milli, cpu_milli=cpu, memory_bytes=memory, gpu_models=models),)
    size = min(per_task or gpus, largest)
    count, rest = divmod(gpus, size)
    whole = TaskGroup(count=count, gpu_milli=1000 * size, cpu_milli=cpu, memory_bytes=memory, gpu_models=models)
    return (whole, TaskGroup(gpu_milli=1000 * rest, gpu_models=models)) if rest else (whole,)


def _failures(cluster: Sequence[Machine], mtbf: int, begin: int, end: int, random: Random) -> list[Happening]:
    """Each machine fails by chance, independently, and is back four hours later."""
    found: list[Happening] = []
    for machine in cluster:
        at = begin
        while (at := at + round(random.expovariate(1 / mtbf))) < end:
            found.append(Happening(at, Outage(machine.name, REPAIR)))
            at += REPAIR
    return sorted(found, key=lambda happening: (happening.time, str(happening.what)))
