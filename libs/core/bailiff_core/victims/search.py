"""General solver for reclaim and preempt: a lower bound per task type, then branch and bound over all candidates."""

from collections.abc import Iterable, Sequence

from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement, place_unit
from bailiff_core.placement.joint_placement import place_jointly
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.placement.task_requirements import requirements_of_unit
from bailiff_core.quota.reclaim import Losses

from .branch_and_bound import SetConstraint, Test, branch_and_bound, reprieve_all, reprieve_order
from .candidates import EvictionChain, EvictionStep
from .constraints import Constraints
from .fit_oracle import FitOracle, PlacementOracle, QuotaOracle, SlotOracle, cannot_fit, single_requirement
from .knapsack import Knapsack, knapsack_for
from .relocation import find_relocations, units_by_job, units_without_relocation
from .set_weights import SetWeights
from .solver_interface import Problem, Solution

RUNNER_UP_TRIES = 2
IMPROVEMENTS = 5
PLACEMENT_STEPS = 10_000
RELOCATION_STEPS = 2_000


class GeneralSolver:
    """Solves any unit under reclaim and preempt."""

    def solve(self, problem: Problem) -> Solution | None:
        """`Solver.solve`."""
        return None if problem.action == "consolidate" else GeneralSearch(problem).run()


class GeneralSearch:
    """One general search. bound: the most expensive of the cheapest sets for each task type alone."""

    def __init__(self, problem: Problem) -> None:
        self.snapshot = problem.snapshot
        self.cluster = problem.snapshot.cluster
        self.unit = problem.unit
        self.candidates = problem.candidates()
        self.fragmentation = problem.index.fragmentation
        self.constraints = problem.constraints
        self.budget = problem.budget
        self.knapsacks = problem.knapsacks
        self.needs = requirements_of_unit(problem.unit)
        self.bound: list[EvictionStep] = []
        self._certain = True  # no set was rejected that other new placements of its victims might permit
        self._simple = single_requirement(problem.unit) if not self.constraints.constrains_placement else None

    def run(self) -> Solution:
        """The cheapest set that makes the unit fit and that the constraints of the action permit."""
        relaxed = self._relaxed()
        if relaxed is not None:
            return relaxed
        return self._general()

    # --- each task type on its own: a lower bound, and for equal tasks the solution

    def _relaxed(self) -> Solution | None:
        certain = True
        slots: Knapsack | None = None
        short = 0
        for need, indices in self.needs.items():
            slots, short = knapsack_for(self.knapsacks, self.cluster, need, self.candidates, self.fragmentation, len(indices))
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
        if not self.bound or self.constraints.rejects(self._units(self.bound)):
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
            if self.constraints.rejects(self._units(other)):
                continue
            if not best or self.fragmentation.weight(other) < self.fragmentation.weight(best):
                best = other
        return best

    def _fits_without(self, steps: Sequence[EvictionStep]) -> bool:
        mark = self.snapshot.mark()
        for step in steps:
            self.snapshot.evict(step.unit)
        part = self.budget.part(PLACEMENT_STEPS)
        found = self.constraints.place(part)
        self.budget.join(part)
        self.snapshot.rollback(mark)
        return isinstance(found, GangPlacement)

    # --- any unit, any constraints

    def _general(self) -> Solution:
        found = self._search_among(self._permitted(), with_relocations=False)
        if found.victims is None and self.constraints.reclaim is not None and not self.constraints.has_limits:
            relocating = self._search_among(list(self.candidates.chains.values()), with_relocations=True)
            if relocating.victims is not None:
                relocating.proven = relocating.proven and found.proven
                return relocating
            if found.proven and not relocating.proven:
                return relocating
        return found

    def _permitted(self) -> list[EvictionChain]:
        """For each job the steps that are permitted if no other job is evicted."""
        chains = []
        for chain in self.candidates.chains.values():
            allowed: list[EvictionStep] = []
            for step in chain:
                if not self.constraints.allows(self._units([*allowed, step])):
                    break
                allowed.append(step)
            if allowed:
                chains.append(allowed)
        return chains

    def _search_among(self, chains: list[EvictionChain], *, with_relocations: bool) -> Solution:
        mark = self.snapshot.mark()
        all_steps = [step for chain in chains for step in chain]
        for step in all_steps:
            if self.constraints.has_limits:
                self.snapshot.evict(step.unit)
            else:
                self.cluster.evict(step.unit)
        inner_oracle: SlotOracle | PlacementOracle
        if self._simple is not None:
            inner_oracle = SlotOracle(self.cluster, *self._simple)
        else:
            inner_oracle = PlacementOracle(
                self.cluster, self.unit, self.budget, self.constraints if self.constraints.constrains_placement else None
            )
        found = self._best(
            QuotaOracle(inner_oracle, self.constraints) if self.constraints.has_limits else inner_oracle,
            chains,
            with_relocations=with_relocations,
        )
        self.snapshot.rollback(mark)
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
            return (with_relocations or not _has_unneeded_victim(oracle, steps)) and accept(steps, budget)

        constrained = self.constraints.constrains_set
        best = self._first(oracle, order, chains, accept)
        limit = weights.of(best) if best else None
        part = self.budget.part(self.budget.remaining * 3 // 4)
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
        return Solution(self.candidates, best, proven=proven, runner_up=runner_up, bound=self.bound)

    def _set_constraint(self, *, with_relocations: bool) -> SetConstraint | None:
        """Incremental test of the constraints; with relocations, only of those that do not depend on them."""
        if self.constraints.set_tests.any:
            return _FullSetConstraint(self.constraints, with_relocations=with_relocations)
        if self.constraints.reclaim is None or with_relocations:
            return None
        return _LossConstraint(Losses(self.constraints.reclaim, self.snapshot.usage))

    def _first(
        self, oracle: FitOracle, order: list[EvictionStep], chains: list[EvictionChain], accept: Test
    ) -> list[EvictionStep]:
        """A first set: the steps still evicted after all reprieves, in the first of several orders whose set is permitted."""
        best = self._reprieve_all(oracle, order, accept)
        if best or not self.constraints.constrains_set:
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
        self,
        oracle: FitOracle,
        order: Sequence[EvictionStep],
        victims: Sequence[EvictionStep],
        weights: SetWeights,
        accept: Test,
    ) -> list[EvictionStep]:
        """The lightest set found by reprieves if one of the heaviest victims, and the later steps of its job, are kept."""
        best: list[EvictionStep] = []
        tries = RUNNER_UP_TRIES if isinstance(oracle, SlotOracle) else 1
        for reprieved in sorted(victims, key=lambda step: -weights.of_step[step])[:tries]:
            kept_steps = [step for step in order if step.job is reprieved.job and _follows(step, reprieved)]
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
            return self.constraints.allows(units) and self.constraints.imbalance(units) is None
        mark = self.cluster.mark()
        moved: dict[str, GangPlacement] = {}
        place, moves = StepBudget(PLACEMENT_STEPS), StepBudget(RELOCATION_STEPS)
        if isinstance(place_unit(self.cluster, self.unit, place, reserve=True), GangPlacement):
            moved = find_relocations(self.cluster, steps, moves)
        self.cluster.rollback(mark)
        budget.charge(len(steps) + place.used + moves.used)
        taken = units_without_relocation(units, moved)
        if not self.constraints.allows(units, taken) or self.constraints.imbalance(taken) is not None:
            self._certain = self._certain and self._never_acceptable(steps, budget)
            return False
        earlier = dict.fromkeys(step.before for step in steps)
        # No unit may be evicted only to make another one relocatable, be it of the same job.
        return not any(self._fits_with_restored(step.unit, budget) for step in steps if step not in earlier)

    def _never_acceptable(self, steps: Sequence[EvictionStep], budget: StepBudget) -> bool:
        """Whether the constraints forbid the evicted set even if every victim is relocated that fits beside the preemptor alone.

        New placements are sought one after the other, beside one placement of the preemptor: others may relocate more.
        """
        units = self._units(steps)
        movable: dict[tuple[str, int], None] = {}
        merged = units_by_job(steps)
        whole = dict.fromkeys(unit.job.id for unit in merged if unit.core)
        for unit in (*(each for each in merged if each.core), *(each for each in units if each.job.id not in whole)):
            part = budget.part(min(RELOCATION_STEPS, budget.remaining // 4))
            found = place_jointly(self.cluster, [self.unit, unit], part)
            budget.join(part)
            if found != "impossible":
                movable.update(((unit.job.id, index), None) for index in unit.indices)
        taken = [unit for unit in units if not all((unit.job.id, index) in movable for index in unit.indices)]
        return not movable or not self.constraints.allows(units, taken)

    def _fits_with_restored(self, unit: Unit, budget: StepBudget) -> bool:
        """Whether the preemptor fits with this unit restored."""
        mark = self.cluster.mark()
        self.cluster.restore(unit)
        fits, place = not cannot_fit(self.cluster, self.unit), StepBudget(PLACEMENT_STEPS)
        if fits:
            fits = isinstance(place_unit(self.cluster, self.unit, place, reserve=True), GangPlacement)
        self.cluster.rollback(mark)
        budget.charge(place.used)
        return fits

    def _units(self, steps: Iterable[EvictionStep]) -> list[Unit]:
        """Units of the steps; those of one job in eviction order."""
        return [step.unit for step in sorted(steps, key=lambda step: step.age_key)]


class _FullSetConstraint:
    """Tests the whole set on each change."""

    def __init__(self, constraints: Constraints, *, with_relocations: bool) -> None:
        self._constraints, self._with_relocations = constraints, with_relocations
        self._evicted: list[Unit] = []

    def push(self, step: EvictionStep) -> bool:
        self._evicted.append(step.unit)
        return self._constraints.allows(self._evicted[::-1], [] if self._with_relocations else None)

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


def _has_unneeded_victim(oracle: FitOracle, steps: Sequence[EvictionStep]) -> bool:
    """Whether some victim could be reprieved: none may be evicted only to balance the losses of projects."""
    earlier = dict.fromkeys(step.before for step in steps)
    for step in steps:
        if step not in earlier and oracle.reprieve(step):
            oracle.evict(step)
            return True
    return False


def _follows(step: EvictionStep | None, first: EvictionStep) -> bool:
    """Whether it is `first` or a later step of the same job."""
    while step is not None:
        if step is first:
            return True
        step = step.before
    return False
