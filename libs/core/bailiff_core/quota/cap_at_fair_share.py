"""`cap-at-fair-share`: preempt never takes the preemptor's project, or an ancestor, beyond the larger of its fair share and its
usage.

Usage beyond the fair share is borrowed. Allocate may borrow free resources; a preemptor that evicted others for borrowed
resources would lose them to reclaim and could evict the same jobs again: with both actions enabled, jobs would evict each
other without end.
"""

from bailiff_core.model.policy import Action
from bailiff_core.model.project_tree import ROOT, project_text
from bailiff_core.model.resource_vector import RESOURCES, ZERO, ResourceVector, resource_text
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement

from .demand_vector import of_unit
from .quota_checks import Shares
from .resource_snapshot import ResourceSnapshot

NAME = "cap-at-fair-share"


class CapAtFairShare:
    """The check for one preemptor. Created before anything is evicted in the snapshot; `forbids` uses the current snapshot."""

    def __init__(self, snapshot: ResourceSnapshot, shares: Shares, unit: Unit) -> None:
        usage = snapshot.usage
        path = usage.tree.branches[usage.leaf_of(unit.job)].path
        self._usage = usage
        self._unit = unit
        self._bounds = {project: (shares.get(project, ZERO), usage.allocated(project)) for project in path if project != ROOT}

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

    def forbids(self, place: GangPlacement | None = None) -> str | None:
        """Why the unit may not be added to the current usage of its projects, as a sentence, or `None`."""
        usage = self._usage
        demand = of_unit(self._unit, usage.smallest) if place is None else usage.usage_at(self._unit, place)
        for project, (share, usage_before) in self._bounds.items():
            usage_after = usage.allocated(project).plus(demand)
            at = _exceeded_resource(usage_after, share, usage_before)
            if at is not None:
                used, bound = resource_text(at, usage_after[at]), resource_text(at, share[at], up=False)
                return (
                    f"{project_text(project)} would use {used} of its fair share of {bound} {RESOURCES[at]}, "
                    f"and preempt does not exceed it (rule {NAME})"
                )
        return None


def _exceeded_resource(after: ResourceVector, share: ResourceVector, before: ResourceVector) -> int | None:
    """Index of the first resource whose usage would exceed both the usage before and the fair share, or `None`."""
    return next((at for at in range(3) if after[at] > before[at] and after[at] > share[at]), None)
