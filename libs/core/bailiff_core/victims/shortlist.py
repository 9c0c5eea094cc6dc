"""Solver for equal tasks on large pools: a shortlist of nodes is searched exactly, and all others are proven more expensive.

Every node has a lower bound of the cost per number of slots gained: GPUs of the lowest priorities first, and of each
priority those whose work started last. The nodes with the lowest bounds are searched exactly. The result is optimal if, for
every number of slots, as many of these nodes as slots are needed cost no more than the bound of any other node: a set that
used another node could use one of these instead.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bailiff_core.model.policy import PreemptionRules
from bailiff_core.placement.allocation_index import AllocationIndex, Ints, PriorityLevel
from bailiff_core.placement.cluster_resources import ClusterResources, NodeResources, slots_for
from bailiff_core.placement.free_gpu_index import free_gpu_index_of
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.placement.task_requirements import TaskRequirements

from .candidates import EvictionStep
from .constraints import Constraints
from .fit_oracle import single_requirement
from .infeasibility import nearest_solution_on
from .knapsack import Knapsack
from .objective import CostScale, EvictionCost
from .slot_combinations import Option
from .solver_interface import Problem, Solution

MIN_ACTIVE_JOBS = 200  # with fewer active jobs, all of them are candidates of an exact search
INITIAL_SIZE = 8
MOST_GAINS = 16
IMPOSSIBLE = 1 << 62

COUNT_BASE = 1 << 7  # greater than the number of jobs or tasks with GPUs that one node can lose
SEQ_BITS = 40  # bits of a record's seq

EligibleNodes = dict[NodeResources, int]
Flags = NDArray[np.bool_]
LowestPrice = tuple[int, int, int]  # weight, fewest jobs, youngest possible job


class _LevelColumns:
    """One priority: flat arrays in which the entry for n GPUs of a node is at the node's `first` + n."""

    def __init__(self, level: PriorityLevel, rows: Ints, now: int, rules: PreemptionRules) -> None:
        width = level.least.shape[1]
        self.gpus: Ints = level.gpus[rows]
        self.least, self.jobs, self.tasks = level.least.ravel(), level.jobs_for.ravel(), level.tasks_for.ravel()
        self.first: Ints = rows * width
        lost = np.zeros((len(level.gpus), width), np.int64)
        work = np.subtract(now, level.since, out=lost[:, 1:])
        np.clip(work, 0, rules.max_counted_loss, out=work)
        work += rules.restart_cost
        work //= 1_000  # rounded down per GPU, so never above the rounded loss of a job
        self.lost: Ints = np.cumsum(lost, axis=1, out=lost).ravel()


@dataclass(slots=True)
class PriceBounds:
    """Lower bounds for a number of additional slots on each node: GPUs by priority, then work lost, as one integer.

    `IMPOSSIBLE`: the node cannot gain them. taken: GPUs taken per priority. whole: nodes whose jobs are evicted whole.
    broken: 1 for nodes that stay in use if no more GPUs than these are taken.
    """

    prices: Ints
    unit: int
    shift: int
    taken: list[tuple[_LevelColumns, Ints]]
    whole: Flags
    broken: Ints
    age: Ints

    def tie_breakers(self, places: Ints) -> Ints:
        """Lower levels of the objective on these nodes: fewest jobs and tasks, fragmentation, youngest first."""
        jobs, tasks = (np.zeros(len(places), np.int64) for _ in range(2))
        for column, part in self.taken:
            at = column.first[places] + part[places]
            jobs += column.jobs.take(at)
            tasks += column.tasks.take(at)
        jobs *= self.whole[places]
        tie_breakers: Ints = ((((jobs * COUNT_BASE) + tasks) * COUNT_BASE + self.broken[places]) << SEQ_BITS) + self.age[places]
        return tie_breakers


