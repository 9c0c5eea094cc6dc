"""Consolidate: jobs move, or surplus tasks of theirs, so that a unit fits, and all that moves has its place in the same plan.

Whether a set of movers and the asker fit together once the movers have left their places is one packing question: the
more may move, the more fits. So sets are tried by rising cost, and the first that fits is the best.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from bailiff_core.model.units import Unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.crowd import place_crowd
from bailiff_core.placement.gang import GangPlace, NoFit
from bailiff_core.placement.need import needs_of_unit
from bailiff_core.placement.rooms import NodeRoom, Rooms, slots_for
from bailiff_core.scene import Scene
from bailiff_core.words import count_text

from .candidates import Chain, Field, Step
from .moves import leaving_of, new_place
from .search import Found
from .slots import Kept, sharpened, slots_of
from .terms import Terms

JOINT_STEPS = 300
CROWD_STEPS = 5_000
LIKELY = 200
TELLS_APART = 2_000


def consolidate(scene: Scene, unit: Unit, candidates: Field, terms: Terms, budget: Budget, kept: Kept) -> Found:
    """The cheapest set of jobs to move, with all new places."""
    most = scene.pool.rules.preemption.most_moved
    chains = list(candidates.chains.values())
    most = len(chains) if most < 0 else min(most, len(chains))
    lacking = Idle.of(scene.rooms).lacks(unit)
    if lacking is not None:
        return Found(proven=True, why=lacking)
    nobody = Found(
        proven=True,
        why=f"moving {count_text(most, 'job')} makes no room for it" if chains else "there is nobody to move",
    )
    likely, sure = _likely(scene, unit, candidates, most, budget, kept)
    if likely is None:
        return nobody if sure else Found(why="found nobody to move for it within the search steps")
    search = _Together(scene, unit, terms, budget)
    best: Found | None = None
    for at, chosen in enumerate(likely):
        found = search.places(chosen)
        if found is not None:
            best = Found(chosen, proven=sure and not at, place=found[0], moved=found[1])
            break
    if best is not None and best.proven:
        return best
    steps = candidates.steps()
    weights = sharpened(steps) if len(steps) <= TELLS_APART else {step: step.weight for step in steps}
    chains.sort(key=lambda chain: (weights[chain[0]], chain[0].young))
    limit = None if best is None or best.steps is None else sum(weights[step] for step in best.steps)
    for weight, chosen in _by_cost(chains, weights, most):
        if limit is not None and weight >= limit:
            break
        if not budget.spend():
            return best or Found(why="found nobody to move for it within the search steps")
        found = search.places(chosen)
        if found is not None:
            return Found(chosen, proven=search.certain, place=found[0], moved=found[1])
    if best is None:
        return (
            nobody
            if search.certain
            else Found(why="found no new places for those who would have to move within the search steps")
        )
    best.proven = search.certain
    return best


def _likely(
    scene: Scene, unit: Unit, candidates: Field, most: int, budget: Budget, kept: Kept
) -> tuple[list[list[Step]] | None, bool]:
    """Sets that would make room for the asker, whatever becomes of them: the cheapest first; and whether that is sure.

    `None`: there is no such set.
    """
    tries: list[list[Step]] = []
    cheapest: list[Step] = []
    sure = True
    for need, indices in needs_of_unit(unit).items():
        slots, short = slots_of(kept, scene.rooms, need, candidates, len(indices))
        if short <= 0:
            continue
        part = budget.part(budget.left // 2)
        steps, certain = slots.cheapest(short, part)
        budget.join(part)
        if steps is None:
            if certain:
                return None, True
            sure = False
            continue
        if sum(step.weight for step in steps) > sum(step.weight for step in cheapest):
            cheapest = steps
        options = [option for each in slots.parts for option in slots.options(each, budget) or () if option.gain >= short]
        options.sort(key=lambda option: option.key)
        tries += [list(option.steps) for option in options[:LIKELY]]
    found = [chosen for chosen in ([cheapest] if cheapest else []) + tries if len({step.job.id for step in chosen}) <= most]
    return found, sure and bool(cheapest) and bool(found) and found[0] is cheapest


@dataclass(frozen=True, slots=True)
class Idle:
    """Room that is free or on its way to be, in sum: who is moved takes as much as before, so it must suffice."""

    gpus: int
    cpu_milli: int
    memory_bytes: int
    shared: bool

    @classmethod
    def of(cls, rooms: Rooms) -> "Idle":
        """On all nodes."""
        later = [node.later for node in rooms.nodes.values()]
        return cls(
            sum(room.devices.bit_count() for room in later),
            sum(max(0, room.cpu_milli) for room in later),
            sum(max(0, room.memory_bytes) for room in later),
            any(room.shares for room in later),
        )

    def lacks(self, unit: Unit) -> str | None:
        """What there is too little of, as a sentence, or `None`."""
        needs = needs_of_unit(unit)
        gpus = sum(need.gpus * len(indices) for need, indices in needs.items())
        if self.gpus < gpus and not self.shared:
            return f"needs {gpus} GPUs in all, {self.gpus} are free or on their way out: moving jobs makes no more"
        if self.cpu_milli < sum(need.cpu_milli * len(indices) for need, indices in needs.items()):
            return "there is not enough CPU free in all: moving jobs makes no more"
        if self.memory_bytes < sum(need.memory_bytes * len(indices) for need, indices in needs.items()):
            return "there is not enough memory free in all: moving jobs makes no more"
        return None


def _by_cost(chains: Sequence[Chain], weights: Mapping[Step, int], most: int) -> Iterator[tuple[int, list[Step]]]:
    """Sets of steps of at most `most` jobs and their weights, the cheapest first. `chains` are in order of their first step's."""
    if not chains or most < 1:
        return
    heap: list[tuple[int, tuple[tuple[int, int], ...]]] = [(weights[chains[0][0]], ((0, 1),))]
    while heap:
        weight, chosen = heappop(heap)
        yield weight, [step for at, count in chosen for step in chains[at][:count]]
        last, count = chosen[-1]
        if count < len(chains[last]):
            heappush(heap, (weight + weights[chains[last][count]], (*chosen[:-1], (last, count + 1))))
        if last + 1 < len(chains):
            after = weights[chains[last + 1][0]]
            if count == 1:
                heappush(heap, (weight - weights[chains[last][0]] + after, (*chosen[:-1], (last + 1, 1))))
            if len(chosen) < most:
                heappush(heap, (weight + after, (*chosen, (last + 1, 1))))


