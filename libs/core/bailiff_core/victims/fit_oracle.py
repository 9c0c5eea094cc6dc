"""Fit oracles: test whether the unit fits, again and again, while evicted units are reprieved one by one."""

from bailiff_core.model.units import Unit
from bailiff_core.placement.cluster_resources import ClusterResources, NodeResources, slots_for
from bailiff_core.placement.gang import GangPlacement, NoFit, place_unit
from bailiff_core.placement.packing import ANYWHERE, has_capacity
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.placement.task_requirements import TaskRequirements, requirements_of_unit

from .candidates import EvictionStep
from .constraints import Constraints

PLACEMENT_STEPS = 200
NODES_PER_STEP = 8


class SlotOracle:
    """For equal tasks without topology constraints: they fit if the slots of all nodes add up.

    Only changed nodes are counted again. eligible: restrict the count to these nodes.
    """

    exact = True

    def __init__(
        self, cluster: ClusterResources, need: TaskRequirements, wanted: int, eligible: dict[NodeResources, int] | None = None
    ) -> None:
        self.cluster = cluster
        self.need = need
        self.wanted = wanted
        self.eligible_nodes = dict(cluster.eligible_nodes(need)) if eligible is None else eligible
        self.slots = {node: self.count(node) for node in self.eligible_nodes}
        self.total = sum(self.slots.values())

    def fits(self) -> bool:
        """Whether the unit fits now."""
        return self.total >= self.wanted

    def reprieve(self, step: EvictionStep) -> bool:
        """Restore the step in its original place if the unit still fits; returns whether it does."""
        self.cluster.restore(step.unit)
        self._recount(step)
        if self.fits():
            return True
        self.evict(step)
        return False

    def effort(self, step: EvictionStep) -> int:
        """Cost of a reprieve, in steps."""
        return len(self.cluster.allocation_of(step.unit))

    def restore(self, step: EvictionStep) -> None:
        """Restore the step unconditionally."""
        self.cluster.restore(step.unit)
        self._recount(step)

    def evict(self, step: EvictionStep) -> None:
        """Evict the step (again)."""
        self.cluster.evict(step.unit)
        self._recount(step)

    def uses(self, step: EvictionStep) -> bool:
        """Whether the step has resources on a node that the unit may use."""
        return any(node in self.eligible_nodes for node, _ in self.cluster.allocation_of(step.unit))

    def _recount(self, step: EvictionStep) -> None:
        for node, _ in self.cluster.allocation_of(step.unit):
            if node in self.eligible_nodes:
                count = self.count(node)
                self.total += count - self.slots[node]
                self.slots[node] = count

    def count(self, node: NodeResources) -> int:
        """How many tasks of the unit fit on the node."""
        return slots_for(self.need, node, node.future, self.eligible_nodes[node])


