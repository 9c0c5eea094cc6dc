"""Which settings of a policy move the mean waiting time: the same jobs simulated again, each time with one setting changed."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from pydantic import BaseModel

from bailiff_core.model.policy import Policy
from bailiff_core.model.resource_vector import Bounds

from .metrics import Run, metrics

MAX_JOBS = 5_000  # of a simulation that is repeated for each setting
SIGNIFICANT = 0.05
NO_LIMIT = Bounds()
AS_THERE = "as in the other policy"


@dataclass(frozen=True)
class SettingEffect:
    """A setting, how it was changed, and the mean waiting time then, in hours."""

    setting: str
    change: str
    waited_mean: float


def mean_wait(run: Run) -> float:
    """Hours from submission to start, and again after each eviction, on average."""
    found = metrics(run)["waiting"]
    assert isinstance(found, dict)
    return float(found.get("all", {}).get("mean", 0.0))


def is_significant(one: float, other: float) -> bool:
    """Whether two mean waiting times differ by more than a twentieth and a second."""
    return abs(one - other) > max(SIGNIFICANT * max(one, other), 1 / 3600)


def wait_settings(
    policy: Policy, run: Run, simulated: Callable[[str, Policy], Run], other: Policy | None = None
) -> list[SettingEffect]:
    """The settings of the policy that move the mean waiting time, the strongest first.

    Args:
        run: Of that policy.
        simulated: Runs the same jobs under another policy, for a label. Raises `ValueError` if they cannot run.
        other: Each setting becomes what it is there; default: what is usual in another scheduler.
    """
    usual, effects = mean_wait(run), []
    for setting, change, changed in _changes(policy) if other is None else _differences(policy, other):
        with suppress(ValueError):
            found = simulated(f"{setting} {change}", changed)
            if len(found.jobs) == len(run.jobs):  # else it rejects some with this setting alone, as without a project of theirs
                effects.append(SettingEffect(setting, change, mean_wait(found)))
    moving = [each for each in effects if is_significant(each.waited_mean, usual)]
    return sorted(moving, key=lambda each: -abs(each.waited_mean - usual))


def _changes(policy: Policy) -> Iterator[tuple[str, str, Policy]]:
    """Each setting, what it is changed to, and the policy with it."""
    if any(each.limit != NO_LIMIT for each in policy.projects):
        yield "projects[].limit", "without limits", _with_projects(policy, limit=NO_LIMIT)
    if policy.projects:
        yield "projects", "without projects", policy.model_copy(update={"projects": ()})
    if len(policy.preemption.actions) > 1:
        rules = policy.preemption.model_copy(update={"actions": ("allocate",)})
        yield "preemption.actions", "allocate only", policy.model_copy(update={"preemption": rules})
    other = "reserve" if policy.backfill == "greedy" else "greedy"
    yield "backfill", other, policy.model_copy(update={"backfill": other})


def _differences(policy: Policy, other: Policy) -> Iterator[tuple[str, str, Policy]]:
    """The same for each setting that differs in the other policy."""
    for name in Policy.model_fields:
        mine, theirs = getattr(policy, name), getattr(other, name)
        inner = list(type(mine).model_fields) if isinstance(mine, BaseModel) and type(mine) is type(theirs) else []
        for field in inner:
            if getattr(mine, field) != getattr(theirs, field):
                changed = mine.model_copy(update={field: getattr(theirs, field)})
                yield f"{name}.{field}", AS_THERE, policy.model_copy(update={name: changed})
        if not inner and mine != theirs:
            yield name, AS_THERE, policy.model_copy(update={name: theirs})


def _with_projects(policy: Policy, **update: object) -> Policy:
    return policy.model_copy(update={"projects": tuple(each.model_copy(update=update) for each in policy.projects)})
