"""`cap-at-fair-share`: preempt never carries its preemptor's project, or one above it, beyond the larger of its fair share and
its use.

What lies beyond the share is borrowed. Idle room may be borrowed, by allocate; who displaced others for it would have it
reclaimed, and could displace them again: with both actions on, jobs would evict each other in turn for ever.
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
    """The test of one preemptor. Made before anything is evicted in the snapshot; asked on the snapshot as it is then."""

    def __init__(self, snapshot: ResourceSnapshot, shares: Shares, unit: Unit) -> None:
        usage = snapshot.usage
        path = usage.tree.branches[usage.leaf_of(unit.job)].path
        self._usage = usage
        self._unit = unit
        self._bounds = {project: (shares.get(project, ZERO), usage.allocated(project)) for project in path if project != ROOT}

    @classmethod
    def of(cls, snapshot: ResourceSnapshot, shares: Shares, unit: Unit, action: Action) -> "CapAtFairShare | None":
        """`None` where the rule is off."""
        rules = snapshot.state.rules
        on = (
            action == "preempt"
            and rules.preemption.cap_at_fair_share
            and rules.projects
            and "reclaim" in rules.preemption.actions
        )
        return cls(snapshot, shares, unit) if on else None

    def forbids(self, place: GangPlacement | None = None) -> str | None:
        """Why the unit may not be added to what its projects use now, as a sentence, or `None`."""
        usage = self._usage
        asked = of_unit(self._unit, usage.smallest) if place is None else usage.taken_by(self._unit, place)
        for project, (share, before) in self._bounds.items():
            after = usage.allocated(project).plus(asked)
            at = _beyond(after, share, before)
            if at is not None:
                mine, most = resource_text(at, after[at]), resource_text(at, share[at], up=False)
                return (
                    f"{project_text(project)} would use {mine} of its fair share of {most} {RESOURCES[at]}, "
                    f"and nobody is preempted for what is beyond it (rule {NAME})"
                )
        return None


def _beyond(after: ResourceVector, share: ResourceVector, before: ResourceVector) -> int | None:
    """The first resource of which it would come to use more than before, and more than its share."""
    return next((at for at in range(3) if after[at] > before[at] and after[at] > share[at]), None)
