"""Exact search for equal tasks: the cheapest evictions per additional slot in each component, combined by a knapsack.

A component is a set of nodes connected by candidates that run on several of them. Within a component every useful victim
set is tried once and cached for later preemptors with the same requirements; over the components the cheapest combination
is found by dynamic programming over slots. If one additional slot suffices, every node is a component of its own.
"""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import groupby

from bailiff_core.model.resources import release
from bailiff_core.model.state import Resources
from bailiff_core.placement.cluster_resources import ClusterResources, NodeResources, slots_for
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.placement.task_requirements import TaskRequirements

from .candidates import Candidates, EvictionChain, EvictionStep
from .objective import Fragmentation
from .slot_combinations import Option, OptionKey, best_combination

SETS_PER_STEP = 16
MAX_SETS_PER_COMPONENT = 3_000


@dataclass(slots=True)
class Component:
    """Nodes that can be searched on their own.

    Attributes:
        options: Options by ascending gain and cost; None: too many sets to try.
    """

    nodes: list[NodeResources]
    names: dict[str, None] = field(default_factory=dict)
    slots: int = 0
    options: list[Option] | None = None
    known: bool = False


@dataclass(slots=True)
class Increment:
    """Steps that are evicted together.

    Attributes:
        freed: Resources that this frees, by index of the node in the component.
    """

    steps: tuple[EvictionStep, ...]
    weight: int
    freed: list[tuple[int, Resources]]
    nodes: list[int]


class Freeing:
    """What the nodes of a component have free while steps are tried, and how many slots that is."""

    def __init__(self, knapsack: "Knapsack", nodes: list[NodeResources]) -> None:
        self._need, self._nodes = knapsack.need, nodes
        self._eligible = [knapsack.eligible_nodes[node] for node in nodes]
        self._free = [node.future for node in nodes]
        self._counts = [knapsack.count(node) for node in nodes]

    def evict(self, increment: Increment) -> int:
        """The slots that it gains."""
        free, counts, nodes = self._free, self._counts, self._nodes
        for at, amount in increment.freed:
            free[at] = release(free[at], amount, nodes[at].units, nodes[at].usable)
        gained = 0
        for at in increment.nodes:
            before, counts[at] = counts[at], slots_for(self._need, nodes[at], free[at], self._eligible[at])
            gained += counts[at] - before
        return gained

    def mark(self) -> tuple[list[Resources], list[int]]:
        """A savepoint for `rollback`."""
        return self._free[:], self._counts[:]

    def rollback(self, mark: tuple[list[Resources], list[int]]) -> None:
        """Undo everything since `mark`, which is used up."""
        self._free, self._counts = mark


