"""Limits and quotas of projects, and limits of reclaim. Each refusal is a sentence.

Every check uses the current snapshot, trials included, before the unit is placed in it.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from bailiff_core.model.project_tree import NO_BOUNDS, project_text
from bailiff_core.model.resource_vector import RESOURCES, UNLIMITED, ZERO, Amount, ResourceVector, resource_text
from bailiff_core.model.state import Job
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement

from .demand_vector import of_unit
from .fair_share import allocatable
from .resource_snapshot import ResourceSnapshot
from .usage import Usage

Shares = Mapping[str, ResourceVector]
Margin = tuple[Amount | None, ...]
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
            return _would_use(project, over, usage.allocated(project).plus(demand), limit, "limit")
    return None


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
            return _would_use(project, over, used, quota, "quota", NON_PREEMPTIBLE_SUFFIX)
    return None


def never_within_bounds(snapshot: ResourceSnapshot, unit: Unit) -> str | None:
    """Why the unit would exceed a limit or, if not preemptible, a quota, even if nothing else were allocated."""
    usage = snapshot.usage
    demand = of_unit(unit, usage.smallest)
    for project in usage.tree.branches[usage.leaf_of(unit.job)].path:
        branch = usage.tree.branches[project]
        over = _exceeded_resource(ZERO, demand, branch.limit)
        if over is not None:
            return _would_use(project, over, demand, branch.limit, "limit")
        over = None if unit.job.preemptible else _exceeded_resource(ZERO, demand, branch.quota)
        if over is not None:
            return _would_use(project, over, demand, branch.quota, "quota", NON_PREEMPTIBLE_SUFFIX)
    return None


def may_reclaim(snapshot: ResourceSnapshot, shares: Shares, unit: Unit) -> str | None:
    """Why the unit's project may not reclaim resources for it: it would exceed its fair share or quota."""
    usage = snapshot.usage
    project = usage.leaf_of(unit.job)
    share = shares.get(project, ZERO)
    used = usage.allocated(project).plus(of_unit(unit, usage.smallest))
    for at in range(3):
        if used[at] > share[at]:
            return _would_use(project, at, used, share, "fair share")
    return over_quota(snapshot, unit)


def losing_project(snapshot: ResourceSnapshot, preemptor: Job, victim: Job) -> str:
    """The project whose losses are checked: just below the lowest common ancestor, on the victim's side."""
    usage = snapshot.usage
    return usage.tree.sides(usage.leaf_of(preemptor), usage.leaf_of(victim))[1]


class Reclaim:
    """Checks which units one preemptor may reclaim from other projects, on the snapshot at the time of creation.

    Relocated units are not reclaimed and must not be passed. place: placement of the preemptor, if it is known.
    """

    def __init__(self, snapshot: ResourceSnapshot, shares: Shares, unit: Unit, place: GangPlacement | None = None) -> None:
        usage = snapshot.usage
        self._usage = usage
        self._shares = shares
        self._usage_before = usage.all_allocated()
        self._preemptor = usage.leaf_of(unit.job)
        self._demand = of_unit(unit, usage.smallest) if place is None else usage.usage_at(unit, place)
        self._losing_sides: dict[str, tuple[str, str]] = {}
        self._bounds: dict[str, ResourceVector] = {}
        self._within_quota: dict[str, bool] = {}
        self._margins: dict[str, Margin] = {}

    def losing_project(self, victim: Job) -> str:
        """The project that loses the victim's resources."""
        return self._side_of(victim)[1]

    def may_reclaim_more(self, victim: Job, taken: ResourceVector) -> bool:
        """Whether a unit of this job may still be reclaimed after its side lost `taken`."""
        return _below(taken, self.margin(victim))

    def margin(self, victim: Job) -> Margin:
        """Reclaimable amounts: a unit of this job may be reclaimed while its side lost less than the amount of any resource."""
        leaf = self._usage.leaf_of(victim)
        if leaf not in self._margins:
            self._margins[leaf] = tuple(self._margin_of(*self._side_of(victim)))
        return self._margins[leaf]

    def _margin_of(self, mine: str, theirs: str) -> Iterator[Amount | None]:
        """Usage beyond the allocatable share, or, if the preemptor remains within its quota, beyond the victim side's quota."""
        bounds = [self._bound(theirs)]
        if self._fits_quota(mine):
            bounds.append(self._usage.tree.branches[theirs].quota)
        used = self._usage_before.get(theirs, ZERO)
        for at in range(3):
            excess = [used[at] - bound[at] for bound in bounds if bound[at] != UNLIMITED and mine != theirs]
            yield max(excess, default=None)

    def admits(self, units: Iterable[Unit]) -> bool:
        """Whether all these units may be reclaimed, in some order in which no job loses its core before its surplus.

        The remaining usage only shrinks, so the last unit of each losing project decides; it may be any job's last one.
        """
        taken: dict[str, ResourceVector] = {}
        last_units: dict[str, dict[str, tuple[Unit, ResourceVector]]] = {}
        for unit in units:
            project, allocated = self.losing_project(unit.job), self._usage.allocated_to(unit)
            taken[project] = taken.get(project, ZERO).plus(allocated)
            last_of_project = last_units.setdefault(project, {})
            if unit.job.id not in last_of_project or not last_of_project[unit.job.id][0].core:
                last_of_project[unit.job.id] = unit, allocated
        for project, last_of_project in last_units.items():
            by_amount = {allocated: unit.job for unit, allocated in last_of_project.values()}
            if not any(self.may_reclaim_more(job, taken[project].minus(allocated)) for allocated, job in by_amount.items()):
                return False
        return True

    def imbalance(self, units: Iterable[Unit]) -> str | None:
        """Why the preemption would only reverse the imbalance: an ancestor of the preemptor would end up above its fair share
        and with a larger part of it in use than a sibling that lost.
        """
        tree = self._usage.tree
        lost: dict[str, ResourceVector] = {}
        for unit in units:
            allocated = self._usage.allocated_to(unit)
            for project in tree.branches[self._usage.leaf_of(unit.job)].path:
                lost[project] = lost.get(project, ZERO).plus(allocated)
        path = tree.branches[self._preemptor].path
        for project, parent in pairwise(path):
            project_after = self._usage_before.get(project, ZERO).minus(lost.get(project, ZERO)).plus(self._demand)
            for sibling in tree.children[parent]:
                if sibling in lost and sibling != project:
                    sibling_after = self._usage_before.get(sibling, ZERO).minus(lost[sibling])
                    at = self._fuller_resource(project, project_after, sibling, sibling_after)
                    if at is not None:
                        share = self._shares.get(project, ZERO)
                        text = _would_use(project, at, project_after, share, "fair share")
                        return f"{text}, a larger part of it than {project_text(sibling)} would keep"
        return None

    def _fuller_resource(self, project: str, used: ResourceVector, sibling: str, sibling_used: ResourceVector) -> int | None:
        share, sibling_share = self._shares.get(project, ZERO), self._shares.get(sibling, ZERO)
        for at in range(3):
            if used[at] <= share[at]:
                continue
            if sibling_share[at] > 0 and used[at] * sibling_share[at] >= sibling_used[at] * share[at]:
                return at
            # Neither has a share (quotas below a project that has none): otherwise they would reclaim in turn without end.
            if share[at] == sibling_share[at] == 0 and sibling_used[at] < used[at]:
                return at
        return None

    def _side_of(self, victim: Job) -> tuple[str, str]:
        leaf = self._usage.leaf_of(victim)
        if leaf not in self._losing_sides:
            self._losing_sides[leaf] = self._usage.tree.sides(self._preemptor, leaf)
        return self._losing_sides[leaf]

    def _bound(self, project: str) -> ResourceVector:
        if project not in self._bounds:
            branch = self._usage.tree.branches[project]
            self._bounds[project] = allocatable(branch, self._shares.get(project, ZERO))
        return self._bounds[project]

    def _fits_quota(self, project: str) -> bool:
        if project not in self._within_quota:
            with_unit = self._usage_before.get(project, ZERO).plus(self._demand)
            self._within_quota[project] = not _exceeds(with_unit, self._usage.tree.branches[project].quota)
        return self._within_quota[project]


