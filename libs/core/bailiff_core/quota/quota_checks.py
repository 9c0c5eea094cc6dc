"""Limits and quotas: what projects may use, and what may be reclaimed from them. Each refusal is a sentence.

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
FIRM = " for work that is not preemptible"


def over_bounds(snapshot: ResourceSnapshot, unit: Unit, place: GangPlacement | None = None) -> str | None:
    """Why the unit may not be added to what its projects use: `over_limit`, or `over_quota`."""
    return over_limit(snapshot, unit, place) or over_quota(snapshot, unit, place)


def over_limit(snapshot: ResourceSnapshot, unit: Unit, place: GangPlacement | None = None) -> str | None:
    """Why the unit would take a project above its limit. Without a place: on any device."""
    usage = snapshot.usage
    asked: ResourceVector | None = None
    for project in usage.tree.branches[usage.leaf_of(unit.job)].path:
        limit = usage.tree.branches[project].limit
        if limit == NO_BOUNDS:
            continue
        asked = asked or _at_least(usage, unit, place)
        over = _beyond(usage.allocated(project), asked, limit)
        if over is not None:
            return _would_use(project, over, usage.allocated(project).plus(asked), limit, "limit")
    return None


def over_quota(snapshot: ResourceSnapshot, unit: Unit, place: GangPlacement | None = None) -> str | None:
    """Why a unit that is not preemptible would take its project's use of that kind over its quota."""
    if unit.job.preemptible:
        return None
    usage = snapshot.usage
    asked = _at_least(usage, unit, place)
    for project in usage.tree.branches[usage.leaf_of(unit.job)].path:
        quota = usage.tree.branches[project].quota
        over = _beyond(usage.non_preemptible(project), asked, quota)
        if over is not None:
            used = usage.non_preemptible(project).plus(asked)
            return _would_use(project, over, used, quota, "quota", FIRM)
    return None


def never_within_bounds(snapshot: ResourceSnapshot, unit: Unit) -> str | None:
    """Why the unit would be above a limit or, not preemptible, above a quota, even if nothing else were allocated."""
    usage = snapshot.usage
    asked = of_unit(unit, usage.smallest)
    for project in usage.tree.branches[usage.leaf_of(unit.job)].path:
        branch = usage.tree.branches[project]
        over = _beyond(ZERO, asked, branch.limit)
        if over is not None:
            return _would_use(project, over, asked, branch.limit, "limit")
        over = None if unit.job.preemptible else _beyond(ZERO, asked, branch.quota)
        if over is not None:
            return _would_use(project, over, asked, branch.quota, "quota", FIRM)
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


def loser(snapshot: ResourceSnapshot, preemptor: Job, victim: Job) -> str:
    """The project whose losses are checked: just below the lowest common ancestor, on the victim's side."""
    usage = snapshot.usage
    return usage.tree.sides(usage.leaf_of(preemptor), usage.leaf_of(victim))[1]