class Knapsack:
    """Eviction options for tasks with equal requirements.

    Attributes:
        eligible: Consider only these nodes.
        single: One additional slot suffices, so every node is a component of its own.
    """

    def __init__(
        self,
        cluster: ClusterResources,
        need: TaskRequirements,
        candidates: Candidates,
        fragmentation: Fragmentation,
        *,
        single: bool,
        eligible: dict[NodeResources, int] | None = None,
    ) -> None:
        self.cluster = cluster
        self.need = need
        self.candidates = candidates
        self.fragmentation = fragmentation
        self.single = single
        self.eligible_nodes = dict(cluster.eligible_nodes(need)) if eligible is None else eligible
        self.parts = self._parts()
        self._part_of = {node.number: at for at, part in enumerate(self.parts) for node in part.nodes}
        self._queue: list[
            tuple[OptionKey, int, int, bool]
        ] = []  # for one slot: cheapest component first, by lower bound or exact
        self._version = [0] * len(self.parts)
        for at, part in enumerate(self.parts):
            part.slots = sum(self.count(node) for node in part.nodes)
            if single:
                self._enqueue(at)
        self.free = sum(part.slots for part in self.parts)

    def touch(self, nodes: Iterable[int]) -> None:
        """Update the nodes that changed permanently."""
        for at in dict.fromkeys(self._part_of[number] for number in nodes if number in self._part_of):
            part = self.parts[at]
            part.known = False
            before, part.slots = part.slots, sum(self.count(node) for node in part.nodes)
            self.free += part.slots - before
            if self.single:
                self._enqueue(at)

    def cheapest(
        self, short: int, budget: StepBudget, without: EvictionStep | None = None
    ) -> tuple[list[EvictionStep] | None, bool]:
        """The cheapest set that gains `short` slots, or `None`; and whether that is certain."""
        if self.single:
            return self._cheapest_single(budget, without)
        found: list[list[Option]] = []
        gains = 0
        for part in self.parts:
            if without is not None and without.job.id in part.names:
                options = self._search(part, budget, without)
            else:
                options = self.options(part, budget)
            if options is None:
                return None, False
            if options:
                found.append(options)
                gains += options[-1].gain
        return (None, True) if gains < short else best_combination(found, short, self.fragmentation, budget)

    def _cheapest_single(self, budget: StepBudget, without: EvictionStep | None) -> tuple[list[EvictionStep] | None, bool]:
        """The cheapest option for one additional slot; only nodes whose lower bound is low enough are searched."""
        best: Option | None = None
        popped: list[tuple[OptionKey, int, int, bool]] = []
        while self._queue and (best is None or self._queue[0][0] < best.key):
            key, at, version, exact = heappop(self._queue)
            part = self.parts[at]
            # Outdated: the component has a newer entry.
            if version != self._version[at]:
                continue
            # The key was a lower bound: the component is searched, and returns to the queue with its real key.
            if not exact:
                options = self.options(part, budget)
                if options is None:
                    heappush(self._queue, (key, at, version, exact))
                    for entry in popped:
                        heappush(self._queue, entry)
                    return None, False
                if options:
                    heappush(self._queue, (options[0].key, at, version, True))
                continue
            popped.append((key, at, version, exact))
            kept = without is not None and without.job.id in part.names
            options = self._search(part, budget, without) if kept else part.options
            if options is None:
                best = None
                break
            if options and (best is None or options[0].key < best.key):
                best = options[0]
        # The queue serves later searches of the batch.
        for entry in popped:
            heappush(self._queue, entry)
        return (None if best is None else list(best.steps)), True

    def _enqueue(self, at: int) -> None:
        self._version[at] += 1
        bound = self._bound(self.parts[at])
        if bound is not None:
            heappush(self._queue, ((bound, 0, ()), at, self._version[at], False))

    def _bound(self, part: Component) -> int | None:
        """Lower bound of the weight for one additional slot on the node, without fragmentation; `None`: impossible."""
        weights: list[int] = []
        max_freed = 1
        for name in part.names:
            for step in self.candidates.chains.get(name, ()):
                weights.append(step.weight)
                for node, allocated in self.cluster.allocation_of(step.unit):
                    if node is part.nodes[0]:
                        max_freed = max(max_freed, allocated.devices.bit_count() + len(allocated.shares))
        if not weights:
            return None
        node = part.nodes[0]
        missing_gpus = self.need.gpus * (part.slots + 1) - (node.future.devices & self.eligible_nodes[node]).bit_count()
        weights.sort()
        return sum(weights[: max(1, -(-missing_gpus // max_freed))])

    def options(self, part: Component, budget: StepBudget) -> list[Option] | None:
        """The component's options, cached."""
        if not part.known:
            part.options, part.known = self._search(part, budget, None), True
        return part.options

    def count(self, node: NodeResources) -> int:
        """Its slots as it is now."""
        return slots_for(self.need, node, node.future, self.eligible_nodes[node])

    def _parts(self) -> list[Component]:
        """Connected components of eligible nodes; two nodes are connected if a candidate runs on both.

        They may be connected by other nodes with devices as well, which count for fragmentation.
        """
        root: dict[int, int] = {node.number: node.number for node in self.eligible_nodes}

        def find(number: int) -> int:
            while root[number] != number:
                root[number] = number = root[root[number]]
            return number

        nodes_of: dict[str, list[int]] = {}
        for name, chain in self.candidates.chains.items():
            nodes_of_job: dict[int, None] = {}
            for step in chain:
                for node, _ in self.cluster.allocation_of(step.unit):
                    if node in self.eligible_nodes:
                        nodes_of_job[node.number] = None
            numbers = nodes_of[name] = list(nodes_of_job)
            if numbers and not self.single:
                used = dict.fromkeys(use.node for step in chain for use in step.uses)
                for number in (*numbers[1:], *used):
                    root.setdefault(number, number)
                    root[find(number)] = find(numbers[0])
        parts: dict[int, Component] = {}
        for node in self.eligible_nodes:
            parts.setdefault(find(node.number), Component([])).nodes.append(node)
        for name, numbers in nodes_of.items():
            for number in numbers:
                parts[find(number)].names[name] = None
        return list(parts.values())

    def _search(self, part: Component, budget: StepBudget, without: EvictionStep | None) -> list[Option] | None:
        """Pareto-optimal eviction options of the component; `None`: too many sets to try."""
        place = {node: at for at, node in enumerate(part.nodes)}
        sequences = [[self.increment(steps, place) for steps in sequence] for sequence in self.sequences(part, place, without)]
        freeing = Freeing(self, part.nodes)
        evict = freeing.evict

        most = -1
        if len(sequences) > 1:
            before = freeing.mark()
            most = sum(evict(increment) for sequence in sequences for increment in sequence)
            if not most:
                return []
            freeing.rollback(before)
        tries: list[Option] = []
        limit: list[int | None] = [
            None
        ]  # lowest weight of a set with the maximum gain, and of all that fragmentation may undercut
        above = self.fragmentation.above
        allowed = min(MAX_SETS_PER_COMPONENT, budget.remaining * SETS_PER_STEP)

        def try_sets(at: int, gain: int, weight: int, chosen: tuple[EvictionStep, ...]) -> bool:
            for number in range(at, len(sequences)):
                before = freeing.mark()
                gained, total_weight, evicted = gain, weight, chosen
                for increment in sequences[number]:
                    total_weight += increment.weight
                    if limit[0] is not None and total_weight > limit[0]:
                        break  # the later ones weigh no less
                    gained += evict(increment)
                    evicted = (*evicted, *increment.steps)
                    tries.append(Option(gained, (total_weight, len(evicted), ()), evicted))
                    if len(tries) > allowed:
                        return False
                    if gained == most:
                        limit[0] = (total_weight // above + 1) * above - 1  # no more than before, as the set is within that
                        break
                    if not try_sets(number + 1, gained, total_weight, evicted):
                        return False
                freeing.rollback(before)
            return True

        if not try_sets(0, 0, 0, ()) or not budget.spend(len(tries) // SETS_PER_STEP):
            return None
        return best_of(tries, self.fragmentation)

    def increment(self, steps: tuple[EvictionStep, ...], place: dict[NodeResources, int]) -> Increment:
        """These steps, evicted together.

        Args:
            place: The index of each node of the component.
        """
        allocations = [self.cluster.allocation_of(step.unit) for step in steps]
        frees = [(place[node], amount) for each in allocations for node, amount in each if node in place]
        return Increment(steps, sum([step.weight for step in steps]), frees, list(dict.fromkeys([at for at, _ in frees])))

    def sequences(
        self,
        part: Component,
        nodes: Container[NodeResources],
        without: EvictionStep | None,
        kind: Callable[[EvictionStep], object] = lambda _: None,
    ) -> list[list[tuple[EvictionStep, ...]]]:
        """Steps that have one useful order: those of a job, and of jobs of one kind that free equal resources, cheapest first."""
        interchangeable: dict[object, list[EvictionStep]] = {}
        sequences: list[list[tuple[EvictionStep, ...]]] = []
        for name in part.names:
            chain = self.candidates.chains.get(name)
            if chain is None:
                continue
            if len(chain) == 1:
                if chain[0] is not without:
                    footprint = kind(chain[0]), self._footprint(chain[0], nodes)
                    interchangeable.setdefault(footprint, []).append(chain[0])
                continue
            increments = self._increments(chain, nodes, without)
            if increments:
                sequences.append(increments)
        for equal_steps in interchangeable.values():
            equal_steps.sort(key=lambda step: (step.weight, step.age_key))
            sequences.append([(step,) for step in equal_steps])
        return sequences

    def _increments(
        self, chain: EvictionChain, nodes: Container[NodeResources], without: EvictionStep | None
    ) -> list[tuple[EvictionStep, ...]]:
        increments: list[tuple[EvictionStep, ...]] = []
        pending: list[EvictionStep] = []
        for step in chain:
            if step is without:
                break
            pending.append(step)
            if any(node in nodes for node, _ in self.cluster.allocation_of(step.unit)):
                increments.append(tuple(pending))
                pending = []
        return increments

    def _footprint(self, step: EvictionStep, nodes: Container[NodeResources]) -> object:
        """Resources that its eviction frees, as far as the requirements and the fragmentation depend on them."""
        footprint = []
        for node, freed in self.cluster.allocation_of(step.unit):
            if node in nodes:
                devices = (freed.devices & self.eligible_nodes[node]).bit_count()
                shares = tuple(sorted(freed.shares.items()))
                footprint.append((node.number, devices, freed.cpu_milli, freed.memory_bytes, freed.slots, shares))
        return tuple(sorted(footprint)), tuple((use.node, use.amount) for use in step.uses)


KnapsackCache = dict[tuple[int, TaskRequirements, bool], Knapsack]


def knapsack_for(
    cache: KnapsackCache,
    cluster: ClusterResources,
    need: TaskRequirements,
    candidates: Candidates,
    fragmentation: Fragmentation,
    wanted: int,
) -> tuple[Knapsack, int]:
    """The knapsack for these requirements, and how many slots `wanted` tasks lack. Fills `cache`."""
    known = cache.get((id(candidates), need, True)) or cache.get((id(candidates), need, False))
    if known is not None:
        short = wanted - known.free
    else:
        short = wanted - sum(slots_for(need, node, node.future, eligible) for node, eligible in cluster.eligible_nodes(need))
    key = (id(candidates), need, short == 1)
    if key not in cache:
        cache[key] = Knapsack(cluster, need, candidates, fragmentation, single=short == 1)
    return cache[key], short


def best_of(tries: list[Option], fragmentation: Fragmentation, least_gain: int = 1) -> list[Option]:
    """Options whose gain no cheaper option reaches."""
    found: list[Option] = []
    most = least_gain - 1
    tries.sort(key=_cost)
    for _, equal_above in groupby(tries, key=lambda option: option.key[0] // fragmentation.above):
        better = [option for option in equal_above if option.gain > most]
        for option in better:  # only these need the levels from fragmentation down
            weight = option.key[0] + fragmentation.per_node * fragmentation.count([step.uses for step in option.steps])
            option.key = (weight, option.key[1], tuple(sorted([step.age_key for step in option.steps])))
        better.sort(key=lambda option: option.key)
        for option in better:
            if option.gain > most:
                found.append(option)
                most = option.gain
    return found


def _cost(option: Option) -> OptionKey:
    """Sort key before fragmentation and the age keys are filled in."""
    return option.key
