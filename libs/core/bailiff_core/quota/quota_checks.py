"""Limits and quotas of projects, `cooldown` of projects, and `cap-at-fair-share`. Each refusal is a sentence.

Every check uses the current snapshot, trials included, before the unit is placed in it.
"""

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import NamedTuple

from bailiff_core.model.gpu_kinds import FIRST
from bailiff_core.model.job_rules import project_cooldown
from bailiff_core.model.policy import Action
from bailiff_core.model.project_tree import NO_BOUNDS, ROOT, project_text
from bailiff_core.model.resource_vector import UNLIMITED, ZERO, Amount, ResourceVector, resource_text
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement
from bailiff_core.records.wire import time_text

from .demand_vector import Scale, of_unit
from .fair_share import NOTHING, Entitlement, Entitlements
from .promises import excess_over_promises, promise_broken
from .resource_snapshot import ResourceSnapshot
from .usage import Usage

Shares = Entitlements
NON_PREEMPTIBLE_SUFFIX = " for work that is not preemptible"
COOLDOWN = "cooldown"
CAP_AT_FAIR_SHARE = "cap-at-fair-share"


def over_bounds(snapshot: ResourceSnapshot, unit: Unit, place: GangPlacement | None = None) -> str | None:
    """Why the unit may not be added to the usage of its projects: `over_limit`, or `over_quota`."""
    return over_limit(snapshot, unit, place) or over_quota(snapshot, unit, place)


def over_limit(snapshot: ResourceSnapshot, unit: Unit, place: GangPlacement | None = None) -> str | None:
    """Why a project would exceed its limit with the unit, or GPUs would be in use that are reserved for others.

    Args:
        place: None: on any device.
    """
    usage = snapshot.usage
    demand: ResourceVector | None = None
    for project in usage.tree.branches[usage.leaf_of(unit.job)].path:
        limit = usage.tree.branches[project].limit
        if limit == NO_BOUNDS:
            continue
        demand = demand or _min_demand(usage, unit, place)
        over = _exceeded_resource(usage.allocated(project), demand, limit)
        if over is not None:
            return would_use(usage, project, over, usage.allocated(project).plus(demand), limit, "limit")
    return promise_broken(snapshot, unit)


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
        quota = usage.entitlements[project].quota
        over = _exceeded_resource(usage.non_preemptible(project), demand, quota)
        if over is not None:
            text = would_use(
                usage, project, over, usage.non_preemptible(project).plus(demand), quota, "quota", NON_PREEMPTIBLE_SUFFIX
            )
            return text + shrunk_text(usage, project, over) + _unstated_text(usage, project, over)
    return None


def never_within_bounds(snapshot: ResourceSnapshot, unit: Unit) -> str | None:
    """Why the unit would exceed a limit or, if not preemptible, a quota, even if nothing else were allocated."""
    usage = snapshot.usage
    demand = _min_demand(usage, unit, None)
    for project in usage.tree.branches[usage.leaf_of(unit.job)].path:
        branch = usage.tree.branches[project]
        over = _exceeded_resource(ZERO, demand, branch.limit)
        if over is not None:
            return would_use(usage, project, over, demand, branch.limit, "limit")
        over = None if unit.job.preemptible else _exceeded_resource(ZERO, demand, branch.quota)
        if over is not None:
            return would_use(usage, project, over, demand, branch.quota, "quota", NON_PREEMPTIBLE_SUFFIX)
    return None


def may_reclaim(snapshot: ResourceSnapshot, shares: Shares, unit: Unit, scale: Scale) -> str | None:
    """Why the unit's project may not reclaim resources for it: it would exceed its fair share, its limit or its quota.

    Within its quota of the kinds of GPU that the unit asks for, what it uses of others does not matter.
    """
    usage = snapshot.usage
    project = usage.leaf_of(unit.job)
    entitled = shares.get(project, NOTHING)
    share, demand = entitled.share, of_unit(unit, scale)
    used = usage.allocated(project).plus(demand)
    limit = usage.tree.branches[project].limit
    for at in divided(usage, entitled, used, demand):
        if used[at] > share.amount(at):
            if UNLIMITED != limit.bound(at) <= share.amount(at):  # no share is above it
                return would_use(usage, project, at, used, limit, "limit")
            return would_use(usage, project, at, used, share, "fair share") + shrunk_text(usage, project, at)
    return over_quota(snapshot, unit)


