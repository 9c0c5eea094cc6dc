"""`cooldown` of projects: who was just reclaimed from does not immediately borrow back (kueue#14468, #6861).

Reclaim marks the losing project and those above it, up to where the asker's side begins. While the mark is fresh, the
project starts nothing that would take it beyond its quota.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from bailiff_core.model.amounts import UNLIMITED, Amounts
from bailiff_core.model.pool import Pool
from bailiff_core.model.units import Unit
from bailiff_core.queue.measure import of_unit
from bailiff_core.queue.tree import called, tree_of

if TYPE_CHECKING:
    from bailiff_core.scene import Scene

NAME = "cooldown"


def mark(pool: Pool, asker: str, losers: Iterable[str]) -> None:
    """These projects lost something to the asker's by reclaim."""
    tree = tree_of(pool)
    mine = tree.leaf_of(asker)
    for leaf in dict.fromkeys(tree.leaf_of(loser) for loser in losers):
        common = tree.common(mine, leaf)
        for project in tree.branches[leaf].path:
            if project == common:
                break
            pool.reclaimed_at[project] = pool.now


def may_borrow_at(pool: Pool, project: str) -> int:
    """The moment, µs, from which the project may go beyond its quota; 0 where nothing was reclaimed from it."""
    cooldown = pool.rules.protections.cooldown.project
    return pool.reclaimed_at[project] + cooldown if cooldown and project in pool.reclaimed_at else 0


def keeps_from_borrowing(scene: "Scene", unit: Unit) -> str | None:
    """Why the unit may not start now, as a sentence, or `None`: a project of its path would borrow back too soon."""
    pool = scene.pool
    if not pool.reclaimed_at or not pool.rules.protections.cooldown.project:
        return None
    tree = tree_of(pool)
    asked: Amounts | None = None
    for project in tree.branches[tree.leaf_of(unit.job.project)].path:
        if pool.now >= may_borrow_at(pool, project):
            continue
        asked = asked or of_unit(unit, scene.usage.smallest)
        if _borrows(scene.usage.allocated(project), asked, tree.branches[project].quota):
            return f"{called(project)} was reclaimed from a moment ago and does not borrow back yet (rule {NAME})"
    return None


def _borrows(used: Amounts, asked: Amounts, quota: Amounts) -> bool:
    """Whether it would go beyond its quota of something that is asked for."""
    return any(asked[at] > 0 and quota[at] != UNLIMITED and used[at] + asked[at] > quota[at] for at in range(len(quota)))


def opens_next(pool: Pool) -> int | None:
    """When the next project may borrow again."""
    moments = (may_borrow_at(pool, project) for project in pool.reclaimed_at)
    return min((moment for moment in moments if moment > pool.now), default=None)
