"""Exhaustive packing search for tasks of several requirements, used when greedy packing fails; bounded by a step budget."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from .backtracking import backtrack
from .cluster_resources import ClusterResources
from .node_scoring import Offer
from .packing import PlacementScope, TasksOnNode, capacity, offers, take_chunk
from .step_budget import StepBudget
from .task_requirements import TaskRequirements


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
    if level == len(wanted) - 1:  # last level: one distribution suffices
        yield [replace(offer, count=n) for offer, n in zip(nodes, _packed(capacities, count), strict=True) if n]
        return
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


def _packed(capacities: list[int], count: int) -> list[int]:
    counts = []
    for capacity_of_node in capacities:
        counts.append(min(capacity_of_node, count))
        count -= counts[-1]
    return counts


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
