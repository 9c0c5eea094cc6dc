"""Solver for gangs of several task types on large pools: each type is solved by the shortlist, the most expensive first.

The cheapest set for one type alone is a lower bound. If the gang fits after evicting that set, it is optimal and proven;
otherwise the other types are solved on its result, and every victim that can be reprieved is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bailiff_core.model.units import Unit
from bailiff_core.placement.cluster_resources import ClusterResources, slots_for
from bailiff_core.placement.gang import GangPlacement, place_unit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.placement.task_requirements import TaskRequirements, requirements_of_unit
from bailiff_core.placement.topology_parts import has_topology_constraints

from .branch_and_bound import reprieve_all, reprieve_order
from .candidates import CandidateIndex, Candidates, EvictionChain, EvictionStep
from .fit_oracle import PlacementOracle
from .shortlist import MIN_ACTIVE_JOBS, search_shortlist
from .trial import Problem, Solution, Trial

PLACEMENT_STEPS = 10_000


@dataclass(slots=True)
class _TaskType:
    """The tasks with equal requirements, and the victims for these tasks alone: none if they fit."""

    unit: Unit
    victims: list[EvictionStep]
    candidates: Candidates | None = None


class HeterogeneousGangSolver:
    """Solves gangs of several task types without topology constraints on large pools."""

    def solve(self, problem: Problem) -> Solution | None:
        """`Solver.solve`."""
        trial, unit = problem.trial, problem.unit
        if trial.action == "consolidate":
            return None
        parts = [Unit(unit.job, tuple(indices), unit.core) for indices in requirements_of_unit(unit).values()]
        if len(trial.snapshot.state.active) < MIN_ACTIVE_JOBS or len(parts) < 2 or has_topology_constraints(unit.job.demand):
            return None
        infeasible = _infeasible_in_total(problem)
        if infeasible is not None:
            return infeasible
        types: list[_TaskType] = []
        for part in parts:
            if not _lacks_resources(trial.cluster, part):
                types.append(_TaskType(part, []))
                continue
            found = search_shortlist(replace(problem, unit=part))
            if found is None or found.victims is None:
                return found
            types.append(_TaskType(part, found.victims, found.candidates))
        types.sort(key=lambda each: -problem.index.fragmentation.weight(each.victims))
        first = types[0]
        if first.candidates is None:
            return None
        mark = trial.mark()
        victims, place = _solve_in_turn(problem, types)
        trial.rollback(mark)
        if place is None or trial.rejects([step.unit for step in victims]):
            return None
        proven = victims is first.victims
        return Solution(first.candidates, victims, proven=proven, bound=first.victims, place=place)


def _infeasible_in_total(problem: Problem) -> Solution | None:
    """A proof by counting that the task types do not all fit even if every permitted victim is evicted.

    Counted in tasks of one type: a task of another type that fits only on nodes where this type fits counts as the quotient of
    the GPUs of both, rounded down.
    """
    from .price_bounds import Shortlist  # as in `search_shortlist`

    snapshot, unit, action = problem.trial.snapshot, problem.unit, problem.trial.action
    groups = problem.index.groups(action, unit.job)
    counts = {need: len(indices) for need, indices in requirements_of_unit(unit).items()}
    for need in counts:
        if not need.gpus:
            continue
        wanted = sum(count * (other.gpus // need.gpus) for other, count in counts.items() if _fits_only_where(other, need))
        if wanted == counts[need]:
            continue
        most_slots = Shortlist.of(snapshot, need, groups).most_slots()
        if wanted > most_slots:
            tasks = " and ".join(f"{count} × ({other})" for other, count in counts.items())
            why = f"needs {tasks}, equivalent to {wanted} × ({need}); with all permitted victims evicted at most {most_slots} fit"
            no_candidates = problem.index.candidates_among(action, unit.job, (), groups, problem.under_share)
            return Solution(no_candidates, proven=True, why=why)
    return None


def _fits_only_where(one: TaskRequirements, other: TaskRequirements) -> bool:
    """Whether every node and device that is eligible for `one` is eligible for `other` as well."""
    models = not other.models or (bool(one.models) and all(model in other.models for model in one.models))
    nodes = not other.nodes or (bool(one.nodes) and all(name in other.nodes for name in one.nodes))
    selected = all(label in one.labels for label in other.labels) and all(name in one.excluded for name in other.excluded)
    return models and nodes and one.profile == other.profile and selected


def _lacks_resources(cluster: ClusterResources, part: Unit) -> bool:
    """Whether these tasks do not fit on their own."""
    for need, indices in requirements_of_unit(part).items():
        wanted = len(indices)
        for node, devices in cluster.eligible_nodes(need):
            wanted -= slots_for(need, node, node.future, devices)
            if wanted <= 0:
                return False
    return True


def _solve_in_turn(problem: Problem, types: Sequence[_TaskType]) -> tuple[list[EvictionStep], GangPlacement | None]:
    """An irreducible set of victims and the unit's placement. The trial is left changed."""
    trial, budget = problem.trial, problem.budget
    index = CandidateIndex(trial.snapshot)
    chains: dict[str, EvictionChain] = {}

    def evict(victims: list[EvictionStep]) -> None:
        for step in victims:
            chain = chains.setdefault(step.job.id, [])
            step.before = chain[-1] if chain else None
            chain.append(step)
            trial.free(step.unit)
            index.mark_evicted(step.job, 1)

    first = types[0].victims
    evict(first)
    evicted = trial.mark()
    place = _place(trial, problem.unit, budget)
    if place is not None:
        return first, place
    further_victims: list[EvictionStep] = []
    for each in types:
        if _place(trial, each.unit, budget) is not None:
            continue
        found = search_shortlist(replace(problem, unit=each.unit, index=index))
        if found is None or found.victims is None:
            return [], None
        evict(found.victims)
        further_victims += found.victims
        if _place(trial, each.unit, budget) is None:
            return [], None
    trial.rollback(evicted)
    for step in further_victims:
        trial.free(step.unit)
    all_steps = [step for chain in chains.values() for step in chain]
    oracle = PlacementOracle(trial, budget, limits=False)
    needed = reprieve_all(oracle, reprieve_order(list(chains.values()), {step: step.weight for step in all_steps}))
    return needed, oracle.place


def _place(trial: Trial, unit: Unit, budget: StepBudget) -> GangPlacement | None:
    part = budget.part(PLACEMENT_STEPS)
    found = place_unit(trial.cluster, unit, part, reserve=True)
    budget.join(part)
    return found if isinstance(found, GangPlacement) else None
