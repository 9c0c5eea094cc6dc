"""Packs tasks of one or several requirements onto nodes: greedily first, then by exhaustive search within a step budget."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from bailiff_core.model.placement_ranges import bits

from .cluster_resources import ClusterResources, NodeResources
from .islands import choose_within_nodes, place_on_islands
from .node_scoring import Offer
from .packing import PlacementScope, TasksOnNode, capacity, fill_all, has_capacity, offers, take_chunk, take_devices
from .result import NoFit
from .step_budget import StepBudget
from .task_requirements import TaskRequirements
from .unschedulable_reasons import unschedulable_reason

NODES_PER_STEP = 16
Choice = TypeVar("Choice")
Taken = TypeVar("Taken")


def pack(
    cluster: ClusterResources,
    wanted: dict[TaskRequirements, int],
    scope: PlacementScope,
    budget: StepBudget,
    *,
    future: bool,
    explain: bool = True,
) -> list[TasksOnNode] | NoFit:
    """Placements of `wanted` tasks, by requirements; `cluster` is unchanged. `why` of a refusal is set only with `explain`.

    One requirements: filling nodes in order is exact, because the tasks are interchangeable and nodes are independent
    of each other. Several: greedily, hardest first; if that fails, a search over all packings
    within the step budget. Islands are tried first, if the scope prefers them.
    """
    if scope.islands:
        preferred = None if future else place_on_islands(cluster, wanted, scope)
        if preferred is not None:
            return preferred
        found = pack(cluster, wanted, replace(scope, islands=False), budget, future=future, explain=explain)
        return found if isinstance(found, NoFit) else choose_within_nodes(cluster, found, future=future)
    order = sorted(wanted, key=hardest_first) if len(wanted) > 1 else list(wanted)
    mark = cluster.mark()
    chunks = fill_all(cluster, {need: wanted[need] for need in order}, scope, future=future)
    cluster.rollback(mark)
    if chunks is not None:
        return chunks
    # Filling is exact for equal tasks, so there is nothing to search.
    if len(wanted) == 1 and not explain:
        return NoFit("impossible", "")
    why = unschedulable_reason(cluster, wanted, scope, future=future)
    if why is not None:
        return NoFit("impossible", why)
    ordered = [(need, wanted[need]) for need in order]
    packing = find_packing(cluster, ordered, scope, budget, future=future)
    if packing == "depends-on-devices":
        packing = find_devices(cluster, ordered, scope, budget, future=future)
    if isinstance(packing, list):
        return packing
    tasks = " and ".join(f"{count} × ({need})" for need, count in wanted.items())
    if packing == "impossible":
        return NoFit("impossible", f"each task type fits on its own, but {tasks} do not fit together")
    return NoFit("gave-up", f"found no placement for {tasks} together within the step budget")


def hardest_first(need: TaskRequirements) -> tuple[int, bool, int, int, int, int]:
    """Sort key of requirements for greedy placement."""
    # Fewer accepted models first: requirements that accept all of them take what remains.
    # Whole devices before shares, which may newly share a device when all shared ones are full.
    share = need.share_milli or need.share_bytes
    return (len(need.models) or 1 << 30, need.shared, -need.devices, -share, -need.cpu_milli, -need.memory_bytes)


def backtrack(
    cluster: ClusterResources,
    scope: PlacementScope,
    budget: StepBudget,
    depth: int,
    choices: Callable[[Sequence[Taken]], Iterator[Choice] | None],
    take: Callable[[int, Choice], Taken],
) -> list[Taken] | Literal["impossible", "gave-up"]:
    """Results of `take` at each of `depth` levels; `cluster` is unchanged. Each choice costs steps in proportion to the nodes.

    Args:
        choices: Choices at the next level, given the results above it; `None` prunes the branch.
        take: Apply one choice of that level to `cluster`.
    """
    start = cluster.mark()
    effort = 1 + len(cluster.nodes if scope.within is None else scope.within) // NODES_PER_STEP
    taken: list[Taken] = []
    levels = [choices(taken)]
    marks = [start]
    try:
        while levels:
            cluster.rollback(marks[-1])
            del taken[len(levels) - 1 :]
            if not budget.spend(effort):
                return "gave-up"
            choice = next(levels[-1] or iter(()), None)
            if choice is None:
                levels.pop()
                marks.pop()
                continue
            taken.append(take(len(taken), choice))
            if len(taken) == depth:
                return list(taken)
            next_choices = choices(taken)
            if next_choices is not None:
                marks.append(cluster.mark())
                levels.append(next_choices)
    finally:
        cluster.rollback(start)
    return "impossible"


def find_packing(
    cluster: ClusterResources,
    wanted: list[tuple[TaskRequirements, int]],
    scope: PlacementScope,
    budget: StepBudget,
    *,
    future: bool,
) -> list[TasksOnNode] | Literal["impossible", "gave-up", "depends-on-devices"]:
    """Depth-first over the requirements; for each over all distributions of its tasks over nodes. `cluster` is unchanged.

    depends-on-devices: no packing was found, but another choice of devices within nodes might succeed.

    Equal nodes are interchangeable: of two, the first gets at least as many tasks.
    """

    def choices(taken: Sequence[list[TasksOnNode]]) -> Iterator[list[Offer]] | None:
        rest = wanted[len(taken) :]
        if not all(capacity(cluster, need, scope, future=future) >= count for need, count in rest):
            return None
        return _distributions(cluster, wanted, len(taken), scope, future=future)

    def take(level: int, spread: list[Offer]) -> list[TasksOnNode]:
        need = wanted[level][0]
        return [take_chunk(cluster, need, offer.node, offer.devices, offer.count, future=future) for offer in spread]

    found = backtrack(cluster, scope, budget, len(wanted), choices, take)
    if found == "gave-up":
        return found
    if found != "impossible":
        return [chunk for level in found for chunk in level]
    return "impossible" if _devices_interchangeable(cluster, wanted) else "depends-on-devices"


def _distributions(
    cluster: ClusterResources, wanted: list[tuple[TaskRequirements, int]], level: int, scope: PlacementScope, *, future: bool
) -> Iterator[list[Offer]]:
    """All distributions of the level's tasks over nodes, the most packed first; each offer with its number of tasks."""
    need, count = wanted[level]
    nodes = list(offers(cluster, need, scope, future=future))
    capacities = [offer.count for offer in nodes]
    interchangeable_with = _interchangeable_before(cluster, nodes, [need for need, _ in wanted], future=future)
    capacity_after = [0] * (len(capacities) + 1)
    for place in range(len(capacities) - 1, -1, -1):
        capacity_after[place] = capacity_after[place + 1] + capacities[place]
    counts: list[int] = []
    remaining = count
    descending = True
    while True:
        if descending and len(counts) < len(capacities):
            place = len(counts)
            most = min(capacities[place], remaining)
            before = interchangeable_with[place]
            if before is not None:
                most = min(most, counts[before])
            counts.append(most)
            remaining -= most
            descending = remaining <= capacity_after[place + 1]
            continue
        if remaining == 0:
            yield [replace(offer, count=n) for offer, n in zip(nodes, counts, strict=True) if n]
        # Backtrack to the last node that can take one task less.
        while counts and (counts[-1] == 0 or remaining + 1 > capacity_after[len(counts)]):
            remaining += counts.pop()
        if not counts:
            return
        counts[-1] -= 1
        remaining += 1
        descending = True


