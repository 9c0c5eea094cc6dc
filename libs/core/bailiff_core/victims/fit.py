"""Answers "does the unit fit?" again and again while what was evicted is put back piece by piece."""

from bailiff_core.model.units import Unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import GangPlace, NoFit, place_unit
from bailiff_core.placement.need import Need, needs_of_unit
from bailiff_core.placement.packing import ANYWHERE, has_room
from bailiff_core.placement.rooms import NodeRoom, Rooms, slots_for

from .candidates import Step
from .terms import Terms

PLACEMENT_STEPS = 200
NODES_PER_STEP = 8


class SlotFit:
    """Equal tasks without a rule about where they stand together: they fit when the nodes' slots add up.

    Only the nodes of what changed are counted again. suited: just these nodes are counted.
    """

    exact = True

    def __init__(self, rooms: Rooms, need: Need, wanted: int, suited: dict[NodeRoom, int] | None = None) -> None:
        self.rooms = rooms
        self.need = need
        self.wanted = wanted
        self.suited = dict(rooms.suited(need)) if suited is None else suited
        self.slots = {node: self.count(node) for node in self.suited}
        self.total = sum(self.slots.values())

    def fits(self) -> bool:
        """Whether the unit fits as things stand."""
        return self.total >= self.wanted

    def put_back(self, step: Step) -> bool:
        """Put it back where it stood, if the unit still fits then."""
        self.rooms.put_back(step.unit)
        self._recount(step)
        if self.fits():
            return True
        self.evict(step)
        return False

    def effort(self, step: Step) -> int:
        """What trying to put it back costs, in steps."""
        return len(self.rooms.standing(step.unit))

    def stay(self, step: Step) -> None:
        """Put it back, come what may."""
        self.rooms.put_back(step.unit)
        self._recount(step)

    def evict(self, step: Step) -> None:
        """Take it out (again)."""
        self.rooms.evict(step.unit)
        self._recount(step)

    def uses(self, step: Step) -> bool:
        """Whether it stands on a node that the unit may use."""
        return any(node in self.suited for node, _ in self.rooms.standing(step.unit))

    def _recount(self, step: Step) -> None:
        for node, _ in self.rooms.standing(step.unit):
            if node in self.suited:
                count = self.count(node)
                self.total += count - self.slots[node]
                self.slots[node] = count

    def count(self, node: NodeRoom) -> int:
        """Tasks of the unit that the node takes."""
        return slots_for(self.need, node, node.later, self.suited[node])


class PlaceFit:
    """Any unit: it is placed, and placed anew only when what is put back stands in the way.

    Where the placement search gives up, the unit counts as not fitting and `exact` is false from then on. terms: it must
    stand where its projects' bounds are kept, too.
    """

    def __init__(self, rooms: Rooms, unit: Unit, budget: Budget, terms: Terms | None = None) -> None:
        self.rooms = rooms
        self.terms = terms
        self.unit = unit
        self.budget = budget
        self.exact = True
        self.suited = dict.fromkeys(node for need in needs_of_unit(unit) for node, _ in rooms.suited(need))
        self._nodes_of: tuple[GangPlace | None, dict[int, None]] = (None, {})
        self.place = self._find()

    def fits(self) -> bool:
        """Whether the unit fits as things stand."""
        return self.place is not None

    def put_back(self, step: Step) -> bool:
        """Put it back where it stood, if the unit still fits then."""
        if self.place is None:
            return False
        undisturbed = not any(node.number in self._taken() for node, _ in self.rooms.standing(step.unit))
        if not undisturbed:
            mark = self.rooms.mark()
            self.rooms.place(self.unit, self.place)
            undisturbed = self.rooms.has_place_for(step.unit)
            self.rooms.rollback(mark)
        if undisturbed and self.terms is not None:
            undisturbed = self.terms.above(self.place) is None
        self.rooms.put_back(step.unit)
        if undisturbed:
            return True
        found = self._find()
        if found is None:
            self.rooms.evict(step.unit)
            return False
        self.place = found
        return True

    def _taken(self) -> dict[int, None]:
        """Nodes on which the unit would stand."""
        if self.place is not self._nodes_of[0]:
            tasks = self.place.tasks if self.place is not None else ()
            self._nodes_of = self.place, dict.fromkeys(task.node for task in tasks)
        return self._nodes_of[1]

    def effort(self, step: Step) -> int:  # noqa: ARG002
        """What trying to put something back costs, in steps: the unit may have to be placed anew."""
        return 1 + len(self.rooms.nodes) // NODES_PER_STEP

    def stay(self, step: Step) -> None:
        """Put back what does not stand where the unit might."""
        self.rooms.put_back(step.unit)

    def evict(self, step: Step) -> None:
        """Take it out (again). What fitted before still does."""
        self.rooms.evict(step.unit)
        if self.place is None:
            self.place = self._find()

    def uses(self, step: Step) -> bool:
        """Whether it stands on a node that the unit may use."""
        return any(node in self.suited for node, _ in self.rooms.standing(step.unit))

    def _find(self) -> GangPlace | None:
        part = Budget(PLACEMENT_STEPS)  # granted even when the budget is used up: a set must never hold one too many
        mark = self.rooms.mark()
        if self.terms is None:
            found: GangPlace | NoFit | str = place_unit(self.rooms, self.unit, part, promised=True)
        else:
            found = self.terms.place(part)
        self.rooms.rollback(mark)
        self.budget.join(part)
        if isinstance(found, GangPlace):
            return found
        certain = part.left > 0 if isinstance(found, str) else found.kind == "impossible"
        self.exact = self.exact and certain
        return None


class BoundedFit:
    """A fit that must keep bounds of projects besides: who is evicted uses nothing of them, and who is put back does again."""

    def __init__(self, fit: SlotFit | PlaceFit, terms: Terms) -> None:
        self.fit = fit
        self.usage = terms.scene.usage
        self.terms = terms

    @property
    def exact(self) -> bool:
        """Whether every no so far was certain."""
        return self.fit.exact

    def fits(self) -> bool:
        """Whether the unit fits as things stand."""
        return self.terms.above() is None and self.fit.fits()

    def put_back(self, step: Step) -> bool:
        """Put it back where it stood, if the unit still fits then."""
        self.usage.put_back(step.unit)
        if self.terms.above() is None and self.fit.put_back(step):
            return True
        self.usage.evict(step.unit)
        return False

    def effort(self, step: Step) -> int:
        """What trying to put it back costs, in steps."""
        return self.fit.effort(step)

    def stay(self, step: Step) -> None:
        """Put it back, come what may."""
        self.usage.put_back(step.unit)
        self.fit.stay(step)

    def evict(self, step: Step) -> None:
        """Take it out (again)."""
        self.usage.evict(step.unit)
        self.fit.evict(step)

    def uses(self, step: Step) -> bool:  # noqa: ARG002
        """Any may matter, wherever it stands."""
        return True


Fit = SlotFit | PlaceFit | BoundedFit


def slot_need(unit: Unit) -> tuple[Need, int] | None:
    """The one need of the unit's tasks and how many there are, where nothing else matters to its placement."""
    demand = unit.job.demand
    if demand.topology is not None or any(group.topology is not None for group in demand.sub_groups):
        return None
    needs = needs_of_unit(unit)
    return next(((need, len(indices)) for need, indices in needs.items()), None) if len(needs) == 1 else None


def surely_not(rooms: Rooms, unit: Unit) -> bool:
    """Whether some of the unit's tasks lack room by themselves: a quick no, without a reason."""
    return not all(has_room(rooms, need, len(indices), ANYWHERE, later=True) for need, indices in needs_of_unit(unit).items())