def divided(usage: Usage, entitled: Entitlement, used: ResourceVector, demand: ResourceVector) -> Iterable[int]:
    """The resources in which a project that uses so much with this demand is measured by its shares.

    Of kinds of GPU only those that it asks for. All GPUs are left out where it stays within its quota of these kinds and asks for
    no others: of what it is entitled to by kind, it may have borrowed others meanwhile.
    """
    kinds = [at for at in range(FIRST, len(demand)) if demand[at]]
    within = all(entitled.quota[at] == UNLIMITED or used[at] <= entitled.quota[at] for at in kinds)
    return (1, 2, *kinds) if kinds and within and usage.of_kinds(demand) else (0, 1, 2, *kinds)


def _min_demand(usage: Usage, unit: Unit, place: GangPlacement | None) -> ResourceVector:
    return of_unit(unit, usage.largest) if place is None else usage.usage_at(unit, place)


def _exceeded_resource(used: ResourceVector, demand: ResourceVector, bound: ResourceVector) -> int | None:
    """Index of the first requested resource whose bound would be exceeded, or `None`."""
    for at, amount in enumerate(demand):
        if amount > 0 and bound.bound(at) != UNLIMITED and used.amount(at) + amount > bound.bound(at):
            return at
    return None


def exceeds(used: ResourceVector, bound: ResourceVector) -> bool:
    """Whether the usage is above the bound in any resource."""
    return any(most != UNLIMITED and amount > most for amount, most in zip(used, bound, strict=False))


def would_use(
    usage: Usage, project: str, at: int, used: ResourceVector, bound: ResourceVector, kind: str, suffix: str = ""
) -> str:
    """The sentence for a project whose usage would exceed a bound in resource `at`."""
    amount, maximum = resource_text(at, used[at]), resource_text(at, bound.bound(at), up=False)
    return f"{project_text(project)} would use {amount} of its {kind} of {maximum} {usage.tree.resources[at]}{suffix}"


def may_borrow_at(state: PoolState, project: str) -> int:
    """Time, µs, from which the project may exceed its quota; 0 if nothing was reclaimed from it."""
    if project not in state.reclaimed_at:
        return 0
    cooldown = project_cooldown(state, project).value
    return state.reclaimed_at[project] + cooldown if cooldown else 0


def shrunk_text(usage: Usage, project: str, at: int) -> str:
    """That only part of the project's quota is in force, to follow a sentence; empty: all of it is."""
    full, in_force = usage.entitlements[project].full[at], usage.entitlements[project].quota[at]
    if in_force == full:
        return ""
    quota = f"quota of {resource_text(at, full)} {usage.tree.resources[at]}"
    part = resource_text(at, in_force, up=False)
    return f"; of its {quota} {part} is in force, as the quotas asked for exceed what there is"


def _unstated_text(usage: Usage, project: str, at: int) -> str:
    """That the project states no such quota, to follow a sentence; empty: it does."""
    unstated = at and at in usage.tree.branches[project].unstated
    left = " that the quotas of others leave" if at >= FIRST else ""
    return f"; it states none, so it is its part of the {usage.tree.resources[at]}{left} as of the GPUs" if unstated else ""


def cooldown_violation(snapshot: ResourceSnapshot, unit: Unit) -> str | None:
    """Why the unit may not start now, as a sentence, or `None`: a project of its path would borrow during its cooldown.

    A project that lost resources to reclaim, and its ancestors below the common ancestor with the preemptor, start nothing
    beyond their quotas for a time: otherwise they would borrow again immediately (kueue#14468, #6861).
    """
    state = snapshot.state
    if not state.reclaimed_at:
        return None
    usage = snapshot.usage
    demand: ResourceVector | None = None
    for project in usage.tree.branches[usage.leaf_of(unit.job)].path:
        until = may_borrow_at(state, project)
        if state.now >= until:
            continue
        demand = demand or of_unit(unit, usage.smallest)
        if _borrows(usage.allocated(project), demand, usage.entitlements[project].quota):
            by = f"rule {COOLDOWN}, policy field {project_cooldown(state, project).field}"
            return f"{project_text(project)} lost resources to reclaim and may not borrow before {time_text(until)} ({by})"
    return None


def _borrows(used: ResourceVector, demand: ResourceVector, quota: ResourceVector) -> bool:
    """Whether the request would exceed the quota of a requested resource."""
    return _exceeded_resource(used, demand, quota) is not None


