"""Parameter search over policies on one trace: work lost against pending time of high classes."""

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from itertools import product
from random import Random
from statistics import mean
from typing import Any

from pydantic import TypeAdapter, ValidationError

from bailiff_bus.validation_errors import describe_errors
from bailiff_core.model.policy import Policy
from bailiff_sim.traces.catalogue import cluster
from bailiff_sim.traces.jobs import Trace

from .metrics import HOUR, Run, metrics, spread
from .run_stats import JobStats
from .runs import Experiment, Progress, check_classes, digest, manifest_header, run_all
from .workload import Workload
from .workload_builder import assemble

CAP_WINDOW = "24h"
FORMAT = 1


@dataclass(frozen=True)
class Point:
    """One setting of the knobs; figures are means over the seeds.

    Attributes:
        lost: GPU-hours of work lost and of restarts.
        waited: Mean wait time of the high classes, hours.
        waited_p95: Its 95th percentile.
        others_waited: Mean of the other classes.
        not_ended: Jobs that never ended or were rejected, which no wait time includes.
        digests: Of the runs, by seed.
        frontier: On the Pareto frontier: no setting has fewer jobs that do not end, and of those with as few, none is better
            in lost or waited and at least as good in the other.
    """

    setting: Mapping[str, object]
    lost: float
    waited: float
    waited_p95: float
    others_waited: float
    evictions: float
    not_ended: float = 0.0
    digests: tuple[str, ...] = ()
    frontier: bool = False


def with_setting(policy: Policy, setting: Mapping[str, object]) -> Policy:
    """Returns the policy with these fields set, such as `protections.min_runtime.preempt` or `projects.vision.quota.gpus`.

    Raises `ValueError` with the field that is wrong.
    """
    data = policy.model_dump(mode="json")
    for path, value in setting.items():
        _set_field(data, path, value)
    try:
        return Policy.model_validate_json(json.dumps(data))
    except ValidationError as error:
        wrong = describe_errors(error.errors(include_url=False))
        raise ValueError(f"{', '.join(f'{k}={v}' for k, v in setting.items())}: {wrong}") from None


def settings(knobs: Mapping[str, Sequence[object]], most: int, seed: int) -> list[dict[str, object]]:
    """Returns all combinations; if more than `most`, a random sample of that size that has the first and the last one."""
    names = list(knobs)
    grid = [dict(zip(names, values, strict=True)) for values in product(*knobs.values())]
    if len(grid) <= most:
        return grid
    chosen = Random(seed).sample(range(1, len(grid) - 1), max(0, most - 2))  # noqa: S311 - must be reproducible
    return [grid[at] for at in sorted({0, len(grid) - 1, *chosen})]


@dataclass(frozen=True)
class Search:
    """Values to try on the first policy of `experiment`.

    Attributes:
        most: Maximum number of settings.
        high: Minimum value of the high classes; None: all classes with jobs but the lowest.
    """

    experiment: Experiment
    knobs: Mapping[str, Sequence[object]]
    most: int = 64
    high: int | None = None


def search_from(found: dict[str, Any]) -> Search:
    """Reads the search of a manifest. Raises `ValueError` if it has none."""
    try:
        return TypeAdapter(Search).validate_json(json.dumps(found))
    except ValidationError as error:
        raise ValueError(f"not a manifest of a search: {describe_errors(error.errors(include_url=False))}") from None


def manifest(search: Search, source: Trace, points: Sequence[Point]) -> dict[str, object]:
    """Returns the manifest: the search, the digest of its trace, the engine, and each point with the digests of its runs."""
    return {
        "bailiff_tuning": FORMAT,
        **manifest_header(search.experiment, source),
        "knobs": {name: list(values) for name, values in search.knobs.items()},
        "most": search.most,
        "high": search.high,
        "points": [asdict(point) for point in points],
    }


