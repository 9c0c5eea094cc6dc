"""Parameter search over policies on one trace: work lost against pending time of high classes."""

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from itertools import product
from random import Random
from statistics import mean
from typing import Any

from pydantic import ValidationError

from bailiff_bus.validation_errors import describe_errors
from bailiff_core.model.policy import Policy
from bailiff_sim.traces.catalogue import cluster
from bailiff_sim.traces.jobs import Trace

from .metrics import HOUR, Run, metrics, spread
from .run_stats import JobStats
from .runs import Ask, Progress, ask_from, asked, check_classes, digest, run_all
from .workload import Workload
from .workload_builder import assemble

CAP_WINDOW = "24h"
FORMAT = 1


@dataclass(frozen=True)
class Point:
    """One setting of the knobs. lost: GPU-hours of work lost and of restarts; waited: hours, mean of the high classes; not_ended:
    jobs that never ended, or were refused, whose waiting nobody counts; all means over the seeds. digests: of the runs, by seed.

    frontier: no setting has more jobs end, and of those with as many no other point is better in one of lost and waited and at
    least as good in the other.
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
    """The policy with these values at these places, such as `protections.min_runtime.preempt` or `projects.vision.quota.gpus`.

    Raises `ValueError` with the place that is wrong.
    """
    data = policy.model_dump(mode="json")
    for path, value in setting.items():
        _put(data, path, value)
    try:
        return Policy.model_validate_json(json.dumps(data))
    except ValidationError as error:
        wrong = describe_errors(error.errors(include_url=False))
        raise ValueError(f"{', '.join(f'{k}={v}' for k, v in setting.items())}: {wrong}") from None


def settings(knobs: Mapping[str, Sequence[object]], most: int, seed: int) -> list[dict[str, object]]:
    """Every combination; of more than `most`, so many by chance, with the first and the last of each knob's values among them."""
    names = list(knobs)
    grid = [dict(zip(names, values, strict=True)) for values in product(*knobs.values())]
    if len(grid) <= most:
        return grid
    chosen = Random(seed).sample(range(1, len(grid) - 1), max(0, most - 2))  # noqa: S311 - repeatable chance is what is asked for
    return [grid[at] for at in sorted({0, len(grid) - 1, *chosen})]


@dataclass(frozen=True)
class Search:
    """What is to be tried on the first policy of `ask`. most: so many settings. high: classes of at least this value are the
    high ones; None: all but the lowest that jobs are of.
    """

    ask: Ask
    knobs: Mapping[str, Sequence[object]]
    most: int = 64
    high: int | None = None


def search_from(found: dict[str, Any]) -> Search:
    """The search of a manifest. Raises `ValueError` where it is none."""
    try:
        knobs = {str(name): list(values) for name, values in found["knobs"].items()}
        return Search(ask_from(found["ask"]), knobs, int(found["most"]), found["high"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is no manifest of a search: {error}") from None


def manifest(search: Search, source: Trace, points: Sequence[Point]) -> dict[str, object]:
    """What was tried, on which trace, with which engine; and what came out of each setting, with the digests of its runs."""
    return {
        "bailiff_tuning": FORMAT,
        **asked(search.ask, source),
        "knobs": {name: list(values) for name, values in search.knobs.items()},
        "most": search.most,
        "high": search.high,
        "points": [asdict(point) for point in points],
    }


def tune(search: Search, source: Trace, progress: Progress | None = None) -> list[Point]:
    """A point for each setting, in the order of what is lost. Raises `ValueError` for what cannot be run."""
    ask = search.ask
    label, base = next(iter(ask.policies.items()))
    workload = assemble(source, cluster(ask.cluster), ask.choices, ask.seeds[0])
    check_classes(source, workload, label, base)
    high = _high_classes(workload, base, search.high)
    points = []
    for setting in settings(search.knobs, search.most, ask.seeds[0]):
        label = ", ".join(f"{name.rpartition('.')[2]}={value}" for name, value in setting.items())
        one = replace(ask, policies={label: with_setting(base, setting)}, baselines=())
        points.append(_point(setting, run_all(one, source, progress), high))
    ranked = sorted(points, key=lambda point: (point.lost, point.waited, repr(point.setting)))
    return [replace(point, frontier=not any(_better(other, point) for other in ranked)) for point in ranked]


def _high_classes(workload: Workload, base: Policy, least: int | None) -> frozenset[str]:
    """The classes whose waiting is looked at, by the policy as it is before any knob is turned."""
    entries = [base.find_class(job.priority_class) for _, job in workload.demands()]
    value_of = {entry.name: entry.value for entry in entries if entry is not None}
    values = sorted(set(value_of.values()))
    least = least if least is not None else values[min(1, len(values) - 1)]
    found = frozenset(name for name, value in value_of.items() if value >= least)
    if not found:
        raise ValueError(f"no job is of a class with a value of {least} or more, so nobody's waiting can be compared")
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


def _put(data: dict[str, Any], path: str, value: object) -> None:
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
            raise ValueError(f"{path}: the policy has nothing at {'.'.join(parts[: at + 1])!r}; there {_there(here)}")
        here = inner
    if not isinstance(here, dict) or (parts[-1] not in here and parts[-1] != "gpus"):
        raise ValueError(f"{path}: there is no {parts[-1]!r}; there {_there(here)}")
    if parts[-1] == "gpus":
        here.pop("gpu_milli", None)
    here[parts[-1]] = deepcopy(value)


def _there(here: dict[str, Any] | list[Any]) -> str:
    names = list(here) if isinstance(here, dict) else [str(each.get("name")) for each in here]
    return f"are {', '.join(names)}" if names else "is none"
