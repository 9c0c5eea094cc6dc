"""Runs a trace under several schedulers and seeds, and writes the manifest that reproduces the runs."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from bailiff_bus.validation_errors import describe_errors
from bailiff_core.engine import LOGIC, RELEASE
from bailiff_core.humanize import count_text
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_sim.traces.catalogue import cluster
from bailiff_sim.traces.jobs import Trace

from .baselines import RULES, Baseline
from .engine import Simulation
from .metrics import Run, metrics
from .run_stats import Result
from .simulated_log import Sink
from .timeline import Delays
from .workload import Workload
from .workload_builder import Choices, assemble, with_daily_quotas

FORMAT = 1
PRIORITY = "priority"
BASELINES = (*RULES, PRIORITY)
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Experiment:
    """What to run.

    Attributes:
        policies: By label.
        baselines: By name, with the classes of the first policy.
    """

    trace: str
    cluster: str
    choices: Choices
    delays: Delays
    policies: Mapping[str, Policy]
    baselines: Sequence[str]
    seeds: Sequence[int]

    def as_json(self) -> dict[str, object]:
        """All fields as JSON; `experiment_from` is the inverse."""
        found: dict[str, object] = TypeAdapter(Experiment).dump_python(
            self, mode="json", exclude={"delays": {"exit", "measured"}}
        )
        return found


def experiment_from(found: object) -> Experiment:
    """Reads the experiment of a manifest. Raises `ValueError` if it has none."""
    try:
        return TypeAdapter(Experiment).validate_json(json.dumps(found))
    except ValidationError as error:
        raise ValueError(f"not a manifest of a simulation: {describe_errors(error.errors(include_url=False))}") from None


def run_all(
    experiment: Experiment, source: Trace, progress: Progress | None = None, sink: Callable[[str, int], Sink] | None = None
) -> list[Run]:
    """Runs every policy and baseline with every seed on the trace.

    sink: returns the sink for the records of a policy's run, by label and seed. Raises `ValueError` if something cannot be run.
    """
    machines = cluster(experiment.cluster)
    found: list[Run] = []
    for seed in experiment.seeds:
        workload = assemble(source, machines, experiment.choices, seed)
        first = next(iter(experiment.policies.values()), DEFAULT_POLICY)
        for label, policy in experiment.policies.items():
            check_classes(source, workload, label, policy)
            found.append(_of_policy(experiment, workload, label, policy, seed, progress, sink))
        for name in experiment.baselines:
            check_classes(source, workload, name, first)
            if name == PRIORITY:
                rules = first.preemption.model_copy(update={"actions": ("allocate",)})
                only = first.model_copy(update={"preemption": rules})
                found.append(_of_policy(experiment, workload, name, only, seed, progress, None))
            else:
                found.append(_run(Baseline(workload, first, RULES[name]), workload, name, seed, {}, progress))
    return found


def manifest(experiment: Experiment, source: Trace, runs: Sequence[Run]) -> dict[str, object]:
    """Returns the manifest: the experiment, the digest of its trace, the engine, and the digest of each result."""
    return {
        "bailiff_simulation": FORMAT,
        **manifest_header(experiment, source),
        "runs": [{"label": run.label, "seed": run.seed, "digest": digest(run), "log": run.digest} for run in runs],
    }


def manifest_header(experiment: Experiment, source: Trace) -> dict[str, object]:
    """Returns the fields common to all manifests: engine, experiment, digest of the trace."""
    return {"release": RELEASE, "logic": LOGIC, "experiment": experiment.as_json(), "trace_digest": trace_digest(source)}


def trace_digest(source: Trace) -> str:
    """Digest of the jobs as read, independent of the file's format."""
    return hashlib.sha256(repr([source.name, *source.jobs]).encode()).hexdigest()


def digest(run: Run) -> str:
    """Digest of the run's results per job; for a policy it also covers the whole log."""
    return hashlib.sha256(repr([run.digest, *run.jobs.values(), *sorted(run.refused.items())]).encode()).hexdigest()


