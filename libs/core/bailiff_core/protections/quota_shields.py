"""Where preempt may take jobs anywhere in the pool, what runs within its own project's quota is left alone.

A project is tested before each unit is taken, as reclaim does it: while it uses more than its quota of something that
the unit uses, the unit may go, and so the last one may take it below. Its own jobs of higher priority are not bound by
it: the quota is theirs as well.
"""

from collections.abc import Sequence

from bailiff_core import scene as scenes
from bailiff_core.model.amounts import UNLIMITED, Amounts
from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import Unit
from bailiff_core.queue.tree import called, tree_of

from .rule import Shield

NAME = "quota-shields"


def shield(pool: Pool, verb: Verb, asker: Job) -> Shield | None:
    """Jobs of other projects that are within their quota of all that the job uses."""
    if not _on(pool, verb):
        return None
    usage, tree = scenes.scene_of(pool).usage, tree_of(pool)
    excess: dict[str, tuple[bool, ...]] = {}

    def shielded(unit: Unit) -> bool:
        project = unit.job.project
        if project == asker.project:
            return False
        if project not in excess:
            leaf = tree.leaf_of(project)
            excess[project] = _excess(usage.allocated(leaf), tree.branches[leaf].quota)
        return not _touches(excess[project], unit)

    return shielded


def within(pool: Pool, verb: Verb, asker: Job, leaving: Sequence[Unit]) -> str | None:
    """Why these may not all go: some project would lose more than lies above its quota. A sentence, or `None`.

    Call it with the units not evicted yet. They may go where, in some order, each finds its project above its quota.
    """
    if not _on(pool, verb):
        return None
    usage, tree = scenes.scene_of(pool).usage, tree_of(pool)
    groups: dict[str, list[Unit]] = {}
    for unit in leaving:
        if unit.job.project != asker.project and unit.job.phase != "reserved":
            groups.setdefault(tree.leaf_of(unit.job.project), []).append(unit)
    for leaf, units in groups.items():
        quota, left = tree.branches[leaf].quota, usage.allocated(leaf)
        for unit in units:
            left = left.minus(usage.held_by(unit))
        if not any(_touches(_excess(left.plus(usage.held_by(unit)), quota), unit) for unit in units):
            return f"{called(leaf)} would lose more than it uses beyond its quota"
    return None


def _on(pool: Pool, verb: Verb) -> bool:
    rules = pool.rules
    return verb == "preempt" and rules.scope == "pool" and rules.preemption.quota_shields and bool(rules.projects)


def _excess(allocated: Amounts, quota: Amounts) -> tuple[bool, ...]:
    return tuple(bound != UNLIMITED and used > bound for used, bound in zip(allocated, quota, strict=True))


def _touches(excess: tuple[bool, ...], unit: Unit) -> bool:
    """Whether the unit uses something of which there is more than enough."""
    return any(
        (excess[0] and (group.gpu_milli or group.gpu_share_milli or group.gpu_share_bytes))
        or (excess[1] and group.cpu_milli)
        or (excess[2] and group.memory_bytes)
        for group in unit.job.demand.tasks
    )
