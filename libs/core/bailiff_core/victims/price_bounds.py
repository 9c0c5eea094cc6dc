"""Lower bounds, for each node of a large pool, of what evictions on it cost; as arrays.

Every node has a lower bound of the cost per number of slots gained: GPUs of the lowest priorities first, and of each
priority those whose work started last.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from bailiff_core.model.policy import PreemptionRules
from bailiff_core.placement.allocation_index import NO_RESTART, AllocationIndex, Ints, PriorityLevel
from bailiff_core.placement.cluster_resources import ClusterResources, NodeResources, slots_for
from bailiff_core.placement.equivalence_classes import EquivalenceClass
from bailiff_core.placement.free_gpu_index import free_gpu_index_of
from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.scheduling_snapshot import SchedulingSnapshot

from .candidates import CandidateGroups
from .objective import CostScale, EvictionCost

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
        work += np.where(level.since == NO_RESTART, 0, rules.restart_cost)
        work //= 1_000  # rounded down per GPU, so never above the rounded loss of a job
        self.lost: Ints = np.cumsum(lost, axis=1, out=lost).ravel()


@dataclass(slots=True)
class PriceBounds:
    """Lower bounds for a number of additional slots on each node: GPUs by priority, then work lost, as one integer.

    A bound of `IMPOSSIBLE` says that the node cannot gain them.

    Attributes:
        taken: GPUs taken per priority.
        whole: Nodes whose jobs are evicted whole.
        broken: 1 for nodes that stay in use if no more GPUs than these are taken.
    """

    prices: Ints
    unit: int
    shift: int
    taken: list[tuple[_LevelColumns, Ints]]
    whole: Flags
    broken: Ints
    age: Ints

    def able(self) -> int:
        """How many nodes can gain the slots."""
        return int(np.count_nonzero(self.prices < IMPOSSIBLE))

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
    """Eligible nodes for tasks of one requirements, with jobs of these priorities as candidates.

    Bounds are those of all jobs of these priorities. That more of them are no candidates is noticed where a node comes first.

    Args:
        groups: The candidates. Bounds do not hold for nodes of exempt jobs, which are on every list. None: all jobs of these
            priorities.

    Attributes:
        classes: The classes of the candidates.
    """

    def __init__(
        self,
        allocation_index: AllocationIndex,
        cluster: ClusterResources,
        need: TaskRequirements,
        priorities: list[int],
        groups: CandidateGroups | None = None,
    ) -> None:
        self.need = need
        self._index = allocation_index
        self._groups = groups
        self.classes: Collection[EquivalenceClass] = () if groups is None else groups.evictable_classes
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
        self._always: dict[int, None] = {}
        self._looked_at: dict[int, None] = {}
        for name in groups.exempt if groups is not None else ():
            for number, share in allocation_index.of[name].nodes.items():
                place = self.place_of.get(number)
                if place is not None:
                    self._always[place] = None
                    attainable[place] += share.staying
        self._attainable = np.minimum(attainable, self._devices)

    @classmethod
    def of(cls, snapshot: SchedulingSnapshot, need: TaskRequirements, groups: CandidateGroups) -> "Shortlist":
        """With the candidates of these groups."""
        levels = snapshot.allocation_index.levels
        priorities = sorted({group[1] for group in groups.evictable_classes} & levels.keys())
        return cls(snapshot.allocation_index, snapshot.cluster, need, priorities, groups)

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

    def first(self, size: int, bounds: list[PriceBounds], names: Sequence[str] = ()) -> EligibleNodes:
        """The `size` nodes with the lowest bounds, for each number of slots, and those of exempt jobs.

        Args:
            names: Jobs, cheapest first; the nodes of `size` of them are chosen, too, and of all their nodes those with the lowest
                bounds.
        """
        chosen = dict(self._always)
        there, firsts = self.nodes_of(names), self.nodes_of(islice(names, size))
        chosen.update(dict.fromkeys(np.flatnonzero(firsts).tolist()))
        for bound in bounds:
            chosen.update(dict.fromkeys(self._lowest(size, bound, bounds, np.ones(len(self.rows), bool))))
            chosen.update(dict.fromkeys(self._lowest(size, bound, bounds, there)))
        return dict(self.eligible_nodes[at] for at in sorted(chosen))

    def nodes_of(self, names: Iterable[str]) -> Flags:
        """Where these jobs are."""
        found = np.zeros(len(self.rows), bool)
        places = (self.place_of.get(number) for name in names for number in self._index.of[name].nodes)
        found[[place for place in places if place is not None]] = True
        return found

    def _lowest(self, size: int, bound: PriceBounds, bounds: list[PriceBounds], among: Flags) -> list[int]:
        count = size
        while True:
            places = np.flatnonzero((bound.prices < IMPOSSIBLE) & among)
            if count < len(places):
                worst = np.partition(bound.prices[places], count)[count]
                places = places[bound.prices[places] <= worst]
                places = places[np.lexsort((bound.tie_breakers(places), bound.prices[places]))[:count]]
            for place in places.tolist():
                self._look_at(place, bounds)
            able = places[bound.prices[places] < IMPOSSIBLE]
            if len(able) >= size or len(places) < count:
                found: list[int] = able[:size].tolist()
                return found
            count *= 2

    def _look_at(self, place: int, bounds: list[PriceBounds]) -> None:
        """Note how many slots the node cannot gain with the jobs on it that are candidates."""
        if self._groups is None or place in self._looked_at:
            return
        self._looked_at[place] = None
        row, of = int(self.rows[place]), self._index.of
        gpus = [of[name].nodes[row].staying for name in self._index.on.get(row, ()) if self._is_candidate(name)]
        most = (int(self.free[place]) + sum(gpus)) // self.need.gpus - int(self.slots[place]) if gpus else 0
        for bound in bounds[most:]:
            bound.prices[place] = IMPOSSIBLE

    def _is_candidate(self, name: str) -> bool:
        assert self._groups is not None
        return name in self._groups.exempt or (self._index.of[name].group in self.classes and name not in self._groups.barred)

    def lowest_price_outside(self, chosen: EligibleNodes, bound: PriceBounds, scale: CostScale) -> LowestPrice | None:
        """The lowest bound among nodes not chosen; `None` if none of them can gain the slots."""
        found = self._lowest_outside(chosen, bound, np.ones(len(self.rows), bool))
        if found is None:
            return None
        price, places = found
        tail, age = divmod(int(bound.tie_breakers(places).min()), 1 << SEQ_BITS)
        tail, broken = divmod(tail, COUNT_BASE)
        jobs, tasks = divmod(tail, COUNT_BASE)
        weight = self._weight(price, bound, scale)
        if not bound.shift:
            weight += scale.weight(0, EvictionCost(jobs=jobs, tasks=tasks)) + broken * scale.of_level[0]
        return weight, jobs, -((1 << SEQ_BITS) - 1 - age)

    def least_weight_outside(self, chosen: EligibleNodes, bound: PriceBounds, scale: CostScale, among: Flags) -> int | None:
        """A lower bound that may be added up: it does not count a job on each of its nodes."""
        found = self._lowest_outside(chosen, bound, among)
        return None if found is None else self._weight(found[0], bound, scale)

    def _lowest_outside(self, chosen: EligibleNodes, bound: PriceBounds, among: Flags) -> tuple[int, Ints] | None:
        """The lowest price of nodes not chosen, and where these are."""
        others = among.copy()
        others[[self.place_of[node.number] for node in chosen]] = False
        prices = np.where(others, bound.prices, IMPOSSIBLE)
        price = int(prices.min(initial=IMPOSSIBLE))
        return None if price >= IMPOSSIBLE else (price, np.flatnonzero(prices == price))

    def _weight(self, price: int, bound: PriceBounds, scale: CostScale) -> int:
        """GPUs by priority, and work lost."""
        classes, lost = divmod(price, bound.unit)
        weight = scale.weight(0, EvictionCost(lost_gpu_ms=lost << bound.shift))
        for priority in self.priorities:
            classes, gpus = divmod(classes, self._widest + 1)
            weight += scale.weight(priority, EvictionCost(gpu_milli=1000 * gpus))
        return weight