def next_cooldown_end(state: PoolState) -> int | None:
    """Time, µs, at which the next cooldown ends, or `None`."""
    ends = (may_borrow_at(state, project) for project in state.reclaimed_at)
    return min((end for end in ends if end > state.now), default=None)


class CapAtFairShare:
    """Preempt never takes the preemptor's project, or an ancestor, beyond the larger of its fair share and its usage.

    Usage beyond the fair share is borrowed. Allocate may borrow free resources; a preemptor that evicted others for borrowed
    resources would lose them to reclaim and could evict the same jobs again: with both actions enabled, without end.

    One check is for one preemptor. Created before anything is evicted in the snapshot; `forbids` uses the current snapshot.
    """

    def __init__(self, snapshot: ResourceSnapshot, shares: Shares, unit: Unit) -> None:
        usage = snapshot.usage
        path = usage.tree.branches[usage.leaf_of(unit.job)].path
        self._usage = usage
        self._unit = unit
        self._bounds = {
            project: (shares.get(project, NOTHING).share, usage.allocated(project)) for project in path if project != ROOT
        }

    @classmethod
    def of(cls, snapshot: ResourceSnapshot, shares: Shares, unit: Unit, action: Action) -> "CapAtFairShare | None":
        """The check for this unit; `None` if the rule is disabled or does not apply."""
        rules = snapshot.state.rules
        on = (
            action == "preempt"
            and rules.preemption.cap_at_fair_share
            and rules.projects
            and "reclaim" in rules.preemption.actions
        )
        return cls(snapshot, shares, unit) if on else None

    def most(self, project: str) -> ResourceVector:
        """What a project of the path, but not the root, may use with the unit."""
        share, usage_before = self._bounds[project]
        return ResourceVector(*map(max, *zip(*zip_longest(share, usage_before, fillvalue=0), strict=True)))

    def forbids(self, place: GangPlacement | None = None) -> str | None:
        """Why the unit may not be added to the current usage of its projects, as a sentence, or `None`."""
        usage = self._usage
        demand = of_unit(self._unit, usage.smallest) if place is None else usage.usage_at(self._unit, place)
        for project, (share, usage_before) in self._bounds.items():
            usage_after = usage.allocated(project).plus(demand)
            at = _exceeded_share(usage_after, share, usage_before)
            if at is not None:
                used, bound = resource_text(at, usage_after[at]), resource_text(at, share.amount(at), up=False)
                return (
                    f"{project_text(project)} would use {used} of its fair share of {bound} {usage.tree.resources[at]}, "
                    f"and preempt does not exceed it (rule {CAP_AT_FAIR_SHARE}, policy field preemption.cap_at_fair_share)"
                )
        return None


class Excess(NamedTuple):
    """By how much a project would use more of a resource than it may: units as in `ResourceVector`."""

    project: str
    at: int
    amount: Amount


def excesses(snapshot: ResourceSnapshot, unit: Unit, cap: CapAtFairShare | None, *, may_borrow: bool) -> Iterator[Excess]:
    """How much its projects have to give back before the unit is within their limits, the cap and, unless it may borrow, quotas
    in their cooldown."""
    state, usage = snapshot.state, snapshot.usage
    demand = of_unit(unit, usage.smallest)
    beyond = excess_over_promises(snapshot, unit)
    if beyond:
        yield Excess(ROOT, 0, beyond)
    for project in usage.tree.branches[usage.leaf_of(unit.job)].path:
        bounds = [usage.tree.branches[project].limit]
        if cap is not None and project != ROOT:
            bounds.append(cap.most(project))
        if not may_borrow and state.now < may_borrow_at(state, project):
            bounds.append(usage.entitlements[project].quota)
        used = usage.allocated(project)
        for bound in bounds:
            for at, amount in enumerate(demand):
                if amount > 0 and bound.bound(at) != UNLIMITED and used.amount(at) + amount > bound.bound(at):
                    yield Excess(project, at, used.amount(at) + amount - bound.bound(at))


def _exceeded_share(after: ResourceVector, share: ResourceVector, before: ResourceVector) -> int | None:
    """Index of the first resource whose usage would exceed both the usage before and the fair share, or `None`."""
    beyond = (at for at, amount in enumerate(after) if amount > before.amount(at) and amount > share.amount(at))
    return next(beyond, None)