def _interchangeable_before(
    cluster: ClusterResources, nodes: list[Offer], requirements: list[TaskRequirements], *, future: bool
) -> list[int | None]:
    """For each node the nearest one before it that is interchangeable for all requirements."""
    eligible_by_need = [{node.number: eligible for node, eligible in cluster.eligible_nodes(need)} for need in requirements]
    shared = any(need.shared for need in requirements)
    seen: dict[tuple[object, ...], int] = {}
    found: list[int | None] = []
    for place, offer in enumerate(nodes):
        node = offer.node
        free = node.future if future else node.now()
        devices = tuple(
            (free.devices & eligible[node.number]).bit_count() if node.number in eligible else -1 for eligible in eligible_by_need
        )
        parts = (free.devices, *sorted(free.shares.items()), *node.units.items()) if shared else ()
        key = (devices, free.cpu_milli, free.memory_bytes, free.slots, parts)
        found.append(seen.get(key))
        seen[key] = place
    return found


def _devices_interchangeable(cluster: ClusterResources, wanted: list[tuple[TaskRequirements, int]]) -> bool:
    """Whether the result is independent of the choice of devices within a node.

    It depends on it if a node has several models and two requirements accept overlapping sets of them, neither a subset of the
    other. Nested sets are fine: the narrower one is placed first. With GPU sharing it is independent if all devices of a
    node are equal and only the requirements placed last share them.
    """
    if any(need.shared for need, _ in wanted[:-1]):
        return False
    if wanted[-1][0].shared:
        return all(len(node.models) <= 1 and len(dict.fromkeys(node.units.values())) <= 1 for node in cluster.nodes.values())
    sets = [frozenset(need.models) for need, _ in wanted if need.models]
    crossing = any(one & other and not (one <= other or other <= one) for one in sets for other in sets)
    return not crossing or all(len(node.models) <= 1 for node in cluster.nodes.values())