class Shortlist:
    """Eligible nodes for tasks of one requirements, with jobs of these priorities as candidates."""

    def __init__(
        self, allocation_index: AllocationIndex, cluster: ClusterResources, need: TaskRequirements, priorities: list[int]
    ) -> None:
        self.need = need
        self.priorities = priorities
        gpu_index = free_gpu_index_of(cluster, need)
        self.eligible_nodes, self.rows, self.free, self.place_of = (
            gpu_index.eligible_nodes,
            gpu_index.rows,
            gpu_index.free,
            gpu_index.place_of,
        )
        self.slots: Ints = np.zeros(len(self.rows), np.int64)
        for at in np.flatnonzero(self.free >= need.gpus).tolist():
            node, devices = self.eligible_nodes[at]
            self.slots[at] = slots_for(need, node, node.future, devices)
        self._all_gpus = allocation_index.all_gpus[self.rows]
        self._levels = [allocation_index.levels[priority] for priority in priorities]
        self._cost_free = sum((level.cost_free[self.rows] for level in self._levels), np.zeros(len(self.rows), np.int64))
        self._widest = max(int((self.free + self._cost_free).max(initial=0)), allocation_index.max_devices)
        self._devices = gpu_index.devices
        attainable = sum((level.gpus[self.rows] for level in self._levels), self.free + self._cost_free)
        self._attainable = np.minimum(attainable, self._devices)

    def most_gains(self, short: int) -> int:
        """Upper bound of the slots that one node may gain."""
        return min(short, self._widest // self.need.gpus)

    def most_slots(self) -> int:
        """Upper bound of the slots with all jobs of these priorities evicted."""
        return int((self._attainable // self.need.gpus).sum())

    def nearest(self, wanted: int) -> EligibleNodes:
        """Nodes with `wanted` slots in total that lack the fewest GPUs with all jobs of these priorities evicted."""
        gpus = self.need.gpus
        costs, places = [], []
        for slot in range(1, int(self._devices.max(initial=0)) // gpus + 1):
            able = np.flatnonzero(self._devices >= slot * gpus)
            costs.append(np.clip(slot * gpus - self._attainable[able], 0, gpus))
            places.append(able)
        if not places:
            return {}
        order = np.argsort(np.concatenate(costs), kind="stable")[:wanted]
        return dict(self.eligible_nodes[at] for at in sorted(dict.fromkeys(np.concatenate(places)[order].tolist())))

    def price_bounds(self, most: int, now: int, rules: PreemptionRules) -> list[PriceBounds] | None:
        """Lower bounds for 1, 2, ... `most` additional slots. `None`: too many priorities to encode."""
        columns = [_LevelColumns(level, self.rows, now, rules) for level in self._levels]
        shrinks = np.zeros(len(self.rows), bool)
        youngest = np.zeros(len(self.rows), np.int64)
        for level in self._levels:
            shrinks |= level.shrinks[self.rows] > 0
            youngest = np.maximum(youngest, level.youngest[self.rows])
        age = (1 << SEQ_BITS) - 1 - np.minimum(youngest, (1 << SEQ_BITS) - 1)
        found = []
        for gained in range(1, most + 1):
            bounds = self._price_bounds(gained, columns, ~shrinks, age)
            if bounds is None:
                return None
            found.append(bounds)
        return found

    def _price_bounds(self, gained: int, columns: list[_LevelColumns], whole: Flags, age: Ints) -> PriceBounds | None:
        missing = np.maximum(0, (self.slots + gained) * self.need.gpus - self.free - self._cost_free)
        count = len(self.rows)
        lost = np.zeros(count, np.int64)
        taken: list[tuple[_LevelColumns, Ints]] = []
        below = sum((column.gpus for column in columns), np.zeros(count, np.int64))
        impossible = below < missing
        for column in reversed(columns):
            below = below - column.gpus  # as few GPUs as possible of the highest priority
            part = column.least.take(column.first + np.minimum(np.maximum(missing - below, 0), column.gpus))
            taken.append((column, part))
            if part.any():
                missing = np.maximum(0, missing - part)
                lost += column.lost.take(column.first + part)
        most, shift = int(lost.max(initial=0)), 0
        while (self._widest + 1) ** len(taken) * ((most >> shift) + 1) >= IMPOSSIBLE:
            shift += 1
            if not most >> shift:
                return None
        prices = np.zeros(count, np.int64)
        for _, part in taken:  # the highest priority counts most
            prices = prices * (self._widest + 1) + part
        unit = (most >> shift) + 1
        prices = np.where(impossible, IMPOSSIBLE, prices * unit + (lost >> shift))
        gpus = sum((part for _, part in taken), np.zeros(count, np.int64))
        broken: Ints = ((gpus > 0) & (self._all_gpus > gpus)).astype(np.int64)
        return PriceBounds(prices, unit, shift, taken, whole, broken, age)

    def first(self, size: int, bounds: list[PriceBounds]) -> EligibleNodes:
        """The `size` nodes with the lowest bounds, for each number of slots."""
        chosen: dict[int, None] = {}
        for bound in bounds:
            places = np.arange(len(bound.prices))
            if size < len(places):
                worst = np.partition(bound.prices, size)[size]
                places = np.flatnonzero(bound.prices <= worst)
                places = places[np.lexsort((bound.tie_breakers(places), bound.prices[places]))[:size]]
            chosen.update(dict.fromkeys(places[bound.prices[places] < IMPOSSIBLE].tolist()))
        return dict(self.eligible_nodes[at] for at in sorted(chosen))

    def lowest_price_outside(self, chosen: EligibleNodes, bound: PriceBounds, scale: CostScale) -> LowestPrice | None:
        """The lowest bound among nodes not chosen; `None` if none of them can gain the slots."""
        others = np.ones(len(self.rows), bool)
        others[[self.place_of[node.number] for node in chosen]] = False
        prices = np.where(others, bound.prices, IMPOSSIBLE)
        price = int(prices.min(initial=IMPOSSIBLE))
        if price >= IMPOSSIBLE:
            return None
        tail, age = divmod(int(bound.tie_breakers(np.flatnonzero(prices == price)).min()), 1 << SEQ_BITS)
        tail, broken = divmod(tail, COUNT_BASE)
        jobs, tasks = divmod(tail, COUNT_BASE)
        classes, lost = divmod(price, bound.unit)
        weight = scale.weight(self.priorities[0], EvictionCost(lost_gpu_ms=lost << bound.shift))
        if not bound.shift:
            weight += scale.weight(self.priorities[0], EvictionCost(jobs=jobs, tasks=tasks)) + broken * scale.of_level[0]
        for priority in self.priorities:
            classes, gpus = divmod(classes, self._widest + 1)
            weight += scale.weight(priority, EvictionCost(gpu_milli=1000 * gpus))
        return weight, jobs, -((1 << SEQ_BITS) - 1 - age)


class ShortlistSolver:
    """Solves units with equal tasks on large pools, for reclaim and preempt."""

    def solve(self, problem: Problem) -> Solution | None:
        """`Solver.solve`."""
        return None if problem.action == "consolidate" else search_shortlist(problem)


def search_shortlist(problem: Problem) -> Solution | None:
    """The cheapest set, or a proof that there is none; `None` if all candidates have to be considered."""
    snapshot, unit, action, budget = problem.snapshot, problem.unit, problem.action, problem.budget
    simple = single_requirement(unit)
    if len(snapshot.state.active) < MIN_ACTIVE_JOBS or simple is None or not simple[0].gpus:
        return None
    groups = problem.index.groups(action, unit.job)
    if groups is None:
        return None
    need, wanted = simple
    priorities = sorted({group[1] for group in groups.evictable_classes} & snapshot.allocation_index.levels.keys())
    shortlist = Shortlist(snapshot.allocation_index, snapshot.cluster, need, priorities)
    max_slots = shortlist.most_slots()
    if max_slots < wanted:
        nearest_nodes = shortlist.nearest(wanted)
        names = [name for node in nearest_nodes for name in snapshot.allocation_index.on.get(node.number, ())]
        candidates = problem.index.candidates_among(action, unit.job, names, groups, problem.under_share)
        why = nearest_solution_on(snapshot, candidates, need, wanted, nearest_nodes, max_slots)
        return Solution(candidates, proven=True, why=why)
    if not priorities or not problem.index.prefers_shortlist(action, unit.job, problem.under_share):
        return None
    short = wanted - int(shortlist.slots.sum())
    gains = shortlist.most_gains(short)
    if not 0 < gains <= MOST_GAINS:  # none where no GPUs are missing
        return None
    bounds = shortlist.price_bounds(gains, snapshot.state.now, snapshot.state.rules.preemption)
    if bounds is None:
        return None
    size = INITIAL_SIZE + short
    while True:
        chosen = shortlist.first(size, bounds)
        if short > 1:
            _add_connected(snapshot.allocation_index, shortlist, chosen)
        names = [name for node in chosen for name in snapshot.allocation_index.on.get(node.number, ())]
        candidates = problem.index.candidates_among(action, unit.job, names, groups, problem.under_share)
        fragmentation = problem.index.fragmentation
        knapsack = Knapsack(snapshot.cluster, need, candidates, fragmentation, single=short == 1, eligible=chosen)
        part = budget.part(budget.remaining // 2)
        victims, certain = knapsack.cheapest(short, part)
        budget.join(part)
        if not certain:
            return None
        if victims is not None and _is_proven(shortlist, chosen, knapsack, bounds, short, problem.index.scale, budget):
            break
        if size >= len(shortlist.eligible_nodes):
            return None
        size *= 2
    if problem.constraints.rejects([step.unit for step in victims]):
        return None
    runner_up = _runner_up(knapsack, victims, short, problem.constraints, budget)
    return Solution(candidates, victims, proven=True, runner_up=runner_up, bound=victims)


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


def _runner_up(
    knapsack: Knapsack, steps: list[EvictionStep], short: int, constraints: Constraints, budget: StepBudget
) -> list[EvictionStep]:
    heaviest = max(steps, key=lambda step: (step.weight, step.age_key))
    part = budget.part(budget.remaining // 4)
    other, _ = knapsack.cheapest(short, part, without=heaviest)
    budget.join(part)
    if other is None:
        return []
    return [] if constraints.rejects([step.unit for step in other]) else other
