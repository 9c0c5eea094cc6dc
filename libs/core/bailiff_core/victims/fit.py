"""Answers "does the gang still fit?" again and again while candidates are put back one by one."""

from collections.abc import Sequence

from bailiff_core.model.pool import Job
from bailiff_core.model.units import Unit, next_unit, whole
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import GangPlace, hardest_first, place_unit, settle
from bailiff_core.placement.need import Need, needs_of
from bailiff_core.placement.packing import take_chunk
from bailiff_core.placement.rooms import NodeRoom, Rooms, slots_for

PLACEMENT_STEPS = 200
NODES_PER_STEP = 8


class OneNeed:
    """A gang of equal tasks fits when the nodes' slots add up: only the nodes of the changed job are counted again."""

    def __init__(self, rooms: Rooms, asker: Job, need: Need) -> None:
        self.exact = True
        self.rooms = rooms
        self.need = need
        self.wanted = asker.size
        self.suited = dict(rooms.suited(need))
        self.slots = {node: self.count(node) for node in self.suited}
        self.total = sum(self.slots.values())

    def fits(self) -> bool:
        """Whether the gang fits as things stand."""
        return self.total >= self.wanted

    def put_back(self, job: Job) -> bool:
        """Put the job back where it stood, if the gang still fits then."""
        self.stay(job)
        if self.fits():
            return True
        self.evict(job)
        return False

    def effort(self, job: Job) -> int:
        """What trying to put the job back costs, in steps."""
        return len(self.rooms.standing(whole(job)))

    def stay(self, job: Job) -> None:
        """Put the job back, come what may."""
        self.rooms.put_back(whole(job))
        self._recount(job)

    def evict(self, job: Job) -> None:
        """Take the job out (again)."""
        self.rooms.evict(whole(job))
        self._recount(job)

    def uses(self, job: Job) -> bool:
        """Whether the job stands on a node that the gang may use."""
        return any(node in self.suited for node, _ in self.rooms.standing(whole(job)))

    def _recount(self, job: Job) -> None:
        for node, _ in self.rooms.standing(whole(job)):
            if node in self.suited:
                count = self.count(node)
                self.total += count - self.slots[node]
                self.slots[node] = count

    def count(self, node: NodeRoom) -> int:
        """Tasks of the gang that the node takes."""
        return slots_for(self.need, node, node.later, self.suited[node])


class ManyNeeds:
    """A gang of different tasks is placed; it is placed anew only when the job put back stands in the way.

    Where the placement search gives up, the gang counts as not fitting and `exact` is false from then on.
    """

    def __init__(self, rooms: Rooms, asker: Job, budget: Budget, order: Sequence[Job]) -> None:
        self.rooms = rooms
        self.asker = asker
        self.budget = budget
        self.exact = True
        self.needs = needs_of(asker.demand)
        self.suited = dict.fromkeys(node for need in self.needs for node, _ in rooms.suited(need))
        # Where nobody stands who is put back early, the gang is seldom in the way.
        early = {node: -place for place, job in reversed(list(enumerate(order))) for node, _ in rooms.standing(whole(job))}
        self.quiet_first = sorted(self.suited, key=lambda node: (early.get(node, -len(order)), node.number))
        self.place: GangPlace | None = None
        self._find()

    def fits(self) -> bool:
        """Whether the gang fits as things stand."""
        return self.place is not None

    def put_back(self, job: Job) -> bool:
        """Put the job back where it stood, if the gang still fits then."""
        mark = self.rooms.mark()
        if self.place is not None:
            self.rooms.place(whole(self.asker), self.place)
            undisturbed = self.rooms.has_place_for(whole(job))
            self.rooms.rollback(mark)
            if undisturbed:
                self.rooms.put_back(whole(job))
                return True
        before = self.place
        self.rooms.put_back(whole(job))
        self._find()
        if self.place is not None:
            return True
        self.rooms.evict(whole(job))
        self.place = before
        return False

    def effort(self, job: Job) -> int:  # noqa: ARG002
        """What trying to put a job back costs, in steps: the gang may have to be placed anew."""
        return 1 + len(self.rooms.nodes) // NODES_PER_STEP

    def evict(self, job: Job) -> None:
        """Take the job out (again). What fitted before still does."""
        self.rooms.evict(whole(job))
        if self.place is None:
            self._find()

    def uses(self, job: Job) -> bool:
        """Whether the job stands on a node that the gang may use."""
        return any(node in self.suited for node, _ in self.rooms.standing(whole(job)))

    def _find(self) -> None:
        self.place = self._first_fit()
        if self.place is not None:
            return
        part = Budget(PLACEMENT_STEPS)  # granted even when the budget is used up: a set must never hold one too many
        mark = self.rooms.mark()
        found = place_unit(self.rooms, asking(self.asker), part, promised=True)
        self.rooms.rollback(mark)
        self.budget.join(part)
        self.place = found if isinstance(found, GangPlace) else None
        if not isinstance(found, GangPlace) and found.kind == "gave-up":
            self.exact = False

    def _first_fit(self) -> GangPlace | None:
        mark = self.rooms.mark()
        chunks = []
        for need in sorted(self.needs, key=hardest_first):
            suited = dict(self.rooms.suited(need))
            left = len(self.needs[need])
            for node in self.quiet_first:
                count = min(left, slots_for(need, node, node.later, suited[node])) if node in suited else 0
                if count:
                    chunks.append(take_chunk(self.rooms, need, node, suited[node], count, later=True))
                    left -= count
                if not left:
                    break
            if left:
                self.rooms.rollback(mark)
                return None
        self.rooms.rollback(mark)
        place = settle(self.rooms, self.needs, chunks, later=True)
        self.rooms.rollback(mark)
        return place


Fit = OneNeed | ManyNeeds


def asking(job: Job) -> Unit:
    """What the asker wants placed."""
    unit = next_unit(job)
    assert unit is not None, f"{job.id} asks for nothing"
    return unit


def fit_for(rooms: Rooms, asker: Job, budget: Budget, order: Sequence[Job]) -> Fit:
    """The quicker of the two that is right for this gang. `order`: in which the evicted are going to be put back."""
    needs = list(needs_of(asker.demand))
    return OneNeed(rooms, asker, needs[0]) if len(needs) == 1 else ManyNeeds(rooms, asker, budget, order)