class _Together:
    """Tries whether the asker and all who leave find places. `certain`: every no so far was proven."""

    def __init__(self, scene: Scene, unit: Unit, terms: Terms, budget: Budget) -> None:
        self.rooms = scene.rooms
        self.terms = terms
        self.unit = unit
        self.budget = budget
        self.certain = True
        self.needs = needs_of_unit(unit)
        self.suited = {need: dict(self.rooms.suited(need)) for need in self.needs}
        self.slots = {
            need: {node: slots_for(need, node, node.later, mask) for node, mask in suited.items()}
            for need, suited in self.suited.items()
        }
        self.total = {need: sum(slots.values()) for need, slots in self.slots.items()}

    def places(self, chosen: Sequence[Step]) -> tuple[GangPlace, dict[str, GangPlace]] | None:
        """A place for the asker and one for each of `chosen`, once these have left; `None` also where they may not."""
        if self.terms.by_set and self.terms.forbids([step.unit for step in chosen]) is not None:
            return None
        mark = self.rooms.mark()
        try:
            return self._places(chosen)
        finally:
            self.rooms.rollback(mark)

    def _places(self, chosen: Sequence[Step]) -> tuple[GangPlace, dict[str, GangPlace]] | None:
        touched: dict[NodeRoom, None] = {}
        for step in chosen:
            self.rooms.evict(step.unit)
            touched.update((node, None) for node, _ in self.rooms.standing(step.unit))
        for need, indices in self.needs.items():
            slots, suited = self.slots[need], self.suited[need]
            gain = sum(slots_for(need, node, node.later, suited[node]) - slots[node] for node in touched if node in slots)
            if self.total[need] + gain < len(indices):
                return None
        evicted = self.rooms.mark()
        place = self.terms.place(Budget(JOINT_STEPS))
        if isinstance(place, NoFit) and place.kind == "impossible":
            return None
        moved = self._each(chosen) if isinstance(place, GangPlace) else None
        if isinstance(place, GangPlace) and moved is not None:
            return place, moved
        self.rooms.rollback(evicted)
        return self._as_one(chosen)

    def _each(self, chosen: Sequence[Step]) -> dict[str, GangPlace] | None:
        value: dict[str, int] = {}
        for step in chosen:
            value[step.job.id] = value.get(step.job.id, 0) + step.weight
        moved: dict[str, GangPlace] = {}
        for unit in sorted(leaving_of(chosen), key=lambda unit: (-value[unit.job.id], -unit.job.seq, unit.job.id)):
            place = new_place(self.rooms, unit, Budget(JOINT_STEPS))
            if place is None:
                return None
            moved[unit.job.id] = place
        return moved

    def _as_one(self, chosen: Sequence[Step]) -> tuple[GangPlace, dict[str, GangPlace]] | None:
        """All of them placed together, as one crowd: exact."""
        units = leaving_of(chosen)
        part = self.budget.part(min(CROWD_STEPS, self.budget.left // 4))
        found = place_crowd(self.rooms, [self.unit, *units], part)
        self.budget.join(part)
        if isinstance(found, str):
            self.certain = self.certain and found == "impossible"
            return None
        if self.terms.by_place and self.terms.above(found[0]) is not None:
            self.certain = False  # it may keep its bounds in another arrangement
            return None
        return found[0], {unit.job.id: place for unit, place in zip(units, found[1:], strict=True)}