def find_devices(
    cluster: ClusterResources,
    wanted: list[tuple[TaskRequirements, int]],
    scope: PlacementScope,
    budget: StepBudget,
    *,
    future: bool,
) -> list[TasksOnNode] | Literal["impossible", "gave-up"]:
    """Depth-first over the tasks, within the budget; `cluster` is unchanged.

    Of equal devices of a node, and of equal nodes, only one is tried; equal tasks go to nodes in ascending order.
    """
    tasks = [need for need, count in wanted for _ in range(count)]

    def choices(taken: Sequence[TasksOnNode]) -> Iterator[tuple[NodeResources, int]]:
        return _choices(cluster, tasks, taken, scope, future=future)

    def take(at: int, choice: tuple[NodeResources, int]) -> TasksOnNode:
        return take_devices(cluster, tasks[at], *choice)

    return backtrack(cluster, scope, budget, len(tasks), choices, take)


def _choices(
    cluster: ClusterResources,
    tasks: list[TaskRequirements],
    placed: Sequence[TasksOnNode],
    scope: PlacementScope,
    *,
    future: bool,
) -> Iterator[tuple[NodeResources, int]]:
    """Nodes and devices for the next task; none if one of the remaining tasks does not fit even on its own."""
    remaining: dict[TaskRequirements, int] = {}
    for task in tasks[len(placed) :]:
        remaining[task] = remaining.get(task, 0) + 1
    if not all(has_capacity(cluster, need, count, scope, future=future) for need, count in remaining.items()):
        return
    need = tasks[len(placed)]
    min_number = placed[-1].node.number if placed and placed[-1].need == need else -1
    seen: dict[object, None] = {}
    for offer in sorted(offers(cluster, need, scope, future=future), key=lambda offer: offer.node.number):
        key = _equivalence_key(offer.node, list(remaining), future=future)
        if offer.node.number >= min_number and key not in seen:
            seen[key] = None
            for mask in device_choices(need, offer.node, offer.devices, future=future):
                yield offer.node, mask


def _equivalence_key(node: NodeResources, requirements: list[TaskRequirements], *, future: bool) -> object:
    """Equal for nodes that are interchangeable for all remaining tasks."""
    free = node.future if future else node.now()
    admits = tuple(not need.nodes or node.name in need.nodes for need in requirements)
    selected = tuple(need.selector.admits(node.name, node.labels) for need in requirements)
    kinds = sorted(device_class(node, number, future=future) for number in bits(node.usable))
    return (admits, selected, free.cpu_milli, free.memory_bytes, free.slots, tuple(kinds))


def device_class(node: NodeResources, number: int, *, future: bool) -> tuple[int, int, str]:
    """Free units, total units, and model and profile of a device: equal for interchangeable devices."""
    free, units = node.future if future else node.now(), node.units[number]
    free_units = units if free.devices >> number & 1 else max(0, free.shares.get(number, 0))
    model = next(name for name, mask in node.models.items() if mask >> number & 1)
    profile = next(name for name, mask in node.profiles.items() if mask >> number & 1)
    return free_units, units, f"{model} {profile}" if profile else model


def device_choices(need: TaskRequirements, node: NodeResources, eligible: int, *, future: bool) -> Iterator[int]:
    """Device masks for one task, one per set of interchangeable devices."""
    by_key: dict[tuple[int, int, str], list[int]] = {}
    for number in bits(eligible):
        kind = device_class(node, number, future=future)
        free, units, _ = kind
        if free == units if need.gpus else free >= need.share(units):
            by_key.setdefault(kind, []).append(number)
    groups = [by_key[kind] for kind in sorted(by_key)]

    def choose(at: int, missing: int) -> Iterator[int]:
        if not missing:
            yield 0
        elif at < len(groups):
            for count in range(min(missing, len(groups[at])), -1, -1):
                mask = sum(1 << number for number in groups[at][:count])
                for others in choose(at + 1, missing - count):
                    yield mask | others

    return choose(0, need.devices)
