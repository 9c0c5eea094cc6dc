"""Consolidate: jobs move so that a unit fits, and every moved job has its new place in the same plan.

Whether a set of jobs and the asker fit together once the jobs have left their places is one packing question: the more
jobs may move, the more fits. So sets are tried by rising cost, and the first that fits is the best.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.pool import Job
from bailiff_core.model.units import Unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import GangPlace, TaskPlace, place_unit
from bailiff_core.placement.need import needs_of_unit
from bailiff_core.placement.rooms import NodeRoom, Rooms, slots_for
from bailiff_core.scene import Scene

from .candidates import Field, Step
from .moves import new_place
from .search import Found
from .slots import Kept, sharpened, slots_of
from .terms import Terms

JOINT_STEPS = 300
LIKELY = 200
TELLS_APART = 2_000


def consolidate(scene: Scene, unit: Unit, candidates: Field, terms: Terms, budget: Budget, kept: Kept) -> Found:
    """The cheapest set of jobs to move, with all new places."""
    most = scene.pool.rules.preemption.most_moved
    steps = [chain[0] for chain in candidates.chains.values()]
    most = len(steps) if most < 0 else min(most, len(steps))
    lacking = Idle.of(scene.rooms).lacks(unit)
    if lacking is not None:
        return Found(proven=True, why=lacking)
    nobody = Found(
        proven=True,
        why=f"moving {most} job{'' if most == 1 else 's'} makes no room for it" if steps else "there is nobody to move",
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
    weights = sharpened(steps) if len(steps) <= TELLS_APART else {step: step.weight for step in steps}
    steps.sort(key=lambda step: (weights[step], step.young))
    limit = None if best is None or best.steps is None else sum(weights[step] for step in best.steps)
    for weight, chosen in _by_cost(steps, weights, most):
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
    found = [chosen for chosen in ([cheapest] if cheapest else []) + tries if len(chosen) <= most]
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


def _by_cost(steps: Sequence[Step], weights: Mapping[Step, int], most: int) -> Iterator[tuple[int, list[Step]]]:
    """Sets of at most `most` steps and their weights, the cheapest first. `steps` are in order of weight."""
    if not steps or most < 1:
        return
    heap: list[tuple[int, tuple[int, ...]]] = [(weights[steps[0]], (0,))]
    while heap:
        weight, chosen = heappop(heap)
        yield weight, [steps[at] for at in chosen]
        last = chosen[-1]
        if last + 1 < len(steps):
            after = weights[steps[last + 1]]
            heappush(heap, (weight - weights[steps[last]] + after, (*chosen[:-1], last + 1)))
            if len(chosen) < most:
                heappush(heap, (weight + after, (*chosen, last + 1)))


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
        place = place_unit(self.rooms, self.unit, Budget(JOINT_STEPS), promised=True)
        if not isinstance(place, GangPlace):
            self.certain = self.certain and place.kind == "impossible"
            return None
        moved = self._each(chosen)
        if moved is not None:
            return place, moved
        self.rooms.rollback(evicted)
        return self._as_one(chosen)

    def _each(self, chosen: Sequence[Step]) -> dict[str, GangPlace] | None:
        moved: dict[str, GangPlace] = {}
        for step in sorted(chosen, key=lambda step: (-step.weight, step.young)):
            place = new_place(self.rooms, step.unit, Budget(JOINT_STEPS))
            if place is None:
                return None
            moved[step.job.id] = place
        return moved

    def _as_one(self, chosen: Sequence[Step]) -> tuple[GangPlace, dict[str, GangPlace]] | None:
        """All of them placed as if they were one gang: exact, where nobody has a rule about standing together."""
        units = [self.unit, *(step.unit for step in chosen)]
        if any(_has_rules(entry.job.demand) for entry in units):
            self.certain = False
            return None
        alone: dict[str, object] = {"count": 1, "sub_group": None}
        groups = tuple(entry.job.group(index).model_copy(update=alone) for entry in units for index in entry.indices)
        demand = JobDemand.model_construct(job="together", tasks=groups)
        crowd = Job("together", 0, 0, demand, self.unit.job.class_name, 0, True, True, "")
        part = self.budget.part(JOINT_STEPS)
        found = place_unit(self.rooms, Unit(crowd, tuple(range(len(groups))), core=True), part, promised=True)
        self.budget.join(part)
        if not isinstance(found, GangPlace):
            self.certain = self.certain and found.kind == "impossible"
            return None
        at = {task.index: task for task in found.tasks}
        places: list[GangPlace] = []
        start = 0
        for entry in units:
            mine = [at[start + offset] for offset in range(len(entry.indices))]
            tasks = [TaskPlace(index, task.node, task.devices) for index, task in zip(entry.indices, mine, strict=True)]
            places.append(GangPlace(tuple(sorted(tasks, key=lambda task: task.index)), later=True))
            start += len(entry.indices)
        return places[0], {step.job.id: place for step, place in zip(chosen, places[1:], strict=True)}


def _has_rules(demand: JobDemand) -> bool:
    return demand.topology is not None or any(group.topology is not None for group in demand.sub_groups)