def summary(runs: Sequence[Run]) -> list[dict[str, object]]:
    """Returns the metrics of each run, with its label and seed."""
    return [{"label": run.label, "seed": run.seed, "digest": digest(run), **metrics(run)} for run in runs]


def refusals(runs: Sequence[Run]) -> list[str]:
    """Returns a sentence per set of rejected jobs: their number, and an example with its reason."""
    by_names: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        by_names.setdefault(tuple(run.refused), []).append(run)
    return [
        f"{', '.join(dict.fromkeys(run.label for run in of))}: {count_text(len(names), 'job')} rejected, counted only in "
        f"'not ended'; the first is {names[0]}: {of[0].refused[names[0]]}"
        for names, of in by_names.items()
        if names
    ]


def _of_policy(
    experiment: Experiment,
    workload: Workload,
    label: str,
    policy: Policy,
    seed: int,
    progress: Progress | None,
    sink: Callable[[str, int], Sink] | None,
) -> Run:
    if policy.preemption.selection_backoff < experiment.choices.retry:
        preemption = policy.preemption.model_copy(update={"selection_backoff": experiment.choices.retry})
        policy = policy.model_copy(update={"preemption": preemption})
    if experiment.choices.quotas:
        workload, policy = with_daily_quotas(workload, policy)
    target = sink(label, seed) if sink is not None else None
    simulation = Simulation(workload, policy, delays=experiment.delays, sink=target)
    quotas = {each.name: each.quota.gpu_milli or 0 for each in policy.projects}
    return _run(simulation, workload, label, seed, quotas, progress)


def _run(
    scheduler: Simulation | Baseline,
    workload: Workload,
    label: str,
    seed: int,
    quotas: Mapping[str, int],
    progress: Progress | None,
) -> Run:
    began = time.process_time()
    result = scheduler.run(None if progress is None else (lambda done, of: progress(f"{label}, seed {seed}", done, of)))
    return Run(
        label,
        seed,
        result.jobs,
        result.stats,
        result.refused,
        result.begin,
        _last(result),
        max((at for at, _ in workload.demands()), default=workload.begin),
        workload.capacity(),
        quotas,
        workload.deadlines,
        result.digest,
        result.records,
        time.process_time() - began,
    )


def _last(result: Result) -> int:
    """End of the last job. Later events, such as records that expire, do not count."""
    ends = [job.ended for job in result.jobs.values()]
    return max((end for end in ends if end is not None), default=result.end) if None not in ends else result.end


def check_classes(source: Trace, workload: Workload, label: str, policy: Policy) -> None:
    """Raises `ValueError` if the policy lacks a class or project of the jobs: one error instead of thousands of rejections."""
    known = [entry.name for entry in policy.priority_classes]
    wanted = dict.fromkeys(job.priority_class for _, job in workload.demands() if job.priority_class is not None)
    missing = [name for name in wanted if name not in known]
    if missing:
        tiers = f" (its tiers: {', '.join(source.tiers)})" if source.tiers else ""
        if not source.tiers:
            raise ValueError(f"{label}: --mix has the class {missing[0]!r}, which the policy lacks; it has {', '.join(known)}")
        raise ValueError(
            f"{label}: jobs of {source.name}{tiers} are of the class {missing[0]!r}, which the policy lacks; it has "
            f"{', '.join(known)}: map it with --class, as in --class {next(iter(source.tiers), 'TIER')}={known[0]}"
        )
    projects = [each.name for each in policy.projects]
    if projects and "default" not in projects:
        unknown = [job.project for _, job in workload.demands() if job.project not in projects]
        if unknown:
            raise ValueError(
                f"{label}: the policy lacks the projects of {count_text(len(unknown), 'job')} of {source.name}, such as "
                f"{unknown[0]!r}: add them, or a project 'default' for all of them"
            )
