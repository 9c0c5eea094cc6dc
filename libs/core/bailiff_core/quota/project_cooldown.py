"""`cooldown` of projects: who was just reclaimed from does not immediately borrow back (kueue#14468, #6861).

Reclaim marks the losing project and those above it, up to where the preemptor's side begins. While the mark is fresh, the
project starts nothing that would take it beyond its quota.
"""

from bailiff_core.model.project_tree import project_text, tree_of
from bailiff_core.model.resource_vector import UNLIMITED, ResourceVector
from bailiff_core.model.state import PoolState
from bailiff_core.model.units import Unit

from .demand_vector import of_unit
from .resource_snapshot import ResourceSnapshot

NAME = "cooldown"


def may_borrow_at(state: PoolState, project: str) -> int:
    """The moment, µs, from which the project may go beyond its quota; 0 where nothing was reclaimed from it."""
    cooldown = state.rules.protections.cooldown.project
    return state.reclaimed_at[project] + cooldown if cooldown and project in state.reclaimed_at else 0


def keeps_from_borrowing(snapshot: ResourceSnapshot, unit: Unit) -> str | None:
    """Why the unit may not start now, as a sentence, or `None`: a project of its path would borrow back too soon."""
    state = snapshot.state
    if not state.reclaimed_at or not state.rules.protections.cooldown.project:
        return None
    tree = tree_of(state)
    asked: ResourceVector | None = None
    for project in tree.branches[tree.leaf_of(unit.job.project)].path:
        if state.now >= may_borrow_at(state, project):
            continue
        asked = asked or of_unit(unit, snapshot.usage.smallest)
        if _borrows(snapshot.usage.allocated(project), asked, tree.branches[project].quota):
            return f"{project_text(project)} was reclaimed from a moment ago and does not borrow back yet (rule {NAME})"
    return None


def _borrows(used: ResourceVector, asked: ResourceVector, quota: ResourceVector) -> bool:
    """Whether it would go beyond its quota of something that is asked for."""
    return any(asked[at] > 0 and quota[at] != UNLIMITED and used[at] + asked[at] > quota[at] for at in range(len(quota)))


def opens_next(state: PoolState) -> int | None:
    """When the next project may borrow again."""
    moments = (may_borrow_at(state, project) for project in state.reclaimed_at)
    return min((moment for moment in moments if moment > state.now), default=None)