def tune(search: Search, source: Trace, progress: Progress | None = None) -> list[Point]:
    """Returns a point per setting, ordered by work lost. Raises `ValueError` if something cannot be run."""
    experiment = search.experiment
    label, base = next(iter(experiment.policies.items()))
    workload = assemble(source, cluster(experiment.cluster), experiment.choices, experiment.seeds[0])
    check_classes(source, workload, label, base)
    high = _high_classes(workload, base, search.high)
    points = []
    for setting in settings(search.knobs, search.most, experiment.seeds[0]):
        label = ", ".join(f"{name.rpartition('.')[2]}={value}" for name, value in setting.items())
        one = replace(experiment, policies={label: with_setting(base, setting)}, baselines=())
        points.append(_point(setting, run_all(one, source, progress), high))
    ranked = sorted(points, key=lambda point: (point.lost, point.waited, repr(point.setting)))
    return [replace(point, frontier=not any(_better(other, point) for other in ranked)) for point in ranked]


def _high_classes(workload: Workload, base: Policy, least: int | None) -> frozenset[str]:
    """Names of the high classes, by the policy before any knob is set."""
    entries = [base.find_class(job.priority_class) for _, job in workload.demands()]
    value_of = {entry.name: entry.value for entry in entries if entry is not None}
    values = sorted(set(value_of.values()))
    least = least if least is not None else values[min(1, len(values) - 1)]
    found = frozenset(name for name, value in value_of.items() if value >= least)
    if not found:
        raise ValueError(f"no job has a class with a value of {least} or more, so no wait times can be compared: lower --high")
    return found


def _better(one: Point, other: Point) -> bool:
    if one.not_ended != other.not_ended:
        return one.not_ended < other.not_ended
    at_least = one.lost <= other.lost and one.waited <= other.waited
    return at_least and (one.lost < other.lost or one.waited < other.waited)


def _point(setting: Mapping[str, object], runs: Sequence[Run], high: frozenset[str]) -> Point:
    found: list[dict[str, Any]] = [metrics(run) for run in runs]
    waits = [_spread_of(run, lambda job: job.class_name in high) for run in runs]
    others = [_spread_of(run, lambda job: job.class_name not in high) for run in runs]
    return Point(
        setting,
        lost=mean(each["gpu_hours"]["lost"] + each["gpu_hours"]["restarts"] for each in found),
        waited=mean(each.get("mean", 0.0) for each in waits),
        waited_p95=mean(each.get("p95", 0.0) for each in waits),
        others_waited=mean(each.get("mean", 0.0) for each in others),
        evictions=mean(each["evictions"] for each in found),
        not_ended=mean(each["unfinished"] + each["refused"] for each in found),
        digests=tuple(digest(run) for run in runs),
    )


def _spread_of(run: Run, chosen: Callable[[JobStats], bool]) -> Mapping[str, float]:
    return spread([job.waited_by(run.end) / HOUR for job in run.jobs.values() if chosen(job)])


def _set_field(data: dict[str, Any], path: str, value: object) -> None:
    parts = path.split(".")
    here: Any = data
    for at, part in enumerate(parts[:-1]):
        if isinstance(here, list):
            inner = next((each for each in here if each.get("name") == part), None)
        else:
            inner = here.get(part) if part in here else None
            if inner is None and part == "eviction_cap":
                inner = here[part] = {"evictions": 1, "window": CAP_WINDOW}
            elif inner is None and part in here:
                inner = here[part] = {}
        if not isinstance(inner, dict | list):
            raise ValueError(f"{path}: the policy has no {'.'.join(parts[: at + 1])!r}; known: {_names(here)}")
        here = inner
    if not isinstance(here, dict) or (parts[-1] not in here and parts[-1] != "gpus"):
        raise ValueError(f"{path}: there is no field {parts[-1]!r}; known: {_names(here)}")
    if parts[-1] == "gpus":
        here.pop("gpu_milli", None)
    here[parts[-1]] = deepcopy(value)


def _names(here: dict[str, Any] | list[Any]) -> str:
    names = list(here) if isinstance(here, dict) else [str(each.get("name")) for each in here]
    return ", ".join(names) or "none"
