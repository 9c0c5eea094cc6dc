"""Solver for consolidate: relocates jobs, or their surplus tasks, so that a unit fits; every relocated task has a new placement.

Whether a set of relocated jobs and the preemptor fit together is one packing problem, and a superset of a set that fits also
fits. So sets are tried in order of cost without fragmentation, until no further set can cost less than the best that fits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from bailiff_core.humanize import count_text
from bailiff_core.model.units import Unit
from bailiff_core.placement.cluster_resources import ClusterResources, NodeResources, slots_for
from bailiff_core.placement.gang import GangPlacement, NoFit
from bailiff_core.placement.joint_placement import place_jointly
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.placement.task_requirements import requirements_of_unit
from bailiff_core.quota.maintenance import on_open_nodes

from .candidates import Candidates, EvictionChain, EvictionStep
from .infeasibility import no_relocation
from .knapsack import knapsack_for
from .relocation import relocate, units_by_job
from .set_weights import SetWeights
from .trial import Problem, Solution

JOINT_STEPS = 300
JOINT_PLACEMENT_STEPS = 5_000
MAX_OPTIONS = 200
DEEPER = 8  # times as many steps for each joint placement, where some gave up


class ConsolidationSolver:
    """Solves any unit under consolidate: every victim is relocated."""

    def solve(self, problem: Problem) -> Solution | None:
        """`Solver.solve`."""
        return _consolidate(problem) if problem.trial.action == "consolidate" else None


def _consolidate(problem: Problem) -> Solution:
    """The cheapest set of jobs to relocate, with all new placements."""
    candidates, budget = problem.candidates(), problem.budget
    max_jobs = problem.trial.snapshot.state.rules.preemption.max_migrations
    chains = list(candidates.chains.values())
    max_jobs = len(chains) if max_jobs is None else min(max_jobs, len(chains))
    missing = FreeTotals.of(problem.trial.cluster).missing(problem.unit)
    if missing is not None:
        return Solution(candidates, proven=True, why=missing)
    infeasible = Solution(
        candidates,
        proven=True,
        why=f"relocating {count_text(max_jobs, 'job')} does not make it fit" if chains else no_relocation(candidates),
    )
    promising, certain = _promising_sets(problem, candidates, max_jobs)
    if promising is None:
        return infeasible
    search = _RelocationSearch(problem)
    for at, chosen in enumerate(promising):
        found = search.places(chosen)
        if found is not None:
            # Only the first set is known to be the cheapest.
            best = Solution(candidates, chosen, proven=certain and not at, place=found[0], relocations=found[1])
            return best if best.proven else _cheaper(problem, search, candidates, max_jobs, best) or best
    while True:
        search.certain = True
        solution = _cheaper(problem, search, candidates, max_jobs)
        if solution is not None:
            return solution
        if search.certain:
            return infeasible
        if budget.remaining <= 0:
            return Solution(candidates, why="found no jobs to relocate within the step budget")
        search.depth *= DEEPER


def _cheaper(
    problem: Problem, search: "_RelocationSearch", candidates: Candidates, max_jobs: int, best: Solution | None = None
) -> Solution | None:
    """The cheapest set that can be relocated, of those that cost less than the best one so far; else that one, if any."""
    weights = SetWeights.of_steps(candidates.steps(), problem.index.fragmentation)
    chains = sorted(candidates.chains.values(), key=lambda chain: (weights.of_step[chain[0]], chain[0].age_key))
    limit = None if best is None or best.victims is None else weights.of(best.victims)
    for weight, chosen in _by_cost(chains, weights.of_step, max_jobs):
        # Sets come by ascending weight; fragmentation, which only adds to it, is tested below.
        if limit is not None and weight >= limit:
            break
        if not problem.budget.spend():
            search.certain = False
            return best
        if limit is not None and weights.of(chosen) >= limit:
            continue
        found = search.places(chosen)
        if found is not None:
            best, limit = Solution(candidates, chosen, place=found[0], relocations=found[1]), weights.of(chosen)
    if best is not None:
        best.proven = search.certain
    return best


def _promising_sets(problem: Problem, candidates: Candidates, max_jobs: int) -> tuple[list[list[EvictionStep]] | None, bool]:
    """Sets after whose eviction the preemptor would fit, regardless of relocations, cheapest first.

    Also returns whether the first one is certainly the cheapest. `None`: there is certainly no such set.
    """
    budget = problem.budget
    sets: list[list[EvictionStep]] = []
    cheapest: list[EvictionStep] = []
    certain = True
    for need, indices in requirements_of_unit(problem.unit).items():
        fragmentation = problem.index.fragmentation
        knapsack, short = knapsack_for(problem.knapsacks, problem.trial.cluster, need, candidates, fragmentation, len(indices))
        if short <= 0:
            continue
        part = budget.part(budget.remaining // 2)
        steps, sure = knapsack.cheapest(short, part)
        budget.join(part)
        if steps is None:
            if sure:
                return None, True
            certain = False
            continue
        if fragmentation.weight(steps) > fragmentation.weight(cheapest):
            cheapest = steps
        options = [option for each in knapsack.parts for option in knapsack.options(each, budget) or () if option.gain >= short]
        options.sort(key=lambda option: option.key)
        sets += [list(option.steps) for option in options[:MAX_OPTIONS]]
    found = [chosen for chosen in ([cheapest] if cheapest else []) + sets if len({step.job.id for step in chosen}) <= max_jobs]
    return found, certain and bool(found) and found[0] is cheapest


@dataclass(frozen=True, slots=True)
class FreeTotals:
    """Free and releasing resources in total: relocation frees nothing in sum, so they must suffice for the preemptor."""

    gpus: int
    cpu_milli: int
    memory_bytes: int
    shared: bool

    @classmethod
    def of(cls, cluster: ClusterResources) -> "FreeTotals":
        """Totals over all nodes."""
        futures = [node.future for node in cluster.nodes.values()]
        return cls(
            sum(node_free.devices.bit_count() for node_free in futures),
            sum(max(0, node_free.cpu_milli) for node_free in futures),
            sum(max(0, node_free.memory_bytes) for node_free in futures),
            any(node_free.shares for node_free in futures),
        )

    def missing(self, unit: Unit) -> str | None:
        """The reason why the totals do not suffice, or `None`."""
        requirements = requirements_of_unit(unit)
        gpus = sum(need.gpus * len(indices) for need, indices in requirements.items())
        if self.gpus < gpus and not self.shared:
            return f"needs {gpus} GPUs in total, {self.gpus} are free or releasing: relocating jobs does not change that"
        if self.cpu_milli < sum(need.cpu_milli * len(indices) for need, indices in requirements.items()):
            return "not enough CPU is free in total: relocating jobs does not change that"
        if self.memory_bytes < sum(need.memory_bytes * len(indices) for need, indices in requirements.items()):
            return "not enough memory is free in total: relocating jobs does not change that"
        return None


def _by_cost(
    chains: Sequence[EvictionChain], weights: Mapping[EvictionStep, int], max_jobs: int
) -> Iterator[tuple[int, list[EvictionStep]]]:
    """Sets of steps of at most `max_jobs` jobs with the sums of their weights, lightest first.

    `chains` are sorted by their first weight.
    """
    if not chains or max_jobs < 1:
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
            if len(chosen) < max_jobs:
                heappush(heap, (weight + after, (*chosen, (last + 1, 1))))


class _RelocationSearch:
    """Tests whether there are placements for the preemptor and all relocated jobs.

    Attributes:
        certain: Every negative result was proven.
        depth: Times as many steps for each joint placement.
    """

    def __init__(self, problem: Problem) -> None:
        self.trial = problem.trial
        self.cluster = problem.trial.cluster
        self.unit = problem.unit
        self.budget = problem.budget
        self.certain, self.depth = True, 1
        self.needs = requirements_of_unit(problem.unit)
        self.eligible_nodes = {need: dict(self.cluster.eligible_nodes(need)) for need in self.needs}
        self.slots = {
            need: {node: slots_for(need, node, node.future, mask) for node, mask in eligible.items()}
            for need, eligible in self.eligible_nodes.items()
        }
        self.total = {need: sum(slots.values()) for need, slots in self.slots.items()}

    def places(self, chosen: Sequence[EvictionStep]) -> tuple[GangPlacement, dict[str, GangPlacement]] | None:
        """Placements of the preemptor and of each of `chosen` after their eviction; `None` if there are none or not permitted."""
        if self.trial.violation([step.unit for step in chosen]) is not None:
            return None
        mark = self.trial.mark()
        found = self._places(chosen)
        self.trial.rollback(mark)
        return found

    def _places(self, chosen: Sequence[EvictionStep]) -> tuple[GangPlacement, dict[str, GangPlacement]] | None:
        changed_nodes: dict[NodeResources, None] = {}
        for step in chosen:
            self.trial.free(step.unit)
            changed_nodes.update((node, None) for node, _ in self.cluster.allocation_of(step.unit))
        for need, indices in self.needs.items():
            slots, eligible = self.slots[need], self.eligible_nodes[need]
            gain = sum(
                slots_for(need, node, node.future, eligible[node]) - slots[node] for node in changed_nodes if node in slots
            )
            if self.total[need] + gain < len(indices):
                return None
        evicted = self.trial.mark()
        place = self.trial.place(StepBudget(JOINT_STEPS))
        if isinstance(place, NoFit) and place.kind == "impossible":
            return None
        if isinstance(place, GangPlacement):
            moved = self._one_by_one(chosen)
            if moved is not None:
                return place, moved
        self.trial.rollback(evicted)
        return self._jointly(chosen)

    def _one_by_one(self, chosen: Sequence[EvictionStep]) -> dict[str, GangPlacement] | None:
        value: dict[str, int] = {}
        for step in chosen:
            value[step.job.id] = value.get(step.job.id, 0) + step.weight
        moved: dict[str, GangPlacement] = {}
        for unit in sorted(units_by_job(chosen), key=lambda unit: (-value[unit.job.id], -unit.job.seq, unit.job.id)):
            place = relocate(self.trial, unit, StepBudget(JOINT_STEPS))
            if place is None:
                return None
            moved[unit.job.id] = place
        return moved

    def _jointly(self, chosen: Sequence[EvictionStep]) -> tuple[GangPlacement, dict[str, GangPlacement]] | None:
        """Placements of all of them by one joint search, which is exact."""
        units, state = units_by_job(chosen), self.trial.snapshot.state
        most = JOINT_PLACEMENT_STEPS * self.depth
        part = self.budget.part(min(most, self.budget.remaining // 4) if self.depth == 1 else most)
        found = place_jointly(self.cluster, [self.unit, *(on_open_nodes(state, unit) for unit in units)], part)
        self.budget.join(part)
        if isinstance(found, str):
            self.certain = self.certain and found == "impossible"
            return None
        if self.trial.constrains_placement and self.trial.over_limit_now(found[0]) is not None:
            self.certain = False  # another arrangement may satisfy the limits
            return None
        return found[0], {unit.job.id: place for unit, place in zip(units, found[1:], strict=True)}