class Reclaim:
    """Checks what one unit may reclaim from other projects, on the snapshot at the time of creation.

    Relocated units are not reclaimed: leave them out. `place`: placement of the preemptor, once it is known.
    """

    def __init__(self, snapshot: ResourceSnapshot, shares: Shares, unit: Unit, place: GangPlacement | None = None) -> None:
        usage = snapshot.usage
        self._usage = usage
        self._shares = shares
        self._before = usage.all_allocated()
        self._preemptor = usage.leaf_of(unit.job)
        self._asked = of_unit(unit, usage.smallest) if place is None else usage.usage_at(unit, place)
        self._sides: dict[str, tuple[str, str]] = {}
        self._bounds: dict[str, ResourceVector] = {}
        self._within_quota: dict[str, bool] = {}
        self._margins: dict[str, Margin] = {}

    def loser(self, victim: Job) -> str:
        """The project that loses the victim's resources."""
        return self._side(victim)[1]

    def may_reclaim_more(self, victim: Job, taken: ResourceVector) -> bool:
        """Whether a unit of this job may still be reclaimed after its side lost `taken`."""
        return _below(taken, self.margin(victim))

    def margin(self, victim: Job) -> Margin:
        """Reclaimable amounts: a unit of this job may be reclaimed while its side lost less than this of any resource."""
        leaf = self._usage.leaf_of(victim)
        if leaf not in self._margins:
            self._margins[leaf] = tuple(self._margin_of(*self._side(victim)))
        return self._margins[leaf]

    def _margin_of(self, mine: str, theirs: str) -> Iterator[Amount | None]:
        """Usage beyond the allocatable share, or, if the preemptor stays within its quota, beyond the victim side's quota."""
        bounds = [self._bound(theirs)]
        if self._fits_quota(mine):
            bounds.append(self._usage.tree.branches[theirs].quota)
        used = self._before.get(theirs, ZERO)
        for at in range(3):
            beyond = [used[at] - bound[at] for bound in bounds if bound[at] != UNLIMITED and mine != theirs]
            yield max(beyond, default=None)

    def admits(self, units: Iterable[Unit]) -> bool:
        """Whether all these units may be reclaimed, in some order in which no job loses its core before its surplus.

        What remains only shrinks, so the last unit of each losing project decides; it may be any job's last one.
        """
        taken: dict[str, ResourceVector] = {}
        last: dict[str, dict[str, tuple[Unit, ResourceVector]]] = {}
        for unit in units:
            project, held = self.loser(unit.job), self._usage.allocated_to(unit)
            taken[project] = taken.get(project, ZERO).plus(held)
            ends = last.setdefault(project, {})
            if unit.job.id not in ends or not ends[unit.job.id][0].core:
                ends[unit.job.id] = unit, held
        for project, ends in last.items():
            by_amount = {held: unit.job for unit, held in ends.values()}
            if not any(self.may_reclaim_more(job, taken[project].minus(held)) for held, job in by_amount.items()):
                return False
        return True

    def unbalanced(self, units: Iterable[Unit]) -> str | None:
        """Why the preemption would only reverse the imbalance: an ancestor of the preemptor would end up above its fair share
        and with a larger part of it in use than a sibling that lost.
        """
        tree = self._usage.tree
        lost: dict[str, ResourceVector] = {}
        for unit in units:
            held = self._usage.allocated_to(unit)
            for project in tree.branches[self._usage.leaf_of(unit.job)].path:
                lost[project] = lost.get(project, ZERO).plus(held)
        path = tree.branches[self._preemptor].path
        for project, parent in pairwise(path):
            mine = self._before.get(project, ZERO).minus(lost.get(project, ZERO)).plus(self._asked)
            for sibling in tree.children[parent]:
                if sibling in lost and sibling != project:
                    theirs = self._before.get(sibling, ZERO).minus(lost[sibling])
                    at = self._fuller(project, mine, sibling, theirs)
                    if at is not None:
                        share = self._shares.get(project, ZERO)
                        says = _would_use(project, at, mine, share, "fair share")
                        return f"{says}, a larger part of it than {project_text(sibling)} would keep"
        return None

    def _fuller(self, project: str, mine: ResourceVector, sibling: str, theirs: ResourceVector) -> int | None:
        my_share, their_share = self._shares.get(project, ZERO), self._shares.get(sibling, ZERO)
        for at in range(3):
            if mine[at] <= my_share[at]:
                continue
            if their_share[at] > 0 and mine[at] * their_share[at] >= theirs[at] * my_share[at]:
                return at
            # Neither has a share (quotas below a project that has none): without this they would reclaim in turn without end.
            if my_share[at] == their_share[at] == 0 and theirs[at] < mine[at]:
                return at
        return None

    def _side(self, victim: Job) -> tuple[str, str]:
        leaf = self._usage.leaf_of(victim)
        if leaf not in self._sides:
            self._sides[leaf] = self._usage.tree.sides(self._preemptor, leaf)
        return self._sides[leaf]

    def _bound(self, project: str) -> ResourceVector:
        if project not in self._bounds:
            branch = self._usage.tree.branches[project]
            self._bounds[project] = allocatable(branch, self._shares.get(project, ZERO))
        return self._bounds[project]

    def _fits_quota(self, project: str) -> bool:
        if project not in self._within_quota:
            with_unit = self._before.get(project, ZERO).plus(self._asked)
            self._within_quota[project] = not _exceeds(with_unit, self._usage.tree.branches[project].quota)
        return self._within_quota[project]


