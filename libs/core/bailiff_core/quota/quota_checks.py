"""Limits and quotas of projects. Each refusal is a sentence.

Every check uses the current snapshot, trials included, before the unit is placed in it.
"""

from collections.abc import Mapping

from bailiff_core.model.project_tree import NO_BOUNDS, project_text
from bailiff_core.model.resource_vector import RESOURCES, UNLIMITED, ZERO, ResourceVector, resource_text
from bailiff_core.model.state import Job
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement

from .demand_vector import of_unit
from .resource_snapshot import ResourceSnapshot
from .usage import Usage

Shares = Mapping[str, ResourceVector]
NON_PREEMPTIBLE_SUFFIX = " for work that is not preemptible"


def over_bounds(snapshot: ResourceSnapshot, unit: Unit, place: GangPlacement | None = None) -> str | None:
    """Why the unit may not be added to the usage of its projects: `over_limit`, or `over_quota`."""
    return over_limit(snapshot, unit, place) or over_quota(snapshot, unit, place)


def over_limit(snapshot: ResourceSnapshot, unit: Unit, place: GangPlacement | None = None) -> str | None:
    """Why a project would exceed its limit with the unit. place: default: on any device."""
    usage = snapshot.usage
    demand: ResourceVector | None = None
    for project in usage.tree.branches[usage.leaf_of(unit.job)].path:
        limit = usage.tree.branches[project].limit
        if limit == NO_BOUNDS:
            continue
        demand = demand or _min_demand(usage, unit, place)
        over = _exceeded_resource(usage.allocated(project), demand, limit)
        if over is not None:
            return would_use(project, over, usage.allocated(project).plus(demand), limit, "limit")
    return None


def above_limit(snapshot: ResourceSnapshot, job: Job) -> bool:
    """Whether one of the job's projects uses more than its limit now."""
    usage = snapshot.usage
    path = usage.tree.branches[usage.leaf_of(job)].path
    return any(exceeds(usage.allocated(project), usage.tree.branches[project].limit) for project in path)


def over_quota(snapshot: ResourceSnapshot, unit: Unit, place: GangPlacement | None = None) -> str | None:
    """Why the non-preemptible usage of a project would exceed its quota with the unit; `None` for preemptible units."""
    if unit.job.preemptible:
        return None
    usage = snapshot.usage
    demand = _min_demand(usage, unit, place)
    for project in usage.tree.branches[usage.leaf_of(unit.job)].path:
        quota = usage.tree.branches[project].quota
        over = _exceeded_resource(usage.non_preemptible(project), demand, quota)
        if over is not None:
            used = usage.non_preemptible(project).plus(demand)
            return would_use(project, over, used, quota, "quota", NON_PREEMPTIBLE_SUFFIX)
    return None


def never_within_bounds(snapshot: ResourceSnapshot, unit: Unit) -> str | None:
    """Why the unit would exceed a limit or, if not preemptible, a quota, even if nothing else were allocated."""
    usage = snapshot.usage
    demand = of_unit(unit, usage.smallest)
    for project in usage.tree.branches[usage.leaf_of(unit.job)].path:
        branch = usage.tree.branches[project]
        over = _exceeded_resource(ZERO, demand, branch.limit)
        if over is not None:
            return would_use(project, over, demand, branch.limit, "limit")
        over = None if unit.job.preemptible else _exceeded_resource(ZERO, demand, branch.quota)
        if over is not None:
            return would_use(project, over, demand, branch.quota, "quota", NON_PREEMPTIBLE_SUFFIX)
    return None


def may_reclaim(snapshot: ResourceSnapshot, shares: Shares, unit: Unit) -> str | None:
    """Why the unit's project may not reclaim resources for it: it would exceed its fair share or quota."""
    usage = snapshot.usage
    project = usage.leaf_of(unit.job)
    share = shares.get(project, ZERO)
    used = usage.allocated(project).plus(of_unit(unit, usage.smallest))
    for at in range(3):
        if used[at] > share[at]:
            return would_use(project, at, used, share, "fair share")
    return over_quota(snapshot, unit)


def _min_demand(usage: Usage, unit: Unit, place: GangPlacement | None) -> ResourceVector:
    return of_unit(unit, usage.largest) if place is None else usage.usage_at(unit, place)


def _exceeded_resource(used: ResourceVector, demand: ResourceVector, bound: ResourceVector) -> int | None:
    """Index of the first requested resource whose bound would be exceeded, or `None`."""
    for at in range(3):
        if demand[at] > 0 and bound[at] != UNLIMITED and used[at] + demand[at] > bound[at]:
            return at
    return None


def exceeds(used: ResourceVector, bound: ResourceVector) -> bool:
    """Whether the usage is above the bound in any resource."""
    return any(bound[at] != UNLIMITED and used[at] > bound[at] for at in range(3))


def would_use(project: str, at: int, used: ResourceVector, bound: ResourceVector, kind: str, suffix: str = "") -> str:
    """The sentence for a project whose usage would exceed a bound in resource `at`."""
    amount, maximum = resource_text(at, used[at]), resource_text(at, bound[at], up=False)
    return f"{project_text(project)} would use {amount} of its {kind} of {maximum} {RESOURCES[at]}{suffix}"
