"""Runs a trace under several schedulers and seeds, and writes the manifest that reproduces the runs."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bailiff_core.engine import LOGIC, RELEASE
from bailiff_core.humanize import count_text
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_sim.traces.catalogue import cluster
from bailiff_sim.traces.jobs import Trace

from .baselines import RULES, Baseline
from .engine import Simulation
from .metrics import Run, metrics
from .simulated_log import Sink
from .timeline import Delays
from .workload import Workload
from .workload_builder import Choices, assemble, with_daily_quotas

FORMAT = 1
PRIORITY = "priority"
BASELINES = (*RULES, PRIORITY)
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Ask:
    """What is to be run. policies: by label; baselines: by name, on the classes of the first policy."""

    trace: str
    cluster: str
    choices: Choices
    delays: Delays
    policies: Mapping[str, Policy]
    baselines: Sequence[str]
    seeds: Sequence[int]

    def as_json(self) -> dict[str, object]:
        """All of it, so that `ask_from` makes the same."""
        return {
            "trace": self.trace,
            "cluster": self.cluster,
            "choices": self.choices.as_json(),
            "delays": {"start": self.delays.start, "release": self.delays.release, "selection": self.delays.selection},
            "policies": {label: policy.model_dump(mode="json") for label, policy in self.policies.items()},
            "baselines": list(self.baselines),
            "seeds": list(self.seeds),
        }


def ask_from(found: dict[str, object]) -> Ask:
    """The ask of a manifest. Raises `ValueError` where it is none."""
    try:
        policies = {label: Policy.model_validate_json(json.dumps(each)) for label, each in found["policies"].items()}  # type: ignore[attr-defined]
        return Ask(
            str(found["trace"]),
            str(found["cluster"]),
            Choices(**found["choices"]),  # type: ignore[arg-type]
            Delays(**found["delays"]),  # type: ignore[arg-type]
            policies,
            list(found["baselines"]),  # type: ignore[call-overload]
            list(found["seeds"]),  # type: ignore[call-overload]
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is no manifest of a simulation: {error}") from None


def run_all(
    ask: Ask, source: Trace, progress: Progress | None = None, sink: Callable[[str, int], Sink] | None = None
) -> list[Run]:
    """Every policy and baseline with every seed on the trace that was asked for.

    sink: gets the records of a policy's run, by label and seed. Raises `ValueError` for what cannot be run.
    """
    machines = cluster(ask.cluster)
    found: list[Run] = []
    for seed in ask.seeds:
        workload = assemble(source, machines, ask.choices, seed)
        first = next(iter(ask.policies.values()), DEFAULT_POLICY)
        for label, policy in ask.policies.items():
            check_classes(source, workload, label, policy)
            found.append(_of_policy(ask, workload, label, policy, seed, progress, sink))
        for name in ask.baselines:
            check_classes(source, workload, name, first)
            if name == PRIORITY:
                rules = first.preemption.model_copy(update={"actions": ("allocate",)})
                only = first.model_copy(update={"preemption": rules})
                found.append(_of_policy(ask, workload, name, only, seed, progress, None))
            else:
                found.append(_of_baseline(workload, name, first, seed, progress))
    return found


def manifest(ask: Ask, source: Trace, runs: Sequence[Run]) -> dict[str, object]:
    """What was run, on which trace (by digest of its jobs), with which engine; and what came out, by digest."""
    return {
        "bailiff_simulation": FORMAT,
        **asked(ask, source),
        "runs": [{"label": run.label, "seed": run.seed, "digest": digest(run), "log": run.digest} for run in runs],
    }


def asked(ask: Ask, source: Trace) -> dict[str, object]:
    """What every manifest says: what is to be run, on which jobs, and by which engine."""
    return {"release": RELEASE, "logic": LOGIC, "ask": ask.as_json(), "trace_digest": trace_digest(source)}


def trace_digest(source: Trace) -> str:
    """Of the jobs that were read, whatever the file looked like."""
    return hashlib.sha256(repr([source.name, *source.jobs]).encode()).hexdigest()


def digest(run: Run) -> str:
    """Of everything that the run found out about jobs; a policy's has the digest of its whole log, too."""
    return hashlib.sha256(repr([run.digest, *run.jobs.values(), *sorted(run.refused.items())]).encode()).hexdigest()


