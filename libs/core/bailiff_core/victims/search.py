"""The search for the cheapest set of victims under reclaim and preempt, and how much of it is certain."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bailiff_core.model.units import Unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import GangPlace, place_unit
from bailiff_core.placement.need import needs_of_unit
from bailiff_core.queue.gates import Losses
from bailiff_core.scene import Scene

from .candidates import Chain, Field, Step
from .fit import BoundedFit, Fit, PlaceFit, SlotFit, slot_need, surely_not
from .moves import find_new_places, leaving_of, taken_for_good
from .slots import Kept, Slots, sharpened, slots_of
from .terms import Terms
from .tree import Gate, Test, in_order, put_back_all, search_tree

RUNNER_UP_TRIES = 2
IMPROVEMENTS = 5
PLACEMENT_STEPS = 10_000
MOVE_STEPS = 2_000
TELLS_APART = 2_000  # so many candidates are told apart by age to the last; beyond, equal cost is equal


@dataclass(slots=True)
class Found:
    """The best set found, or `None`. proven: nothing is cheaper, or, without a set, nothing works.

    bound: a set for less than whose cost nothing works. place, moved: where the asker and victims go, if settled already.
    """

    steps: list[Step] | None = None
    proven: bool = False
    why: str = ""
    runner_up: Sequence[Step] = ()
    bound: Sequence[Step] = ()
    place: GangPlace | None = None
    moved: dict[str, GangPlace] = field(default_factory=dict)


class Search:
    """One search. `kept`: what searches of the same batch know about needs, filled as they go."""

    def __init__(self, scene: Scene, unit: Unit, candidates: Field, terms: Terms, budget: Budget, kept: Kept) -> None:
        self.scene = scene
        self.rooms = scene.rooms
        self.unit = unit
        self.field = candidates
        self.terms = terms
        self.budget = budget
        self.kept = kept
        self.needs = needs_of_unit(unit)
        self.bound: list[Step] = []
        self._simple = slot_need(unit) if not terms.by_place else None

    def run(self) -> Found:
        """The cheapest set that makes room and that the terms of the verb allow."""
        relaxed = self._relaxed()
        if relaxed is not None:
            return relaxed
        return self._general()

    # --- each need by itself, which bounds the whole, and for equal tasks is the whole

    def _relaxed(self) -> Found | None:
        certain = True
        slots: Slots | None = None
        short = 0
        for need, indices in self.needs.items():
            slots, short = slots_of(self.kept, self.rooms, need, self.field, len(indices))
            if short <= 0:
                continue
            part = self.budget.part(self.budget.left // 2)
            steps, sure = slots.cheapest(short, part)
            self.budget.join(part)
            if steps is None and sure:
                return Found(proven=True)
            if steps is None:
                certain = False
            elif sum(step.weight for step in steps) > sum(step.weight for step in self.bound):
                self.bound = steps
        if not self.bound or self.terms.refuses(self._units(self.bound)):
            return None
        if self._simple is None and not self._fits_without(self.bound):
            return None
        if not certain:
            return None
        runner_up = self._next_best(slots, short) if self._simple is not None and slots is not None else []
        return Found(self.bound, proven=True, runner_up=runner_up, bound=self.bound)

    def _next_best(self, slots: Slots, short: int) -> list[Step]:
        best: list[Step] = []
        heaviest = sorted(self.bound, key=lambda step: (-step.weight, step.young))[:RUNNER_UP_TRIES]
        for spared in heaviest:
            part = self.budget.part(self.budget.left // 4)
            other, _ = slots.cheapest(short, part, without=spared)
            self.budget.join(part)
            if other is None:
                continue
            if self.terms.refuses(self._units(other)):
                continue
            if not best or sum(step.weight for step in other) < sum(step.weight for step in best):
                best = other
        return best

    def _fits_without(self, steps: Sequence[Step]) -> bool:
        mark = self.scene.mark()
        for step in steps:
            self.scene.evict(step.unit)
        part = self.budget.part(PLACEMENT_STEPS)
        found = self.terms.place(part)
        self.budget.join(part)
        self.scene.rollback(mark)
        return isinstance(found, GangPlace)

    # --- any unit, any terms

    def _general(self) -> Found:
        found = self._among(self._permitted(), with_moves=False)
        if found.steps is None and self.terms.reclaim is not None and not self.terms.bounded:
            moving = self._among(list(self.field.chains.values()), with_moves=True)
            if moving.steps is not None:
                moving.proven = moving.proven and found.proven
                return moving
            if found.proven and not moving.proven:
                return moving
        return found

    def _permitted(self) -> list[Chain]:
        """Of each job what may leave if nobody else does."""
        chains = []
        for chain in self.field.chains.values():
            allowed: list[Step] = []
            for step in chain:
                if not self.terms.allows(self._units([*allowed, step])):
                    break
                allowed.append(step)
            if allowed:
                chains.append(allowed)
        return chains

    def _among(self, chains: list[Chain], *, with_moves: bool) -> Found:
        mark = self.scene.mark()
        everyone = [step for chain in chains for step in chain]
        for step in everyone:
            if self.terms.bounded:
                self.scene.evict(step.unit)
            else:
                self.rooms.evict(step.unit)
        room: SlotFit | PlaceFit
        if self._simple is not None:
            room = SlotFit(self.rooms, *self._simple)
        else:
            room = PlaceFit(self.rooms, self.unit, self.budget, self.terms if self.terms.by_place else None)
        found = self._best(BoundedFit(room, self.terms) if self.terms.bounded else room, chains, with_moves=with_moves)
        self.scene.rollback(mark)
        return found

    def _best(self, fit: Fit, chains: list[Chain], *, with_moves: bool) -> Found:
        if not fit.fits():
            if fit.exact:
                return Found(proven=True)
            return Found(why="found no packing of this gang within the search steps, with all permitted victims gone")
        useless = [step for chain in chains if not any(fit.uses(step) for step in chain) for step in reversed(chain)]
        chains = [chain for chain in chains if any(fit.uses(step) for step in chain)]
        for step in useless:
            fit.stay(step)
        everyone = [step for chain in chains for step in chain]
        weights: Mapping[Step, int] = (
            sharpened(everyone) if len(everyone) <= TELLS_APART else {step: step.weight for step in everyone}
        )
        order = in_order(chains, weights)

        def weight_of(steps: Sequence[Step]) -> int:
            return sum(weights[step] for step in steps)

        def accept(steps: list[Step], budget: Budget) -> bool:
            return self._acceptable(steps, budget, with_moves=with_moves)

        def accept_whole(steps: list[Step], budget: Budget) -> bool:
            return (with_moves or not _one_too_many(fit, steps)) and accept(steps, budget)

        gated = self.terms.by_set
        best = self._first(fit, order, chains, accept)
        limit = weight_of(best) if best else None
        part = self.budget.part(self.budget.left * 3 // 4)
        better, finished = search_tree(
            fit, order, weights, limit, part, gate=self._gate(with_moves=with_moves), accept=accept_whole if gated else None
        )
        self.budget.join(part)
        proven = finished and fit.exact
        if better is not None:
            # A search that did not finish may hold on to someone who is not needed.
            wanted = dict.fromkeys(better)
            best = self._fill_back(fit, sorted(order, key=lambda step: step in wanted), accept) or better
        if not best:
            why = "" if proven else "found no set of victims within the search steps that makes room and that the rules allow"
            return Found(proven=proven, why=why)
        second = self._runner_up(fit, order, best, weights, accept)
        for _ in range(0 if proven else IMPROVEMENTS):
            if not second or weight_of(second) > weight_of(best):
                break
            best, second = second, self._runner_up(fit, order, second, weights, accept) or best
        return Found(best, proven=proven, runner_up=second, bound=best if proven else self.bound)

    def _gate(self, *, with_moves: bool) -> Gate | None:
        """What the terms say of sets that grow; of those who may move on, only what does not depend on that."""
        if self.terms.together.on:
            return _AllTogether(self.terms, with_moves=with_moves)
        if self.terms.reclaim is None or with_moves:
            return None
        return _OneByOne(Losses(self.terms.reclaim, self.scene.usage))

    def _first(self, fit: Fit, order: list[Step], chains: list[Chain], accept: Test) -> list[Step]:
        """A set to begin with: what fill-back leaves, in the first of several orders in which that is allowed."""
        best = self._fill_back(fit, order, accept)
        if best or not self.terms.by_set:
            return best
        of_project: dict[str, dict[str, None]] = {}
        for chain in chains:
            of_project.setdefault(chain[0].job.project, {})[chain[0].job.id] = None
        tries = [sorted(order, key=lambda step: step.job.id not in first) for first in of_project.values()]
        size = {step: sum(entry.price.gpu_milli for entry in chain) for chain in chains for step in chain}
        tries.append(sorted(order, key=lambda step: -size[step]))
        return next((found for found in (self._fill_back(fit, each, accept) for each in tries) if found), [])

    def _fill_back(self, fit: Fit, order: Sequence[Step], accept: Test) -> list[Step]:
        """An irreducible set, where it is allowed, else nothing; all are evicted before and after."""
        victims = put_back_all(fit, order)
        allowed = not self.terms.by_set or accept(victims, self.budget)
        gone = dict.fromkeys(victims)
        for step in order:
            if step not in gone:
                fit.evict(step)
        return victims if allowed else []

    def _runner_up(
        self, fit: Fit, order: Sequence[Step], victims: Sequence[Step], weights: Mapping[Step, int], accept: Test
    ) -> list[Step]:
        """The lightest of the sets that fill-back finds when one of the heaviest victims, and what follows it, is spared."""
        best: list[Step] = []
        tries = RUNNER_UP_TRIES if isinstance(fit, SlotFit) else 1
        for spared in sorted(victims, key=lambda step: -weights[step])[:tries]:
            kept = [step for step in order if step.job is spared.job and _follows(step, spared)]
            others = self._without(fit, order, kept, accept)
            if others and (not best or sum(weights[step] for step in others) < sum(weights[step] for step in best)):
                best = others
        return best

    def _without(self, fit: Fit, order: Sequence[Step], kept: Sequence[Step], accept: Test) -> list[Step]:
        back = []
        for step in kept:
            if not fit.put_back(step):
                break
            back.append(step)
        found: list[Step] = []
        if len(back) == len(kept):
            staying = dict.fromkeys(kept)
            found = self._fill_back(fit, [step for step in order if step not in staying], accept)
        for step in back:
            fit.evict(step)
        return found

    def _acceptable(self, steps: Sequence[Step], budget: Budget, *, with_moves: bool) -> bool:
        """The rules' last word on a whole set; where its members may move on, looking for their places costs steps."""
        units = self._units(steps)
        if not with_moves:
            return self.terms.allows(units) and self.terms.objects(units) is None
        mark = self.rooms.mark()
        moved: dict[str, GangPlace] = {}
        place, moves = Budget(PLACEMENT_STEPS), Budget(MOVE_STEPS)
        if isinstance(place_unit(self.rooms, self.unit, place, promised=True), GangPlace):
            moved = find_new_places(self.rooms, steps, moves)
        self.rooms.rollback(mark)
        budget.charge(len(steps) + place.used + moves.used)
        taken = taken_for_good(units, moved)
        if not self.terms.allows(units, taken) or self.terms.objects(taken) is not None:
            return False
        whole = [unit for unit in leaving_of(steps) if unit.core and unit.job.id in moved]
        there = dict.fromkeys(unit.job.id for unit in whole)
        earlier = dict.fromkeys(step.before for step in steps)
        last = [step.unit for step in steps if step not in earlier and step.job.id not in there]
        # Nobody leaves so that somebody else may move.
        return not any(self._stands_beside(unit, budget) for unit in (*whole, *last))

    def _stands_beside(self, unit: Unit, budget: Budget) -> bool:
        """Whether the asker fits although this is put back."""
        mark = self.rooms.mark()
        self.rooms.put_back(unit)
        fits, place = not surely_not(self.rooms, self.unit), Budget(PLACEMENT_STEPS)
        if fits:
            fits = isinstance(place_unit(self.rooms, self.unit, place, promised=True), GangPlace)
        self.rooms.rollback(mark)
        budget.charge(place.used)
        return fits

    def _units(self, steps: Iterable[Step]) -> list[Unit]:
        return [step.unit for step in steps]


class _AllTogether:
    """Asks about the whole set each time."""

    def __init__(self, terms: Terms, *, with_moves: bool) -> None:
        self._terms, self._with_moves = terms, with_moves
        self._gone: list[Unit] = []

    def leave(self, step: Step) -> bool:
        self._gone.append(step.unit)
        return self._terms.allows(self._gone[::-1], [] if self._with_moves else None)

    def come_back(self) -> None:
        self._gone.pop()


class _OneByOne:
    """Counts what projects lose on, from one to the next."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses

    def leave(self, step: Step) -> bool:
        return self._losses.take(step.unit)

    def come_back(self) -> None:
        self._losses.give_back()


def _one_too_many(fit: Fit, steps: Sequence[Step]) -> bool:
    """Whether somebody could stay: nobody leaves only to make the loss of others look fair."""
    earlier = dict.fromkeys(step.before for step in steps)
    for step in steps:
        if step not in earlier and fit.put_back(step):
            fit.evict(step)
            return True
    return False


def _follows(step: Step | None, first: Step) -> bool:
    """Whether it is `first`, or leaves only after it."""
    while step is not None:
        if step is first:
            return True
        step = step.before
    return False
