"""Limits of reclaim: which units a preemptor may take from other projects (docs/concepts/semantics/actions.md).

A unit is taken while the losing project uses more than it is entitled to of a resource that the unit gives back. One that holds
GPUs of a kind that the policy names gives back those, and not GPUs in general.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from bailiff_core.model.project_tree import projects_text
from bailiff_core.model.resource_vector import UNLIMITED, ZERO, Amount, ResourceVector
from bailiff_core.model.state import Job
from bailiff_core.model.units import Unit
from bailiff_core.placement.equivalence_classes import GPUS, KINDS, class_of

from .demand_vector import of_unit
from .fair_share import NOTHING
from .quota_checks import Shares, divided, exceeds, would_use
from .resource_snapshot import ResourceSnapshot
from .usage import Usage

Margin = tuple[Amount | None, ...]  # by resource; None: none of it may be reclaimed
Chain = list[ResourceVector]  # amounts of one job's units, in eviction order


class Reclaim:
    """Checks which units one preemptor may reclaim from other projects, on the snapshot at the time of creation.

    Relocated units are not reclaimed and must not be passed.
    """

    def __init__(self, snapshot: ResourceSnapshot, shares: Shares, unit: Unit) -> None:
        usage = snapshot.usage
        self._usage = usage
        self._shares = shares
        self._usage_before = usage.all_allocated()
        self._preemptor = usage.leaf_of(unit.job)
        self._demand = of_unit(unit, usage.smallest)
        self._losing_sides: dict[str, tuple[str, str]] = {}
        self._within_quota: dict[str, bool] = {}
        self._margins: dict[str, Margin] = {}

    def losing_project(self, victim: Job) -> str:
        """The project that loses the victim's resources."""
        return self._side_of(victim)[1]

    def margin(self, victim: Job) -> Margin:
        """Reclaimable amounts: a unit may be taken while its side lost less than that of a resource that the unit has."""
        leaf = self._usage.leaf_of(victim)
        if leaf not in self._margins:
            self._margins[leaf] = tuple(self._margin_of(*self._side_of(victim)))
        return self._margins[leaf]

    def _margin_of(self, mine: str, theirs: str) -> Iterator[Amount | None]:
        """Usage beyond the allocatable share, or, if the preemptor remains within its quota, beyond the victim side's quota."""
        entitled = self._shares.get(theirs, NOTHING)
        bounds = [entitled.most]
        if self._fits_quota(mine):
            bounds.append(entitled.quota)
        used = self._usage_before.get(theirs, ZERO)
        for at in range(len(entitled.most)):
            excess = [used.amount(at) - bound[at] for bound in bounds if bound[at] != UNLIMITED and mine != theirs]
            yield max(excess, default=None)

    def may_take(self, victim: Job) -> bool:
        """Whether any unit of a job of its class may be reclaimed; relocated, it may be whatever its project uses."""
        *_, kinds = class_of(victim)
        margins = self.margin(victim)
        all_kinds = (*KINDS, *(GPUS for _ in margins[len(KINDS) :]))  # perhaps it holds GPUs of that kind
        return any(bound is not None and bound > 0 and kinds & kind for bound, kind in zip(margins, all_kinds, strict=True))

    def admits(self, units: Iterable[Unit]) -> bool:
        """Whether all these units may be reclaimed, in some order. Those of one job are given, and taken, in eviction order."""
        chains: dict[str, dict[str, Chain]] = {}
        margins: dict[str, Margin] = {}
        for unit in units:
            project = self.losing_project(unit.job)
            margins[project] = self.margin(unit.job)
            chains.setdefault(project, {}).setdefault(unit.job.id, []).append(self._usage.allocated_to(unit))
        return all(_can_be_taken(of_job.values(), margins[project]) for project, of_job in chains.items())

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
            fuller: dict[int, list[str]] = {}  # siblings by resource
            for sibling in tree.children[parent]:
                if sibling in lost and sibling != project:
                    sibling_after = self._usage_before.get(sibling, ZERO).minus(lost[sibling])
                    at = self._fuller_resource(project, project_after, sibling, sibling_after)
                    if at is not None:
                        fuller.setdefault(at, []).append(sibling)
            if fuller:
                at, siblings = next(iter(fuller.items()))
                text = would_use(self._usage, project, at, project_after, self._shares.get(project, NOTHING).share, "fair share")
                return f"{text}, a larger part of it than {projects_text(siblings)} would keep"
        return None

    def _fuller_resource(self, project: str, used: ResourceVector, sibling: str, sibling_used: ResourceVector) -> int | None:
        entitled = self._shares.get(project, NOTHING)
        share, theirs = entitled.share, self._shares.get(sibling, NOTHING).share
        for at in divided(self._usage, entitled, used, self._demand):
            if used[at] <= share[at]:
                continue
            if theirs[at] > 0 and used[at] * theirs[at] >= sibling_used.amount(at) * share[at]:
                return at
            # Neither has a share (quotas below a project that has none): otherwise they would reclaim in turn without end.
            if share[at] == theirs[at] == 0 and sibling_used.amount(at) < used[at]:
                return at
        return None

    def _side_of(self, victim: Job) -> tuple[str, str]:
        leaf = self._usage.leaf_of(victim)
        if leaf not in self._losing_sides:
            self._losing_sides[leaf] = self._usage.tree.sides(self._preemptor, leaf)
        return self._losing_sides[leaf]

    def _fits_quota(self, project: str) -> bool:
        if project not in self._within_quota:
            with_unit = self._usage_before.get(project, ZERO).plus(self._demand)
            self._within_quota[project] = not exceeds(with_unit, self._shares.get(project, NOTHING).quota)
        return self._within_quota[project]