class PlacementOracle:
    """For any unit: it is placed, and placed again only if a restored step conflicts with its placement.

    If the placement search gives up, the unit counts as not fitting and `exact` becomes false. constraints: the placement
    must satisfy the limits of its projects, too.
    """

    def __init__(self, cluster: ClusterResources, unit: Unit, budget: StepBudget, constraints: Constraints | None = None) -> None:
        self.cluster = cluster
        self.constraints = constraints
        self.unit = unit
        self.budget = budget
        self.exact = True
        self.eligible_nodes = dict.fromkeys(
            node for need in requirements_of_unit(unit) for node, _ in cluster.eligible_nodes(need)
        )
        self._used_nodes: tuple[GangPlacement | None, dict[int, None]] = (None, {})
        self.place = self._find()

    def fits(self) -> bool:
        """Whether the unit fits now."""
        return self.place is not None

    def reprieve(self, step: EvictionStep) -> bool:
        """Restore the step in its original place if the unit still fits; returns whether it does."""
        if self.place is None:
            return False
        used_nodes = self._nodes_of(self.place)
        place_still_valid = not any(node.number in used_nodes for node, _ in self.cluster.allocation_of(step.unit))
        if not place_still_valid:
            mark = self.cluster.mark()
            self.cluster.place(self.unit, self.place)
            place_still_valid = self.cluster.original_place_is_free(step.unit)
            self.cluster.rollback(mark)
        if place_still_valid and self.constraints is not None:
            place_still_valid = self.constraints.over_limit_now(self.place) is None
        self.cluster.restore(step.unit)
        if place_still_valid:
            return True
        found = self._find()
        if found is None:
            self.cluster.evict(step.unit)
            return False
        self.place = found
        return True

    def _nodes_of(self, place: GangPlacement) -> dict[int, None]:
        """Node numbers of the unit's current placement."""
        if place is not self._used_nodes[0]:
            self._used_nodes = place, dict.fromkeys(task.node for task in place.tasks)
        return self._used_nodes[1]

    def effort(self, step: EvictionStep) -> int:  # noqa: ARG002
        """Cost of a reprieve, in steps: the unit may have to be placed again."""
        return 1 + len(self.cluster.nodes) // NODES_PER_STEP

    def restore(self, step: EvictionStep) -> None:
        """Restore a step that does not use the unit's nodes."""
        self.cluster.restore(step.unit)

    def evict(self, step: EvictionStep) -> None:
        """Evict the step (again). A placement found before remains valid."""
        self.cluster.evict(step.unit)
        if self.place is None:
            self.place = self._find()

    def uses(self, step: EvictionStep) -> bool:
        """Whether the step has resources on a node that the unit may use."""
        return any(node in self.eligible_nodes for node, _ in self.cluster.allocation_of(step.unit))

    def _find(self) -> GangPlacement | None:
        part = StepBudget(PLACEMENT_STEPS)  # granted even if the budget is exhausted: victim sets must remain irreducible
        mark = self.cluster.mark()
        if self.constraints is None:
            found: GangPlacement | NoFit | str = place_unit(self.cluster, self.unit, part, reserve=True)
        else:
            found = self.constraints.place(part)
        self.cluster.rollback(mark)
        self.budget.join(part)
        if isinstance(found, GangPlacement):
            return found
        certain = part.remaining > 0 if isinstance(found, str) else found.kind == "impossible"
        self.exact = self.exact and certain
        return None


class QuotaOracle:
    """Adds the limits of projects to another oracle: usage of evicted steps is subtracted, of restored ones added."""

    def __init__(self, oracle: SlotOracle | PlacementOracle, constraints: Constraints) -> None:
        self.oracle = oracle
        self.usage = constraints.snapshot.usage
        self.constraints = constraints

    @property
    def exact(self) -> bool:
        """Whether every negative result so far was certain."""
        return self.oracle.exact

    def fits(self) -> bool:
        """Whether the unit fits now."""
        return self.constraints.over_limit_now() is None and self.oracle.fits()

    def reprieve(self, step: EvictionStep) -> bool:
        """Restore the step in its original place if the unit still fits; returns whether it does."""
        self.usage.restore(step.unit)
        if self.constraints.over_limit_now() is None and self.oracle.reprieve(step):
            return True
        self.usage.evict(step.unit)
        return False

    def effort(self, step: EvictionStep) -> int:
        """Cost of a reprieve, in steps."""
        return self.oracle.effort(step)

    def restore(self, step: EvictionStep) -> None:
        """Restore the step unconditionally."""
        self.usage.restore(step.unit)
        self.oracle.restore(step)

    def evict(self, step: EvictionStep) -> None:
        """Evict the step (again)."""
        self.usage.evict(step.unit)
        self.oracle.evict(step)

    def uses(self, step: EvictionStep) -> bool:  # noqa: ARG002
        """Every step may matter, on any node."""
        return True


FitOracle = SlotOracle | PlacementOracle | QuotaOracle


def single_requirement(unit: Unit) -> tuple[TaskRequirements, int] | None:
    """The tasks' requirements and their number, if all are equal and no topology constraint exists; else None."""
    demand = unit.job.demand
    if demand.topology is not None or any(group.topology is not None for group in demand.sub_groups):
        return None
    needs = requirements_of_unit(unit)
    return next(((need, len(indices)) for need, indices in needs.items()), None) if len(needs) == 1 else None


def cannot_fit(cluster: ClusterResources, unit: Unit) -> bool:
    """Whether some task type of the unit does not fit even on its own: a quick negative test."""
    return not all(
        has_capacity(cluster, need, len(indices), ANYWHERE, future=True) for need, indices in requirements_of_unit(unit).items()
    )