class Losses:
    """`Reclaim.admits`, incrementally: units are taken one after the other, and `undo` reverts them in reverse order.

    The taken set must be permitted before more is taken. A job's later units are taken before its earlier ones.
    """

    def __init__(self, reclaim: Reclaim, usage: Usage) -> None:
        self._reclaim, self._usage = reclaim, usage
        self._taken: dict[str, ResourceVector] = {}
        self._last: dict[str, ResourceVector] = {}  # by job: usage of the unit that may be evicted last
        self._ends: dict[str, dict[ResourceVector, int]] = {}  # by losing project: number of jobs by that usage
        self._order: list[tuple[str, str, ResourceVector, ResourceVector | None]] = []

    def take(self, unit: Unit) -> bool:
        """Take the unit; returns whether the taken set is permitted."""
        job, allocated = unit.job, self._usage.allocated_to(unit)
        project = self._reclaim.losing_project(job)
        before = self._last.get(job.id)
        self._order.append((project, job.id, allocated, before))
        if before is None or unit.core:
            self._set_last(project, job.id, allocated)
        taken = self._taken[project] = self._taken.get(project, ZERO).plus(allocated)
        margin = self._reclaim.margin(job)
        return any(_below(taken.minus(last), margin) for last in self._ends[project])

    def undo(self) -> None:
        """Undo the last `take`."""
        project, job, allocated, before = self._order.pop()
        self._taken[project] = self._taken[project].minus(allocated)
        if self._last[job] != before:
            self._set_last(project, job, before)

    def _set_last(self, project: str, job: str, allocated: ResourceVector | None) -> None:
        counts, before = self._ends.setdefault(project, {}), self._last.pop(job, None)
        if before is not None:
            counts[before] -= 1
            if not counts[before]:
                del counts[before]
        if allocated is not None:
            self._last[job] = allocated
            counts[allocated] = counts.get(allocated, 0) + 1


def _below(lost: ResourceVector, margin: Margin) -> bool:
    """Whether the loss is below the margin in any resource; `None`: none of this resource may be reclaimed."""
    gpus, cpus, memory = margin
    return (
        (gpus is not None and lost[0] < gpus)
        or (cpus is not None and lost[1] < cpus)
        or (memory is not None and lost[2] < memory)
    )


def _min_demand(usage: Usage, unit: Unit, place: GangPlacement | None) -> ResourceVector:
    return of_unit(unit, usage.largest) if place is None else usage.usage_at(unit, place)


def _exceeded_resource(used: ResourceVector, demand: ResourceVector, bound: ResourceVector) -> int | None:
    """Index of the first requested resource whose bound would be exceeded, or `None`."""
    for at in range(3):
        if demand[at] > 0 and bound[at] != UNLIMITED and used[at] + demand[at] > bound[at]:
            return at
    return None


def _exceeds(used: ResourceVector, bound: ResourceVector) -> bool:
    return any(bound[at] != UNLIMITED and used[at] > bound[at] for at in range(3))


def _would_use(project: str, at: int, used: ResourceVector, bound: ResourceVector, kind: str, suffix: str = "") -> str:
    amount, maximum = resource_text(at, used[at]), resource_text(at, bound[at], up=False)
    return f"{project_text(project)} would use {amount} of its {kind} of {maximum} {RESOURCES[at]}{suffix}"
