"""Solver for equal tasks on large pools: a shortlist of nodes is searched exactly, and all others are proven more expensive.

The nodes with the lowest bounds are searched exactly. The result is optimal if, for
every number of slots, as many of these nodes as slots are needed cost no more than the bound of any other node: a set that
used another node could use one of these instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bailiff_core.model.units import whole_job

from .candidates import CandidateGroups, Candidates, EvictionStep
from .consolidation import FreeTotals
from .fit_oracle import single_requirement
from .infeasibility import nearest_solution_on
from .knapsack import Knapsack
from .permitted_sets import Limit, PermittedSets, least_with
from .trial import Solution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bailiff_core.placement.allocation_index import AllocationIndex
    from bailiff_core.placement.step_budget import StepBudget

    from .objective import CostScale
    from .price_bounds import EligibleNodes, LowestPrice, PriceBounds, Shortlist
    from .slot_combinations import Option
    from .trial import Problem, Trial

MIN_ACTIVE_JOBS = 200  # with fewer active jobs, all of them are candidates of an exact search
INITIAL_SIZE = 8
MOST_GAINS = 16


class ShortlistSolver:
    """Solves units with equal tasks on large pools, for reclaim and preempt."""

    def solve(self, problem: Problem) -> Solution | None:
        """`Solver.solve`."""
        return None if problem.trial.action == "consolidate" else search_shortlist(problem)


def search_shortlist(problem: Problem) -> Solution | None:
    """The cheapest set, or a proof that there is none; `None` if all candidates have to be considered."""
    trial, unit, budget = problem.trial, problem.unit, problem.budget
    snapshot, action = trial.snapshot, trial.action
    simple = single_requirement(unit)
    if len(snapshot.state.active) < MIN_ACTIVE_JOBS or simple is None or not simple[0].gpus:
        return None
    from .price_bounds import Shortlist  # numpy is loaded by the first search of a large pool

    groups = problem.index.groups(action, unit.job)
    need, wanted = simple
    shortlist = Shortlist.of(snapshot, need, groups)
    max_slots = shortlist.most_slots()
    if max_slots < wanted:
        return _impossible(problem, shortlist, groups, wanted, max_slots)
    if not problem.index.prefers_shortlist(action, unit.job, problem.under_share):
        return None
    if trial.reclaim is not None:
        members, jobs = snapshot.equivalence_classes.groups, snapshot.state.jobs
        shortlist.classes = [group for group in shortlist.classes if trial.reclaim.may_take(jobs[members[group][0][1]])]
    short = wanted - int(shortlist.slots.sum())
    if short > 0 and not shortlist.classes and (why := _only_moves(problem, groups)):
        nobody = problem.index.candidates_among(action, unit.job, (), groups, problem.under_share)
        return Solution(nobody, proven=True, why=why)
    if short <= 0 and not trial.limited:
        return None
    short = max(0, short)
    gains = shortlist.most_gains(short)
    if gains > MOST_GAINS:
        return None
    bounds = shortlist.price_bounds(gains, snapshot.state.now, snapshot.state.rules.preemption)
    if bounds is None:
        return None
    growing = _GrowingList(problem, shortlist, groups, bounds, short, INITIAL_SIZE + short)
    victims: list[EvictionStep] | None = None
    while short:
        chosen, candidates, knapsack = growing.search()
        # Half of what is left, so that a search over all candidates can follow.
        part = budget.part(budget.remaining // 2)
        victims, certain = knapsack.cheapest(short, part)
        budget.join(part)
        if not certain:
            return None
        if victims is not None and _is_proven(shortlist, chosen, knapsack, bounds, short, problem.index.scale, budget):
            break
        # A node outside the list might be cheaper: the list grows.
        if growing.is_complete():
            # No other node gains anything. Under reclaim, jobs that may not be taken might still be moved.
            return None if trial.reclaim is not None else _impossible(problem, shortlist, groups, wanted, wanted - 1)
        growing.size *= 2
    if victims is None or trial.rejects([step.unit for step in victims]):
        return _permitted(growing)
    runner_up = _runner_up(knapsack, victims, short, trial, budget)
    return Solution(candidates, victims, proven=True, runner_up=runner_up, bound=victims)


@dataclass(slots=True)
class _GrowingList:
    """The `size` nodes with the lowest bounds for each of 1, 2, … additional slots, of which `short` are wanted."""

    problem: Problem
    shortlist: Shortlist
    groups: CandidateGroups
    bounds: list[PriceBounds]
    short: int
    size: int
    limit: Limit | None = None

    def search(self) -> tuple[EligibleNodes, Candidates, Knapsack]:
        """The nodes, the candidates on them, and the search among those that are allowed alone."""
        problem, shortlist, trial, index = self.problem, self.shortlist, self.problem.trial, self.problem.index
        within = () if self.limit is None else [chain[0].job.id for chain in self.limit.chains]
        chosen = shortlist.first(self.size, self.bounds, within)
        on = trial.snapshot.allocation_index.on
        single = self.short == 1 and self.limit is None
        if not single:
            _add_connected(trial.snapshot.allocation_index, shortlist, chosen)
        names = [name for node in chosen for name in on.get(node.number, ())]
        candidates = index.candidates_among(trial.action, problem.unit.job, names, self.groups, problem.under_share)
        allowed = Candidates(trial.allowed_alone(candidates))
        knapsack = Knapsack(trial.cluster, shortlist.need, allowed, index.fragmentation, single=single, eligible=chosen)
        return chosen, candidates, knapsack

    def is_complete(self) -> bool:
        """Whether no other node gains anything."""
        return self.size >= max((bound.able() for bound in self.bounds), default=0) and (
            self.limit is None or self.size >= len(self.limit.chains)
        )

    def least_weight_with_others(self, chosen: EligibleNodes, sets: PermittedSets) -> int | None:
        """A lower bound of sets with nodes that are not `chosen`; `None`: there are none."""
        scale, others = self.problem.index.scale, []
        there = self.shortlist.nodes_of(())
        giving: Sequence[int | None] = ()  # the least weights of 1, 2, … shares
        if self.limit is not None:
            of, numbers = self.problem.trial.snapshot.allocation_index.of, {node.number: None for node in chosen}
            chains = [chain for chain in self.limit.chains if not of[chain[0].job.id].nodes.keys() <= numbers.keys()]
            there = self.shortlist.nodes_of(chain[0].job.id for chain in chains)
            others = self.limit.lightest(step for chain in chains for step in chain)
            giving = least_with(others, [0, *[None] * self.limit.wanted], 0, self.limit.wanted)[1:]
        for gained, bound in enumerate(self.bounds, start=1):
            weight = self.shortlist.least_weight_outside(chosen, bound, scale, ~there)
            if weight is not None:
                others.append((gained, 0, weight))
            weight = self.shortlist.least_weight_outside(chosen, bound, scale, there)
            if weight is not None:  # what gains slots there may give something back, and is no lighter than what does
                others.append((gained, 0, weight))
                others += [(gained, given, max(weight, least)) for given, least in enumerate(giving, 1) if least is not None]
        return sets.least_weight_with(others, self.short)


def _permitted(growing: _GrowingList) -> Solution | None:
    """The cheapest set that is permitted as a whole; `None`: moves may permit more, or it is not found."""
    trial, budget, short = growing.problem.trial, growing.problem.budget, growing.short
    if trial.constrains_placement:
        return None
    growing.limit = _limit(growing)
    while True:
        chosen, candidates, knapsack = growing.search()
        part = budget.part(budget.remaining // 2)
        sets = PermittedSets(trial, knapsack, part, growing.limit)
        victims, certain = sets.cheapest(short, part)
        budget.join(part)
        if not certain:
            return None
        if victims is not None:
            others = growing.least_weight_with_others(chosen, sets)
            if others is None or knapsack.fragmentation.weight(victims) < others:
                break
        if growing.is_complete():
            return None
        growing.size *= 2
    part = budget.part(budget.remaining // 4)
    runner_up, _ = sets.cheapest(short, part, _heaviest(victims))
    budget.join(part)
    return Solution(candidates, victims, proven=True, runner_up=runner_up or [], bound=victims)


def _limit(growing: _GrowingList) -> Limit | None:
    """The limit that the preemptor would exceed, with all candidates that may give something back, cheapest first."""
    problem, trial = growing.problem, growing.problem.trial
    excesses = trial.excesses()
    if not excesses:
        return None
    tree, classes = trial.snapshot.usage.tree, trial.snapshot.equivalence_classes.groups
    names = [
        name
        for group, members in classes.items()
        if excesses[-1].project in tree.branches[tree.leaf_of(group[2])].path
        for _, name in members
    ]
    among = problem.index.candidates_among(trial.action, problem.unit.job, names, growing.groups, problem.under_share)
    return Limit(trial, excesses, trial.allowed_alone(among).values())


def _impossible(problem: Problem, shortlist: Shortlist, groups: CandidateGroups, wanted: int, most: int) -> Solution:
    """The refusal where at most `most` of the `wanted` tasks fit with all permitted victims evicted."""
    trial, on = problem.trial, problem.trial.snapshot.allocation_index.on
    nearest_nodes = shortlist.nearest(wanted)
    names = [name for node in nearest_nodes for name in on.get(node.number, ())]
    candidates = problem.index.candidates_among(trial.action, problem.unit.job, names, groups, problem.under_share)
    why = nearest_solution_on(trial, candidates, shortlist.need, wanted, nearest_nodes, most)
    return Solution(candidates, proven=True, why=why)


def _only_moves(problem: Problem, groups: CandidateGroups) -> str:
    """Why no set suffices where each job alone is more than may be reclaimed; empty: one may, if it only moves jobs."""
    trial, snapshot = problem.trial, problem.trial.snapshot
    forbidden = trial.moves.forbidden
    lacking = FreeTotals.of(trial.cluster).missing(problem.unit) if forbidden is None else f"nothing may be moved: {forbidden}"
    if not groups.evictable_classes or lacking is None:
        return ""
    oldest = min(snapshot.equivalence_classes.groups[group][0] for group in groups.evictable_classes)
    return f"{trial.violation([whole_job(snapshot.state.jobs[oldest[1]])])}; {lacking}"


def _add_connected(allocation_index: AllocationIndex, shortlist: Shortlist, chosen: EligibleNodes) -> None:
    """Add all nodes connected to these by a job, so that components are complete."""
    queue = [node.number for node in chosen]
    while queue:
        for name in allocation_index.on.get(queue.pop(), ()):
            for number in allocation_index.of[name].nodes:
                place = shortlist.place_of.get(number)
                if place is not None and shortlist.eligible_nodes[place][0] not in chosen:
                    node, devices = shortlist.eligible_nodes[place]
                    chosen[node] = devices
                    queue.append(number)


def _is_proven(
    shortlist: Shortlist,
    chosen: EligibleNodes,
    knapsack: Knapsack,
    bounds: list[PriceBounds],
    short: int,
    scale: CostScale,
    budget: StepBudget,
) -> bool:
    """Whether `short` components offer each number of slots at no more than the bound of any node not chosen."""
    for gained, bound in enumerate(bounds, start=1):
        least = shortlist.lowest_price_outside(chosen, bound, scale)
        if least is None:
            continue
        enough = 0
        for part in knapsack.parts:
            offer = next((option for option in knapsack.options(part, budget) or () if option.gain >= gained), None)
            if offer is not None and _costs_at_most(offer, least):
                enough += 1
        if enough < short:
            return False
    return True


def _costs_at_most(option: Option, least: LowestPrice) -> bool:
    weight, steps, age_key = option.key
    return weight < least[0] or (weight == least[0] and steps <= least[1] and age_key[0][0] <= least[2])


def _runner_up(knapsack: Knapsack, steps: list[EvictionStep], short: int, trial: Trial, budget: StepBudget) -> list[EvictionStep]:
    part = budget.part(budget.remaining // 4)
    other, _ = knapsack.cheapest(short, part, without=_heaviest(steps))
    budget.join(part)
    if other is None:
        return []
    return [] if trial.rejects([step.unit for step in other]) else other


def _heaviest(steps: list[EvictionStep]) -> EvictionStep:
    return max(steps, key=lambda step: (step.weight, step.age_key))