def summary(runs: Sequence[Run]) -> list[dict[str, object]]:
    """The metrics of each run, with its label and seed."""
    return [{"label": run.label, "seed": run.seed, "digest": digest(run), **metrics(run)} for run in runs]


def refusals(runs: Sequence[Run]) -> list[str]:
    """What a reader has to know of jobs that were not accepted: how many, and an example with its reason."""
    alike: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        alike.setdefault(tuple(run.refused), []).append(run)
    return [
        f"{', '.join(dict.fromkeys(run.label for run in of))}: {count_text(len(names), 'job')} refused, which only 'not ended' "
        f"counts; the first is {names[0]}: {of[0].refused[names[0]]}"
        for names, of in alike.items()
        if names
    ]


def _of_policy(
    ask: Ask,
    workload: Workload,
    label: str,
    policy: Policy,
    seed: int,
    progress: Progress | None,
    sink: Callable[[str, int], Sink] | None,
) -> Run:
    began = time.process_time()
    if policy.preemption.selection_backoff < ask.choices.retry:
        patient = policy.preemption.model_copy(update={"selection_backoff": ask.choices.retry})
        policy = policy.model_copy(update={"preemption": patient})
    if ask.choices.quotas:
        workload, policy = with_daily_quotas(workload, policy)
    into = sink(label, seed) if sink is not None else None
    told = None if progress is None else (lambda done, of: progress(f"{label}, seed {seed}", done, of))
    result = Simulation(workload, policy, delays=ask.delays, sink=into).run(told)
    quotas = {each.name: each.quota.gpu_milli or 0 for each in policy.projects}
    return Run(
        label, seed, result.jobs, result.stats, result.refused, result.begin, _last(result.jobs, result.end), _arrival(workload),
        result.capacity, quotas, workload.deadlines, result.digest, result.records, time.process_time() - began,
    )  # fmt: skip


def _of_baseline(workload: Workload, name: str, policy: Policy, seed: int, progress: Progress | None) -> Run:
    began = time.process_time()
    told = None if progress is None else (lambda done, of: progress(f"{name}, seed {seed}", done, of))
    result = Baseline(workload, policy, RULES[name]).run(told)
    return Run(
        name, seed, result.jobs, result.stats, result.refused, result.begin, _last(result.jobs, result.end), _arrival(workload),
        workload.capacity(), {}, workload.deadlines, seconds=time.process_time() - began,
    )  # fmt: skip


def _last(jobs: Mapping[str, object], end: int) -> int:
    """The last end of a job: what comes after it (records that are forgotten, for one) is nobody's time."""
    ends = [ended for job in jobs.values() if (ended := getattr(job, "ended", None)) is not None]
    unfinished = len(ends) < len(jobs)
    return end if unfinished or not ends else max(ends)


def _arrival(workload: Workload) -> int:
    return max((time for time, _ in workload.demands()), default=workload.begin)


def check_classes(source: Trace, workload: Workload, label: str, policy: Policy) -> None:
    """Every class that the jobs are of is there: said once, and not as thousands of refusals."""
    known = [entry.name for entry in policy.priority_classes]
    wanted = dict.fromkeys(job.priority_class for _, job in workload.demands() if job.priority_class is not None)
    missing = [name for name in wanted if name not in known]
    if missing:
        tiers = f" (its own words: {', '.join(source.tiers)})" if source.tiers else ""
        if not source.tiers:
            raise ValueError(f"{label}: --mix deals the class {missing[0]!r}, which the policy lacks; it has {', '.join(known)}")
        raise ValueError(
            f"{label}: jobs of {source.name}{tiers} are of the class {missing[0]!r}, which the policy lacks; it has "
            f"{', '.join(known)}: say which it is with --class, as in --class {next(iter(source.tiers), 'WORD')}={known[0]}"
        )
    projects = [each.name for each in policy.projects]
    if projects and "default" not in projects:
        strangers = [job.project for _, job in workload.demands() if job.project not in projects]
        if strangers:
            raise ValueError(
                f"{label}: it lacks the projects of {count_text(len(strangers), 'job')} of {source.name}, such as "
                f"{strangers[0]!r}: add them, or one called 'default' for all of those"
            )
