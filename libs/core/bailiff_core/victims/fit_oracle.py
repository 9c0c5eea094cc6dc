"""Fit oracles: test whether the unit fits, again and again, while evicted units are reprieved one by one."""

from abc import ABC, abstractmethod

from bailiff_core.model.units import Unit
from bailiff_core.placement.cluster_resources import NodeResources, slots_for
from bailiff_core.placement.gang import GangPlacement
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.placement.task_requirements import TaskRequirements, requirements_of_unit

from .candidates import EvictionStep
from .trial import Trial

PLACEMENT_STEPS = 200
NODES_PER_STEP = 8


class FitOracle(ABC):
    """Says whether the unit fits after evictions.

    Attributes:
        exact: Every negative result so far was certain.

    Args:
        limits: The preemptor must also stay within the limits of its projects, if evictions may be needed for these.
    """

    def __init__(self, trial: Trial, eligible: dict[NodeResources, int], *, limits: bool) -> None:
        self.trial = trial
        self.cluster = trial.cluster
        self.eligible_nodes = eligible
        self.limited = limits and trial.has_limits
        self.exact = True
        self._restore, self._evict = (trial.restore, trial.evict) if limits else (trial.occupy, trial.free)

    def fits(self) -> bool:
        """Whether the unit fits now."""
        return self._has_place() and self._within_limits()

    @abstractmethod
    def _has_place(self) -> bool: ...

    @abstractmethod
    def reprieve(self, step: EvictionStep) -> bool:
        """Restore the step in its original place if the unit still fits; returns whether it does."""

    @abstractmethod
    def effort(self, step: EvictionStep) -> int:
        """Cost of a reprieve, in steps."""

    def restore(self, step: EvictionStep) -> None:
        """Restore the step unconditionally. It does not use the unit's nodes, unless these are counted."""
        self._restore(step.unit)

    def evict(self, step: EvictionStep) -> None:
        """Evict the step (again)."""
        self._evict(step.unit)

    def uses(self, step: EvictionStep) -> bool:
        """Whether the step has resources on a node that the unit may use; for a limit, every step may matter."""
        return self.limited or any(node in self.eligible_nodes for node, _ in self.cluster.allocation_of(step.unit))

    def _within_limits(self) -> bool:
        return not self.limited or self.trial.over_limit_now() is None


class SlotOracle(FitOracle):
    """For equal tasks without topology constraints: they fit if the slots of all nodes add up.

    Only changed nodes are counted again.

    Attributes:
        eligible: Count only these nodes.
    """

    def __init__(
        self,
        trial: Trial,
        need: TaskRequirements,
        wanted: int,
        eligible: dict[NodeResources, int] | None = None,
        *,
        limits: bool = True,
    ) -> None:
        super().__init__(trial, dict(trial.cluster.eligible_nodes(need)) if eligible is None else eligible, limits=limits)
        self.need = need
        self.wanted = wanted
        self.slots = {node: self._count(node) for node in self.eligible_nodes}
        self.total = sum(self.slots.values())

    def _has_place(self) -> bool:
        return self.total >= self.wanted

    def reprieve(self, step: EvictionStep) -> bool:
        """Restore the step in its original place if the unit still fits; returns whether it does."""
        self.restore(step)
        if self.fits():
            return True
        self.evict(step)
        return False

    def effort(self, step: EvictionStep) -> int:
        """Cost of a reprieve, in steps."""
        return len(self.cluster.allocation_of(step.unit))

    def restore(self, step: EvictionStep) -> None:
        """Restore the step unconditionally."""
        super().restore(step)
        self._recount(step)

    def evict(self, step: EvictionStep) -> None:
        """Evict the step (again)."""
        super().evict(step)
        self._recount(step)

    def _recount(self, step: EvictionStep) -> None:
        for node, _ in self.cluster.allocation_of(step.unit):
            if node in self.eligible_nodes:
                count = self._count(node)
                self.total += count - self.slots[node]
                self.slots[node] = count

    def _count(self, node: NodeResources) -> int:
        return slots_for(self.need, node, node.future, self.eligible_nodes[node])


class PlacementOracle(FitOracle):
    """For any unit: it is placed, and placed again only if a restored step conflicts with its placement.

    If the placement search gives up, the unit counts as not fitting and `exact` becomes false.

    Args:
        depth: Times as many steps for each placement, as far as the budget has them.
    """

    def __init__(self, trial: Trial, budget: StepBudget, *, limits: bool = True, depth: int = 1) -> None:
        needs = requirements_of_unit(trial.unit)
        eligible = {node: mask for need in needs for node, mask in trial.cluster.eligible_nodes(need)}
        super().__init__(trial, eligible, limits=limits)
        self.budget = budget
        self._depth = depth
        self.place = self._find()

    def _has_place(self) -> bool:
        return self.place is not None

    def reprieve(self, step: EvictionStep) -> bool:
        """Restore the step in its original place if the unit still fits; returns whether it does."""
        if self.place is None:
            return False
        still_valid = self._leaves_room(self.place, step)
        self._restore(step.unit)
        if self._within_limits():
            if self.limited and self.trial.constrains_placement:
                still_valid = still_valid and self.trial.over_limit_now(self.place) is None
            found = self.place if still_valid else self._find()
            if found is not None:
                self.place = found
                return True
        self._evict(step.unit)
        return False

    def _leaves_room(self, place: GangPlacement, step: EvictionStep) -> bool:
        """Whether the step's original place is free beside this placement of the unit."""
        used_nodes = dict.fromkeys(task.node for task in place.tasks)
        if not any(node.number in used_nodes for node, _ in self.cluster.allocation_of(step.unit)):
            return True
        mark = self.trial.mark()
        self.trial.take(self.trial.unit, place)
        is_free = self.trial.could_stay(step.unit)
        self.trial.rollback(mark)
        return is_free

    def effort(self, step: EvictionStep) -> int:  # noqa: ARG002
        """Cost of a reprieve, in steps: the unit may have to be placed again."""
        return 1 + len(self.cluster.nodes) // NODES_PER_STEP

    def evict(self, step: EvictionStep) -> None:
        """Evict the step (again). A placement found before remains valid."""
        super().evict(step)
        if self.place is None:
            self.place = self._find()

    def _find(self) -> GangPlacement | None:
        # The first steps are granted even if the budget is exhausted: victim sets must remain irreducible.
        part = StepBudget(max(PLACEMENT_STEPS, min(PLACEMENT_STEPS * self._depth, self.budget.remaining)))
        found = self.trial.find_place(part, limits=self.limited)
        self.budget.join(part)
        if isinstance(found, GangPlacement):
            return found
        certain = part.remaining > 0 if isinstance(found, str) else found.kind == "impossible"
        self.exact = self.exact and certain
        return None


def single_requirement(unit: Unit) -> tuple[TaskRequirements, int] | None:
    """The tasks' requirements and their number, if all are equal and no topology constraint exists; else None."""
    demand = unit.job.demand
    if demand.topology is not None or any(group.topology is not None for group in demand.sub_groups):
        return None
    needs = requirements_of_unit(unit)
    return next(((need, len(indices)) for need, indices in needs.items()), None) if len(needs) == 1 else None
