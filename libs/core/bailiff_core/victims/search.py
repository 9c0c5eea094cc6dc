"""General solver for reclaim and preempt: a lower bound per task type, then branch and bound over all candidates."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from bailiff_core.model.units import Unit, reduced_to
from bailiff_core.placement.gang import GangPlacement, TaskPlacement, cannot_fit
from bailiff_core.placement.joint_placement import place_jointly
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.placement.task_requirements import requirements_of_unit
from bailiff_core.quota.reclaim import Losses

from .branch_and_bound import SetConstraint, Test, branch_and_bound, has_unneeded_victim, reprieve_all, reprieve_order
from .candidates import EvictionChain, EvictionStep
from .fit_oracle import FitOracle, PlacementOracle, SlotOracle, single_requirement
from .knapsack import Knapsack, knapsack_for
from .relocation import find_relocations, gains_nothing_by_moving, units_by_job, units_without_relocation
from .set_weights import SetWeights
from .trial import Problem, Solution, Trial

RUNNER_UP_TRIES = 2
IMPROVEMENTS = 5
PLACEMENT_STEPS = 10_000
RELOCATION_STEPS = 2_000
DEEPER = 8  # times as many steps for each search within the search, where these gave up
UNITS_PER_STEP = 8
Arrangement = tuple[GangPlacement, dict[str, GangPlacement]]  # of the preemptor, and of victims by job


class GeneralSolver:
    """Solves any unit under reclaim and preempt."""

    def solve(self, problem: Problem) -> Solution | None:
        """`Solver.solve`."""
        return None if problem.trial.action == "consolidate" else GeneralSearch(problem).run()


class GeneralSearch:
    """One general search. bound: the most expensive of the cheapest sets for each task type alone."""

    def __init__(self, problem: Problem) -> None:
        self.trial = problem.trial
        self.unit = problem.unit
        self.candidates = problem.candidates()
        self.fragmentation = problem.index.fragmentation
        self.budget = problem.budget
        self.knapsacks = problem.knapsacks
        self.needs = requirements_of_unit(problem.unit)
        self.bound: list[EvictionStep] = []
        self._depth = 1  # times as many steps for each search within this one
        self._certain = True  # no set was rejected that other new placements of its victims might permit
        self._arrangements: dict[object, Arrangement] = {}  # of accepted sets whose victims get places only together
        self._simple = single_requirement(problem.unit) if not self.trial.constrains_placement else None

    def run(self) -> Solution:
        """The cheapest set that makes the unit fit and that the constraints of the action permit."""
        relaxed = self._relaxed()
        if relaxed is not None:
            return relaxed
        while True:
            found = self._general()
            # Without a set or a proof the budget must be used: by giving more of it to the searches that gave up.
            if found.victims is not None or found.proven or self.budget.remaining <= 0:
                return found
            self._depth *= DEEPER

    # --- each task type on its own: a lower bound, and for equal tasks the solution

    def _relaxed(self) -> Solution | None:
        certain = True
        slots: Knapsack | None = None
        short = 0
        for need, indices in self.needs.items():
            cluster = self.trial.cluster
            slots, short = knapsack_for(self.knapsacks, cluster, need, self.candidates, self.fragmentation, len(indices))
            if short <= 0:
                continue
            part = self.budget.part(self.budget.remaining // 2)
            steps, sure = slots.cheapest(short, part)
            self.budget.join(part)
            if steps is None and sure:
                return Solution(self.candidates, proven=True)
            if steps is None:
                certain = False
            elif self.fragmentation.weight(steps) > self.fragmentation.weight(self.bound):
                self.bound = steps
        if not self.bound or self.trial.rejects(self._units(self.bound)):
            return None
        if self._simple is None and not self._fits_without(self.bound):
            return None
        if not certain:
            return None
        runner_up = self._knapsack_runner_up(slots, short) if self._simple is not None and slots is not None else []
        return Solution(self.candidates, self.bound, proven=True, runner_up=runner_up, bound=self.bound)

    def _knapsack_runner_up(self, slots: Knapsack, short: int) -> list[EvictionStep]:
        best: list[EvictionStep] = []
        heaviest = sorted(self.bound, key=lambda step: (-step.weight, step.age_key))[:RUNNER_UP_TRIES]
        for reprieved in heaviest:
            part = self.budget.part(self.budget.remaining // 4)
            other, _ = slots.cheapest(short, part, without=reprieved)
            self.budget.join(part)
            if other is None:
                continue
            if self.trial.rejects(self._units(other)):
                continue
            if not best or self.fragmentation.weight(other) < self.fragmentation.weight(best):
                best = other
        return best

    def _fits_without(self, steps: Sequence[EvictionStep]) -> bool:
        mark = self.trial.mark()
        for step in steps:
            self.trial.evict(step.unit)
        part = self.budget.part(PLACEMENT_STEPS)
        found = self.trial.place(part)
        self.budget.join(part)
        self.trial.rollback(mark)
        return isinstance(found, GangPlacement)

    # --- any unit, any constraints

    def _general(self) -> Solution:
        found = self._search_among(list(self.trial.allowed_alone(self.candidates).values()), with_relocations=False)
        if found.victims is None and self._may_move():
            relocating = self._search_among(list(self.candidates.chains.values()), with_relocations=True)
            if relocating.victims is not None:
                relocating.proven = relocating.proven and found.proven
                return relocating
            if found.proven and not relocating.proven:
                return relocating
        return found

    def _may_move(self) -> bool:
        """Whether victims that may not be taken may be moved."""
        return self.trial.reclaim is not None and not self.trial.has_limits and self.trial.moves.forbidden is None

    def _search_among(self, chains: list[EvictionChain], *, with_relocations: bool) -> Solution:
        mark = self.trial.mark()
        for chain in chains:
            for step in chain:
                self.trial.evict(step.unit)
        oracle = (
            SlotOracle(self.trial, *self._simple)
            if self._simple is not None
            else PlacementOracle(self.trial, self.budget, depth=self._depth)
        )
        found = self._best(oracle, chains, with_relocations=with_relocations)
        self.trial.rollback(mark)
        return found

    def _best(self, oracle: FitOracle, chains: list[EvictionChain], *, with_relocations: bool) -> Solution:
        if not oracle.fits():
            if oracle.exact:
                return Solution(self.candidates, proven=True)
            why = "found no placement of this gang within the step budget, with all permitted victims evicted"
            return Solution(self.candidates, why=why)
        useless = [step for chain in chains if not any(oracle.uses(step) for step in chain) for step in chain]
        chains = [chain for chain in chains if any(oracle.uses(step) for step in chain)]
        for step in useless:
            oracle.restore(step)
        all_steps = [step for chain in chains for step in chain]
        weights = SetWeights.of_steps(all_steps, self.fragmentation)
        order = reprieve_order(chains, weights.of_step)

        def accept(steps: list[EvictionStep], budget: StepBudget) -> bool:
            return self._acceptable(steps, budget, with_relocations=with_relocations)

        def accept_whole(steps: list[EvictionStep], budget: StepBudget) -> bool:
            return (with_relocations or not has_unneeded_victim(oracle, steps)) and accept(steps, budget)

        constrained = self.trial.constrains_set
        best = self._first(oracle, order, chains, accept)
        limit = weights.of(best) if best else None
        part = self.budget.part(self.budget.remaining * 3 // 4 if best else self.budget.remaining)
        self._certain = True
        better, finished = branch_and_bound(
            oracle,
            order,
            weights,
            limit,
            part,
            set_constraint=self._set_constraint(with_relocations=with_relocations),
            accept=accept_whole if constrained else None,
        )
        self.budget.join(part)
        proven = finished and oracle.exact and self._certain
        if better is not None:
            # The result of an incomplete search may contain a victim that is not needed.
            wanted = dict.fromkeys(better)
            best = self._reprieve_all(oracle, sorted(order, key=lambda step: step in wanted), accept) or better
        if not best:
            why = "" if proven else "found no permitted set of victims that makes it fit within the step budget"
            return Solution(self.candidates, proven=proven, why=why)
        runner_up = self._runner_up(oracle, order, best, weights, accept)
        for _ in range(0 if proven else IMPROVEMENTS):
            if not runner_up or weights.of(runner_up) > weights.of(best):
                break
            best, runner_up = runner_up, self._runner_up(oracle, order, runner_up, weights, accept) or best
        place, relocations = self._arrangements.get(_key(best), (None, {}))
        return Solution(
            self.candidates, best, proven=proven, runner_up=runner_up, bound=self.bound, place=place, relocations=relocations
        )

    def _set_constraint(self, *, with_relocations: bool) -> SetConstraint | None:
        """Incremental test of what the action permits; with relocations, only of those that do not depend on them."""
        if self.trial.set_tests.any:
            return _FullSetConstraint(self.trial, with_relocations=with_relocations)
        if self.trial.reclaim is None or with_relocations:
            return None
        return _LossConstraint(Losses(self.trial.reclaim, self.trial.snapshot.usage))

    def _first(
        self, oracle: FitOracle, order: list[EvictionStep], chains: list[EvictionChain], accept: Test
    ) -> list[EvictionStep]:
        """A first set: the steps still evicted after all reprieves, in the first of several orders whose set is permitted."""
        best = self._reprieve_all(oracle, order, accept)
        if best or not self.trial.constrains_set:
            return best
        of_project: dict[str, dict[str, None]] = {}
        for chain in chains:
            of_project.setdefault(chain[0].job.project, {})[chain[0].job.id] = None
        tries = [sorted(order, key=lambda step: step.job.id not in first) for first in of_project.values()]
        size = {step: sum(entry.cost.gpu_milli for entry in chain) for chain in chains for step in chain}
        tries.append(sorted(order, key=lambda step: -size[step]))
        return next((found for found in (self._reprieve_all(oracle, each, accept) for each in tries) if found), [])

    def _reprieve_all(self, oracle: FitOracle, order: Sequence[EvictionStep], accept: Test) -> list[EvictionStep]:
        """An irreducible set if it is permitted, else an empty one. All steps are evicted before and after."""
        victims = reprieve_all(oracle, order)
        allowed = accept(victims, self.budget)
        evicted = dict.fromkeys(victims)
        for step in order:
            if step not in evicted:
                oracle.evict(step)
        return victims if allowed else []

    def _runner_up(
        self, oracle: FitOracle, order: Sequence[EvictionStep], victims: Sequence[EvictionStep], weights: SetWeights, accept: Test
    ) -> list[EvictionStep]:
        """The lightest set found by reprieves if one of the heaviest victims, and the later steps of its job, are kept."""
        best: list[EvictionStep] = []
        tries = RUNNER_UP_TRIES if isinstance(oracle, SlotOracle) and not oracle.limited else 1
        for reprieved in sorted(victims, key=lambda step: -weights.of_step[step])[:tries]:
            kept_steps = [step for step in order if _follows(step, reprieved)]
            others = self._runner_up_without(oracle, order, kept_steps, accept)
            if others and (not best or weights.of(others) < weights.of(best)):
                best = others
        return best

    def _runner_up_without(
        self, oracle: FitOracle, order: Sequence[EvictionStep], kept_steps: Sequence[EvictionStep], accept: Test
    ) -> list[EvictionStep]:
        reprieved = []
        for step in kept_steps:
            if not oracle.reprieve(step):
                break
            reprieved.append(step)
        found: list[EvictionStep] = []
        if len(reprieved) == len(kept_steps):
            kept = dict.fromkeys(kept_steps)
            found = self._reprieve_all(oracle, [step for step in order if step not in kept], accept)
        for step in reprieved:
            oracle.evict(step)
        return found

    def _acceptable(self, steps: Sequence[EvictionStep], budget: StepBudget, *, with_relocations: bool) -> bool:
        """Final test of a complete set; with relocations, finding new placements costs steps."""
        units = self._units(steps)
        if not with_relocations:
            return self._permits(units, units)
        mark = self.trial.mark()
        moved: dict[str, GangPlacement] = {}
        place, moves = StepBudget(PLACEMENT_STEPS), StepBudget(RELOCATION_STEPS)
        if isinstance(self.trial.place(place), GangPlacement):
            moved = find_relocations(self.trial, steps, moves)
        self.trial.rollback(mark)
        budget.charge(len(steps) + place.used + moves.used)
        earlier = dict.fromkeys(step.before for step in steps)
        # No unit may be evicted only to make another one relocatable, be it of the same job.
        if any(self._fits_with_restored(step.unit, budget) for step in steps if step not in earlier):
            return False
        if self._permits(units, units_without_relocation(units, moved)):
            return True
        arrangement = self._arrangement(steps, budget) if self._certain else None
        if arrangement is None:
            return False
        self._arrangements[_key(steps)] = arrangement
        return True

    def _permits(self, units: Sequence[Unit], taken: Sequence[Unit]) -> bool:
        if not self.trial.allows(units, taken) or self.trial.imbalance(taken) is not None:
            return False
        return self.trial.move_violation(units, taken) is None

    def _arrangement(self, steps: Sequence[EvictionStep], budget: StepBudget) -> Arrangement | None:
        """Places of the preemptor and of so many victims that the rest may be taken: by all ways to choose those that move.

        They are not the places that one after the other would get. `None`: there are none, unless the search is not `_certain`.
        """
        units = self._units(steps)
        for moving in _choices_to_move(units_by_job(steps), units, self.trial.moves.most):
            if not budget.spend(1 + len(steps) // UNITS_PER_STEP):
                budget.charge(budget.remaining)
                self._certain = False
                return None
            indices = {(unit.job.id, index): None for unit in moving for index in unit.indices}
            taken = [unit for unit in units if not all((unit.job.id, index) in indices for index in unit.indices)]
            if not moving or not self._permits(units, taken):
                continue
            part = budget.part(RELOCATION_STEPS * self._depth)
            found = place_jointly(self.trial.cluster, [self.unit, *moving], part)
            budget.join(part)
            if not isinstance(found, str):
                return found[0], _by_job(moving, found[1:])
            self._certain = self._certain and found == "impossible"
        return None

    def _fits_with_restored(self, unit: Unit, budget: StepBudget) -> bool:
        """Whether the preemptor fits with this unit restored."""
        mark = self.trial.mark()
        self.trial.restore(unit)
        fits, place = not cannot_fit(self.trial.cluster, self.unit), StepBudget(PLACEMENT_STEPS)
        if fits:
            fits = isinstance(self.trial.place(place), GangPlacement)
        self.trial.rollback(mark)
        budget.charge(place.used)
        return fits

    def _units(self, steps: Iterable[EvictionStep]) -> list[Unit]:
        """Units of the steps; those of one job in eviction order."""
        return [step.unit for step in sorted(steps, key=lambda step: step.age_key)]


def _key(steps: Iterable[EvictionStep]) -> object:
    """Equal for the same steps in any order."""
    return tuple(sorted(step.age_key for step in steps))


def _choices_to_move(jobs: Sequence[Unit], units: Iterable[Unit], most: int) -> Iterator[list[Unit]]:
    """What of these jobs may move together: units of at most `most` of them. There may be very many choices."""
    own: dict[str, list[Unit]] = {}
    for unit in units:
        own.setdefault(unit.job.id, []).append(unit)
    chosen: list[tuple[Unit, ...]] = []
    levels = [_ways_to_move(jobs[0], own[jobs[0].job.id])]
    while levels:
        del chosen[len(levels) - 1 :]
        way = next(levels[-1], None)
        if way is None:
            levels.pop()
            continue
        chosen.append(way)
        if len(chosen) == len(jobs):
            yield [unit for of_job in chosen for unit in of_job]
        else:
            following, may_move = jobs[len(chosen)], sum(map(bool, chosen)) < most
            levels.append(_ways_to_move(following, own[following.job.id]) if may_move else iter(((),)))


def _ways_to_move(job: Unit, units: Sequence[Unit]) -> Iterator[tuple[Unit, ...]]:
    """What of one job may move: of surplus any part; of a whole job all of it, or all but the first units in eviction order."""
    yield ()
    if gains_nothing_by_moving(job):
        return
    if not job.core:
        for count in range(1, len(units) + 1):
            yield from combinations(units, count)
        return
    for first in range(len(units)):
        indices = tuple(sorted(index for each in units[first:] for index in each.indices))
        yield (Unit(reduced_to(job.job, indices) if first else job.job, indices, core=True),)


def _by_job(units: Sequence[Unit], places: Sequence[GangPlacement]) -> dict[str, GangPlacement]:
    tasks: dict[str, list[TaskPlacement]] = {}
    for unit, place in zip(units, places, strict=True):
        tasks.setdefault(unit.job.id, []).extend(place.tasks)
    return {name: GangPlacement(tuple(sorted(own, key=lambda task: task.index)), future=True) for name, own in tasks.items()}


class _FullSetConstraint:
    """Tests the whole set on each change."""

    def __init__(self, trial: Trial, *, with_relocations: bool) -> None:
        self._trial, self._with_relocations = trial, with_relocations
        self._evicted: list[Unit] = []

    def push(self, step: EvictionStep) -> bool:
        self._evicted.append(step.unit)
        return self._trial.allows(self._evicted[::-1], [] if self._with_relocations else None)

    def pop(self) -> None:
        self._evicted.pop()


class _LossConstraint:
    """Tracks the losses of projects incrementally."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses

    def push(self, step: EvictionStep) -> bool:
        return self._losses.take(step.unit)

    def pop(self) -> None:
        self._losses.undo()


def _follows(step: EvictionStep | None, first: EvictionStep) -> bool:
    """Whether it is `first` or a later step of the same job."""
    while step is not None:
        if step is first:
            return True
        step = step.before
    return False
