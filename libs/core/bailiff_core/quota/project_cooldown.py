"""`cooldown` of projects: a project that lost resources to reclaim does not borrow again immediately (kueue#14468, #6861).

Reclaim records the time for the losing project and its ancestors below the common ancestor with the preemptor. During the
cooldown the project starts nothing that would exceed its quota.
"""

from bailiff_core.model.project_tree import project_text, tree_of
from bailiff_core.model.resource_vector import UNLIMITED, ResourceVector
from bailiff_core.model.state import PoolState
from bailiff_core.model.units import Unit

from .demand_vector import of_unit
from .resource_snapshot import ResourceSnapshot

NAME = "cooldown"


def may_borrow_at(state: PoolState, project: str) -> int:
    """Time, µs, from which the project may exceed its quota; 0 if nothing was reclaimed from it."""
    cooldown = state.rules.protections.cooldown.project
    return state.reclaimed_at[project] + cooldown if cooldown and project in state.reclaimed_at else 0


def cooldown_violation(snapshot: ResourceSnapshot, unit: Unit) -> str | None:
    """Why the unit may not start now, as a sentence, or `None`: a project of its path would borrow during its cooldown."""
    state = snapshot.state
    if not state.reclaimed_at or not state.rules.protections.cooldown.project:
        return None
    tree = tree_of(state)
    demand: ResourceVector | None = None
    for project in tree.branches[tree.leaf_of(unit.job.project)].path:
        if state.now >= may_borrow_at(state, project):
            continue
        demand = demand or of_unit(unit, snapshot.usage.smallest)
        if _borrows(snapshot.usage.allocated(project), demand, tree.branches[project].quota):
            return f"{project_text(project)} lost resources to reclaim and may not borrow during its cooldown (rule {NAME})"
    return None


def _borrows(used: ResourceVector, demand: ResourceVector, quota: ResourceVector) -> bool:
    """Whether the request would exceed the quota of a requested resource."""
    return any(demand[at] > 0 and quota[at] != UNLIMITED and used[at] + demand[at] > quota[at] for at in range(len(quota)))


def next_cooldown_end(state: PoolState) -> int | None:
    """Time, µs, at which the next cooldown ends, or `None`."""
    ends = (may_borrow_at(state, project) for project in state.reclaimed_at)
    return min((end for end in ends if end > state.now), default=None)
