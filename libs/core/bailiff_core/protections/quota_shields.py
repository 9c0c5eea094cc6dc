"""Where preempt may take jobs anywhere in the pool, what runs within its own project's quota is left alone.

A project is tested before each unit is taken, as reclaim does it: while it uses more than its quota of something that
the unit uses, the unit may go, and so the last one may take it below. Its own jobs of higher priority are not bound by
it: the quota is theirs as well.

From an asker whose own project would end above its share, what runs within its project's share is left alone too, also
where the policy does not shield quotas: reclaim would take it straight back, and the two would evict each other for ever.
"""

from collections.abc import Iterable

from bailiff_core import scene as scenes
from bailiff_core.model.amounts import NOTHING, UNLIMITED, Amounts
from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.queue.fair_share import allocatable, fair_shares
from bailiff_core.queue.measure import of_unit
from bailiff_core.queue.tree import called
from bailiff_core.queue.usage import Usage

from .rule import Shield

NAME = "quota-shields"
NO_EXCESS = (False, False, False)


def shield(pool: Pool, verb: Verb, asker: Job) -> Shield | None:
    """Jobs of other projects that are within their quota of all that the job uses."""
    bounds = _Bounds.of(pool, verb, asker)
    if bounds is None:
        return None
    usage = _usage(pool)
    excess: dict[str, tuple[bool, ...]] = {}

    def shielded(unit: Unit) -> bool:
        project = unit.job.project
        if project == asker.project:
            return False
        if project not in excess:
            leaf = usage.tree.leaf_of(project)
            excess[project] = _excess(usage.allocated(leaf), bounds.bound(leaf))
        return not _touches(excess[project], unit)

    return shielded


class Quotas:
    """What projects use and may lose, as it was when this was made."""

    def __init__(self, usage: Usage, asker: Job, bounds: "_Bounds") -> None:
        self._usage = usage
        self._asker = asker
        self._bounds = bounds
        self._before = usage.all_allocated()

    @classmethod
    def of(cls, pool: Pool, verb: Verb, asker: Job) -> "Quotas | None":
        """`None` where the rule is off."""
        bounds = _Bounds.of(pool, verb, asker)
        return None if bounds is None else cls(_usage(pool), asker, bounds)

    def forbid(self, leaving: Iterable[Unit]) -> str | None:
        """Why these may not all go, as a sentence, or `None`.

        They may go where, in some order, each finds its project above its quota. What is left only shrinks, so it is the
        last one of each project that decides, and it may be any job's last.
        """
        lost: dict[str, Amounts] = {}
        ends: dict[str, dict[str, Unit]] = {}
        for unit in leaving:
            if unit.job.project == self._asker.project:
                continue
            leaf = self._usage.leaf_of(unit.job)
            lost[leaf] = lost.get(leaf, NOTHING).plus(self._usage.held_by(unit))
            last = ends.setdefault(leaf, {})
            if unit.job.id not in last or not last[unit.job.id].core:
                last[unit.job.id] = unit
        for leaf, units in ends.items():
            left, bound = self._before.get(leaf, NOTHING).minus(lost[leaf]), self._bounds.bound(leaf)
            if not any(_touches(_excess(left.plus(self._usage.held_by(unit)), bound), unit) for unit in units.values()):
                return f"{called(leaf)} would lose more than it uses beyond its {self._bounds.name}"
        return None


class _Bounds:
    """What of each project is left alone: its quota, or, with `shares`, its share."""

    def __init__(self, usage: Usage, shares: dict[str, Amounts] | None) -> None:
        self._branches = usage.tree.branches
        self._shares = shares
        self.name = "quota" if shares is None else "share"

    @classmethod
    def of(cls, pool: Pool, verb: Verb, asker: Job) -> "_Bounds | None":
        """`None` where the rule is off for this asker."""
        rules = pool.rules
        if verb != "preempt" or rules.scope != "pool" or not rules.projects:
            return None
        usage, unit = _usage(pool), next_unit(asker)
        if unit is not None and "reclaim" in rules.preemption.verbs:
            shares = fair_shares(usage.tree, usage.total, usage.requests, usage.divided)
            leaf = usage.leaf_of(asker)
            after = usage.allocated(leaf).plus(of_unit(unit, usage.smallest))
            if any(_excess(after, allocatable(usage.tree.branches[leaf], shares[leaf]))):
                return cls(usage, shares)
        return cls(usage, None) if rules.preemption.quota_shields else None

    def bound(self, leaf: str) -> Amounts:
        """The project's."""
        branch = self._branches[leaf]
        return branch.quota if self._shares is None else allocatable(branch, self._shares[leaf])


def _usage(pool: Pool) -> Usage:
    """Use as the scene has it, with what is being tried there: to bring the scene up to date would take that back."""
    if pool.scene is None or pool.stale_jobs or pool.stale_nodes:
        return scenes.scene_of(pool).usage
    usage: Usage = pool.scene.usage
    return usage


def _excess(allocated: Amounts, quota: Amounts) -> tuple[bool, ...]:
    return tuple(bound != UNLIMITED and used > bound for used, bound in zip(allocated, quota, strict=True))


def _touches(excess: tuple[bool, ...], unit: Unit) -> bool:
    """Whether the unit uses something of which there is more than enough."""
    return excess != NO_EXCESS and any(
        (excess[0] and (group.gpu_milli or group.gpu_share_milli or group.gpu_share_bytes))
        or (excess[1] and group.cpu_milli)
        or (excess[2] and group.memory_bytes)
        for group in unit.job.demand.tasks
    )
