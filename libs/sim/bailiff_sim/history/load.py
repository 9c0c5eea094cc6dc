"""An imported history as what `simulate` and `what-if` read: a trace, machines, and the recorded run."""

from collections.abc import Iterable
from pathlib import Path

from bailiff_core.model.policy import Policy
from bailiff_sim.cluster import Machine
from bailiff_sim.from_log import FromLog
from bailiff_sim.metrics import Run
from bailiff_sim.run_stats import JobStats, RunStats, Step
from bailiff_sim.timeline import Delays
from bailiff_sim.traces.jobs import LeftOut, Trace, TraceJob, named
from bailiff_sim.traces.rows import TraceProblem
from bailiff_sim.workload import End, Workload
from bailiff_sim.workload_builder import Choices, assemble

from .folder import read_jobs, read_manifest
from .recorded import cut_off, run_time, saved
from .records import HistoryJob

ENDS: dict[str, End] = {"succeeded": "succeeded", "failed": "failed"}
CAUSES = {"preempted": "preempt", "lost": "lost", "requeued": "requeue"}


def trace(folder: Path) -> Trace:
    """The trace `history:FOLDER`. Raises `TraceProblem`."""
    try:
        history = read_manifest(folder)
        left_out = LeftOut()
        jobs = [
            job for _, job in _trace_jobs(folder, history.checkpoint_every, {each.model for each in history.machines}, left_out)
        ]
    except ValueError as error:
        raise TraceProblem(str(error)) from None
    tiers = {tier: named(tier) for tier in history.tiers}
    return Trace(
        f"history:{folder}",
        jobs,
        f"history:{folder}",
        tiers,
        history.machines,
        {**history.left_out, **left_out.counts},
        [*history.not_simulated, *history.certainty],
    )


def machines(folder: Path) -> list[Machine]:
    """The cluster `history:FOLDER`. Raises `ValueError`."""
    found = list(read_manifest(folder).machines)
    if not found:
        raise ValueError(f"{folder} names no machines: say what the cluster was with --cluster, as in --cluster 16x8")
    return found


def recorded_run(folder: Path, workload: Workload, policy: Policy) -> Run:
    """What the old scheduler did with the jobs of the workload, as statistics like a simulation's. policy: names classes."""
    history = read_manifest(folder)
    wanted = {demand.job: demand.priority_class or _default(policy) for _, demand in workload.demands()}
    values = {each.name: each.value for each in policy.priority_classes}
    stats = RunStats()
    pairs = _trace_jobs(folder, history.checkpoint_every, {each.model for each in history.machines}, LeftOut())
    for job, made in pairs:
        if made.name in wanted:
            name = wanted[made.name]
            _note(stats, job, made, name, values.get(name, 0), history.checkpoint_every)
    stats.steps.sort(key=lambda step: step.time)
    ends = [job.ended for job in stats.jobs.values() if job.ended is not None]
    last = max((time for time, _ in workload.demands()), default=workload.begin)
    return Run(
        f"recorded: {history.scheduler}",
        0,
        stats.jobs,
        stats,
        {},
        workload.begin,
        max([*ends, last]),
        last,
        workload.capacity(),
        {each.name: each.quota.gpu_milli or 0 for each in policy.projects},
        {},
    )


def from_history(folder: Path, policy: Policy, choices: Choices) -> FromLog:
    """Converts an imported history to `what-if` input.

    Args:
        folder: What `bailiff import` wrote.
        policy: The policy of the baseline run.
        choices: How its jobs are taken.

    Raises:
        ValueError: The folder is not a complete history.
    """
    source = trace(folder)
    history = read_manifest(folder)
    workload = assemble(source, machines(folder), choices, 0)
    run = recorded_run(folder, workload, policy)
    assumptions = [*history.certainty, "a job runs at the same speed on every placement"]
    return FromLog(
        workload,
        Delays(),
        [(workload.begin, -1, policy)],
        run.stats,
        workload.begin,
        run.end,
        {},
        assumptions,
        history.not_simulated,
        history.scheduler,
    )


def _default(policy: Policy) -> str:
    return next(each.name for each in policy.priority_classes if each.global_default)


def _trace_jobs(
    folder: Path, checkpoint_every: int | None, models: set[str], left_out: LeftOut
) -> Iterable[tuple[HistoryJob, TraceJob]]:
    taken: dict[str, int] = {}
    for job in read_jobs(folder):
        work = run_time(job, checkpoint_every)
        if not work:
            left_out("with a run time of zero, or unknown")
            continue
        name = named(job.name, "job-")
        taken[name] = taken.get(name, 0) + 1
        if taken[name] > 1:
            name = f"{name[:55]}.{taken[name]}"
        tasks = job.node_count if job.gpus % job.node_count == 0 else 1
        yield (
            job,
            TraceJob(
                name,
                job.submitted,
                work,
                job.gpus,
                job.gpu_milli,
                job.gpus // tasks,
                named(job.project) if job.project else "",
                job.tier,
                ENDS.get(job.attempts[-1].state, "cancelled"),
                gpu_models=(job.model,) if job.model in models else (),
                run_time_limit=job.limit,
                cpu_milli=job.cpu_milli // tasks,
                memory_bytes=job.memory_bytes // tasks,
            ),
        )


def _note(stats: RunStats, job: HistoryJob, made: TraceJob, class_name: str, value: int, every: int | None) -> None:
    gpu_milli = made.gpus * made.gpu_milli
    found = JobStats(made.name, made.project, class_name, value, gpu_milli, job.submitted, made.run_time)
    lost = list[int]()
    for attempt in cut_off(job):
        cause = CAUSES[attempt.state]
        found.evictions[cause] = found.evictions.get(cause, 0) + 1
        work = attempt.work or 0
        lost.append(work if attempt is job.attempts[-1] else work - saved(work, every))
    found.lost, found.work = sum(lost), made.run_time if job.attempts[-1].state != "preempted" else 0
    starts = [attempt for attempt in job.attempts if attempt.start is not None]
    found.starts, found.first_start = len(starts), starts[0].start if starts else None
    found.outcome = job.attempts[-1].state if job.attempts[-1].state != "running" else None
    found.ended = None if found.outcome is None else job.attempts[-1].end
    since = job.submitted
    for attempt in starts:
        assert attempt.start is not None
        begin = max(since, attempt.start)
        found.waited += begin - since
        stats.steps.append(Step(since, made.project, class_name, 0, gpu_milli))
        stats.steps.append(Step(begin, made.project, class_name, gpu_milli, -gpu_milli))
        if attempt.end is not None:
            since = max(begin, attempt.end)
            stats.steps.append(Step(since, made.project, class_name, -gpu_milli, 0))
    stats.jobs[made.name] = found
