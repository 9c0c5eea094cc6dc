"""Shares over time beside KAI's and Slurm's published formulas, on the same histories; no times are measured.

KAI: what is beyond quotas by `max(0, w + k × (w - u))`, with w the weight's part, u the use as a part of the cluster's
capacity, k = 1 (kai-scheduler/KAI-Scheduler, docs/developer/designs/time-based-fairshare). Slurm: the account with the
largest `2^(-use ÷ share)` has what it asks for; its use is a part of all accounts'. The first history is of KAI's time-based-
fairshare-simulator (two-queue-oscillation: 16 GPUs, two queues that always ask for all, a half-life of 128 cycles, 1,024
cycles); that program needs a Kubernetes test environment and is not run. Jobs of one GPU end at each step, so that nothing
has to be evicted, and each step is a turn. Bailiff: what the engine divides, and its sums of past use.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bailiff_core.model.past_use import add_up, average
from bailiff_core.model.policy import Project
from bailiff_core.model.project_tree import ProjectTree
from bailiff_core.model.resource_vector import Bounds, ResourceVector
from bailiff_core.model.state import PastUse, ProjectUse
from bailiff_core.quota.fair_share import Steps, entitlements
from bailiff_core.quota.quotas_in_full import quotas_in_full

from .table import Row, Run

STEP = 3_600_000_000
ONE, OTHER = "a", "b"
Used = Mapping[str, float]
Rule = Callable[["History", dict[str, int], Used, Used], dict[str, float]]


@dataclass(frozen=True)
class History:
    """Both projects ask for all GPUs, but `b` for none at first. quota: of `a`. Times in steps."""

    what: str
    gpus: int
    half_life: int
    alone: int
    together: int
    quota: int = 0


HISTORIES = (
    History("KAI's example: 16 GPUs, always asked for by both", 16, 128, 0, 1024),
    History("8 GPUs, one project alone for 3 days of a half-life of 7", 8, 168, 72, 168),
    History("the same, 4 of its GPUs within its quota", 8, 168, 72, 168, quota=4),
    History("8 GPUs, one project alone for an hour", 8, 168, 1, 168),
)


def bailiff(history: History, asked: dict[str, int], beyond: Used, _all: Used) -> dict[str, float]:
    """By the engine."""
    tree = ProjectTree((Project(name=ONE, quota=Bounds(gpu_milli=1000 * history.quota)), Project(name=OTHER)))
    total = ResourceVector(1000 * history.gpus)
    requested = {name: ResourceVector(1000 * gpus) for name, gpus in asked.items()}
    used = {name: int(1000 * amount) for name, amount in beyond.items()}
    quotas = quotas_in_full(tree, total, total.gpu_milli)
    found = entitlements(tree, total, quotas, requested, Steps(), used=used)
    return {name: float(found[name].share.gpu_milli) / 1000 for name in asked}


def kai(history: History, asked: dict[str, int], _beyond: Used, used: Used) -> dict[str, float]:
    """By KAI's formula, of GPUs in parts."""
    found = {ONE: float(min(history.quota, asked[ONE])), OTHER: 0.0}
    rest = history.gpus - found[ONE]
    while rest > 1e-9 and (short := [name for name in asked if asked[name] - found[name] > 1e-9]):
        weights = {name: max(0.0, 2 / len(short) - used[name] / history.gpus) for name in short}
        parts = {name: weight / (sum(weights.values()) or 1) for name, weight in weights.items()}
        given = {name: min(asked[name] - found[name], rest * part) for name, part in parts.items()}
        found = {name: found[name] + given.get(name, 0) for name in asked}
        rest -= sum(given.values())
        if not any(given.values()):
            break
    return found


def slurm(history: History, asked: dict[str, int], _beyond: Used, used: Used) -> dict[str, float]:
    """By Slurm's formula, account after account."""
    total, rest, found = sum(used.values()) or 1.0, history.gpus, dict[str, float]()
    for name in sorted(asked, key=lambda each: (-(2 ** (-(used[each] / total) / 0.5)), each)):
        found[name] = float(min(rest, asked[name]))
        rest -= int(found[name])
    return found


def gpu_time(history: History, rule: Rule) -> tuple[float, int]:
    """What `b` had of the GPU time in which both asked, %, and how many GPUs changed hands."""
    past = {name: PastUse(history.half_life * STEP, 0) for name in (ONE, OTHER)}
    beyond, every = ({name: ProjectUse() for name in past} for _ in range(2))
    had, changes, before = dict.fromkeys(past, 0.0), 0.0, dict[str, float]()
    for step in range(history.alone + history.together):
        together = step >= history.alone
        means = [{name: average(use[name].used, history.half_life * STEP) / 1000 for name in past} for use in (beyond, every)]
        gives = rule(history, {ONE: history.gpus, OTHER: history.gpus * together}, *means)
        for name in past:
            for uses, quota in ((beyond, 1000 * history.quota * (name == ONE)), (every, 0)):
                uses[name].held = int(1000 * gives[name])
                add_up(uses[name], past[name], quota, (step + 1) * STEP)
            had[name] += gives[name] * together
        changes += abs(gives[OTHER] - before.get(OTHER, gives[OTHER])) * together
        before = gives
    return 100 * had[OTHER] / sum(had.values()), round(changes)


def measure(run: Run) -> list[Row]:
    """What the second project has, by each rule."""
    rows = []
    for history in HISTORIES:
        (ours, moved), *others = (gpu_time(history, rule) for rule in (bailiff, kai, slurm))
        for name, (theirs, changes) in zip(("KAI's formula", "Slurm's formula"), others, strict=True):
            run.say(
                f"{history.what}: {ours:.1f} % against {theirs:.1f} % by {name}; {moved} against {changes} GPUs changed hands"
            )
            detail = {"gpus_moved": moved, "gpus_moved_by_baseline": changes}
            rows.append(Row(f"GPU time of the second project, {history.what}", ours, "%", "-", theirs, f"by {name}", detail))
    return rows
