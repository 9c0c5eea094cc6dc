"""`within-share`: preempt never carries its asker's project, or one above it, beyond the larger of its fair share and its use.

What lies beyond the share is borrowed. Idle room may be borrowed, by allocate; who displaced others for it would have it
reclaimed, and could displace them again: with both verbs on, jobs would evict each other in turn for ever.
"""

from typing import TYPE_CHECKING

from bailiff_core.model.amounts import NOTHING, RESOURCES, Amounts, in_words
from bailiff_core.model.policy import Verb
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlace
from bailiff_core.queue.measure import of_unit
from bailiff_core.queue.tree import ROOT, called

if TYPE_CHECKING:
    from bailiff_core.queue.gates import Shares
    from bailiff_core.scene import Scene

NAME = "within-share"


class WithinShare:
    """The test of one asker. Made before anything is evicted in the scene; asked on the scene as it is then."""

    def __init__(self, scene: "Scene", shares: "Shares", unit: Unit) -> None:
        usage = scene.usage
        path = usage.tree.branches[usage.leaf_of(unit.job)].path
        self._usage = usage
        self._unit = unit
        self._bounds = {project: (shares.get(project, NOTHING), usage.allocated(project)) for project in path if project != ROOT}

    @classmethod
    def of(cls, scene: "Scene", shares: "Shares", unit: Unit, verb: Verb) -> "WithinShare | None":
        """`None` where the rule is off."""
        rules = scene.pool.rules
        on = verb == "preempt" and rules.preemption.within_share and rules.projects and "reclaim" in rules.preemption.verbs
        return cls(scene, shares, unit) if on else None

    def forbids(self, place: GangPlace | None = None) -> str | None:
        """Why the unit may not be added to what its projects use now, as a sentence, or `None`."""
        usage = self._usage
        asked = of_unit(self._unit, usage.smallest) if place is None else usage.taken_by(self._unit, place)
        for project, (share, before) in self._bounds.items():
            after = usage.allocated(project).plus(asked)
            at = _beyond(after, share, before)
            if at is not None:
                mine, most = in_words(at, after[at]), in_words(at, share[at], up=False)
                return (
                    f"{called(project)} would use {mine} of its fair share of {most} {RESOURCES[at]}, "
                    f"and nobody is preempted for what is beyond it (rule {NAME})"
                )
        return None


def _beyond(after: Amounts, share: Amounts, before: Amounts) -> int | None:
    """The first resource of which it would come to use more than before, and more than its share."""
    return next((at for at in range(3) if after[at] > before[at] and after[at] > share[at]), None)