class Losses:
    """`Reclaim.admits`, incrementally: units are taken one after the other and given back in reverse order.

    What was taken must be permitted before more is taken. A job's later units are taken before its earlier ones.
    """

    def __init__(self, reclaim: Reclaim, usage: Usage) -> None:
        self._reclaim, self._usage = reclaim, usage
        self._taken: dict[str, ResourceVector] = {}
        self._last: dict[str, ResourceVector] = {}  # of each job, what the unit holds that may be the last to go
        self._ends: dict[str, dict[ResourceVector, int]] = {}  # of each losing project, how often that is so much
        self._order: list[tuple[str, str, ResourceVector, ResourceVector | None]] = []

    def take(self, unit: Unit) -> bool:
        """Take the unit; returns whether all that is taken is permitted."""
        job, held = unit.job, self._usage.allocated_to(unit)
        project = self._reclaim.loser(job)
        before = self._last.get(job.id)
        self._order.append((project, job.id, held, before))
        if before is None or unit.core:
            self._put(project, job.id, held)
        taken = self._taken[project] = self._taken.get(project, ZERO).plus(held)
        margin = self._reclaim.margin(job)
        return any(_below(taken.minus(last), margin) for last in self._ends[project])

    def give_back(self) -> None:
        """Undo the last `take`."""
        project, job, held, before = self._order.pop()
        self._taken[project] = self._taken[project].minus(held)
        if self._last[job] != before:
            self._put(project, job, before)

    def _put(self, project: str, job: str, held: ResourceVector | None) -> None:
        ends, before = self._ends.setdefault(project, {}), self._last.pop(job, None)
        if before is not None:
            ends[before] -= 1
            if not ends[before]:
                del ends[before]
        if held is not None:
            self._last[job] = held
            ends[held] = ends.get(held, 0) + 1


def _below(lost: ResourceVector, margin: Margin) -> bool:
    """Whether the loss is below the margin in any resource; `None`: nothing of this one may be reclaimed."""
    gpus, cpus, memory = margin
    return (
        (gpus is not None and lost[0] < gpus)
        or (cpus is not None and lost[1] < cpus)
        or (memory is not None and lost[2] < memory)
    )


def _at_least(usage: Usage, unit: Unit, place: GangPlacement | None) -> ResourceVector:
    return of_unit(unit, usage.largest) if place is None else usage.usage_at(unit, place)


def _beyond(used: ResourceVector, asked: ResourceVector, bound: ResourceVector) -> int | None:
    """Index of the first requested resource whose bound would be exceeded, or `None`."""
    for at in range(3):
        if asked[at] > 0 and bound[at] != UNLIMITED and used[at] + asked[at] > bound[at]:
            return at
    return None


def _exceeds(used: ResourceVector, bound: ResourceVector) -> bool:
    return any(bound[at] != UNLIMITED and used[at] > bound[at] for at in range(3))


def _would_use(project: str, at: int, used: ResourceVector, bound: ResourceVector, word: str, what: str = "") -> str:
    mine, most = resource_text(at, used[at]), resource_text(at, bound[at], up=False)
    return f"{project_text(project)} would use {mine} of its {word} of {most} {RESOURCES[at]}{what}"