class Losses:
    """`Reclaim.admits`, incrementally: units are taken one after the other, and `undo` reverts them in reverse order.

    The taken set must be permitted before more is taken. A job's later units are taken before its earlier ones.
    """

    def __init__(self, reclaim: Reclaim, usage: Usage) -> None:
        self._reclaim, self._usage = reclaim, usage
        self._projects: dict[str, _ProjectLosses] = {}
        self._order: list[tuple[_ProjectLosses, str]] = []

    def take(self, unit: Unit) -> bool:
        """Take the unit; returns whether the taken set is permitted."""
        name = self._reclaim.losing_project(unit.job)
        project = self._projects.get(name)
        if project is None:
            project = self._projects[name] = _ProjectLosses(self._reclaim.margin(unit.job))
        project.take(unit.job.id, self._usage.allocated_to(unit))
        self._order.append((project, unit.job.id))
        return project.permitted()

    def undo(self) -> None:
        """Undo the last `take`."""
        project, job = self._order.pop()
        project.undo(job)


class _ProjectLosses:
    """What one project loses. chains: by job, its units, the last one first. lasts: number of jobs by that unit's amounts.

    without: by resource, number of units that have none of it.
    """

    def __init__(self, margin: Margin) -> None:
        self._margin = margin
        self._taken = ZERO
        self._chains: dict[str, list[ResourceVector]] = {}
        self._lasts: dict[ResourceVector, int] = {}
        self._without = [0] * len(margin)

    def take(self, job: str, amounts: ResourceVector) -> None:
        """Add a unit of the job, one that is evicted before its units so far."""
        chain = self._chains.setdefault(job, [])
        chain.append(amounts)
        if len(chain) == 1:
            self._lasts[amounts] = self._lasts.get(amounts, 0) + 1
        self._count(amounts, 1)

    def undo(self, job: str) -> None:
        """Undo the last `take` for the job."""
        chain = self._chains[job]
        amounts = chain.pop()
        if not chain:
            del self._chains[job]
            self._lasts[amounts] -= 1
            if not self._lasts[amounts]:
                del self._lasts[amounts]
        self._count(amounts, -1)

    def _count(self, amounts: ResourceVector, sign: int) -> None:
        self._taken = self._taken.plus(amounts) if sign > 0 else self._taken.minus(amounts)
        for at in range(len(self._margin)):
            if not _gives_back(amounts, at):
                self._without[at] += sign

    def permitted(self) -> bool:
        """Whether the units can be taken in some order."""
        openings = [
            at
            for at, bound in enumerate(self._margin)
            if bound is not None and any(_has_below(at, last, self._taken.minus(last), bound) for last in self._lasts)
        ]
        if not openings:
            return False
        if any(not self._without[at] for at in openings):
            return True  # the others are taken before the last one, while the project uses even more of the resource
        return _can_be_taken((chain[::-1] for chain in self._chains.values()), self._margin)


def _can_be_taken(chains: Iterable[Chain], margin: Margin) -> bool:
    """Whether some order of these units of one losing project, each chain in its own order, permits each of them in its turn.

    Found backwards: which unit is last does not matter for the ones before, as less is lost without it.
    """
    left = [list(chain) for chain in chains]
    bounds = [(at, bound) for at, bound in enumerate(margin) if bound is not None]
    lost = ZERO
    for chain in left:
        for amounts in chain:
            lost = lost.plus(amounts)
    found = True
    while found and left:
        found = False
        for chain in left:
            while chain:
                amounts = chain[-1]
                before = lost.minus(amounts)
                if not any([_has_below(at, amounts, before, bound) for at, bound in bounds]):  # noqa: C419
                    break
                chain.pop()
                lost, found = before, True
        left = [chain for chain in left if chain]
    return not left


def _has_below(at: int, amounts: ResourceVector, lost: ResourceVector, bound: Amount) -> bool:
    """Whether the unit has this resource and the loss is below its margin."""
    return _gives_back(amounts, at) and lost.amount(at) < bound


def _gives_back(amounts: ResourceVector, at: int) -> bool:
    """Whether the unit gives back some of this resource: GPUs in general (0) only if it holds none of a named kind."""
    return amounts.amount(at) > 0 and (at > 0 or len(amounts) == len(KINDS))
