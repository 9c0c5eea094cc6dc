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

    depends-on-devices: nothing was found, but another choice of devices within nodes might succeed.

    Equal nodes are interchangeable: of two, the first gets at least as many tasks.
    """

    def choices(taken: Sequence[list[TasksOnNode]]) -> Iterator[list[Offer]] | None:
        rest = wanted[len(taken) :]
        if taken and not all(capacity(cluster, need, scope, future=future) >= count for need, count in rest):
            return None
        return _spreads(cluster, wanted, len(taken), scope, future=future)

    def take(level: int, spread: list[Offer]) -> list[TasksOnNode]:
        need = wanted[level][0]
        return [take_chunk(cluster, need, offer.node, offer.devices, offer.count, future=future) for offer in spread]

    found = backtrack(cluster, scope, budget, len(wanted), choices, take)
    if found == "gave-up":
        return found
    if found != "impossible":
        return [chunk for level in found for chunk in level]
    return "impossible" if _devices_interchangeable(cluster, wanted) else "depends-on-devices"


def _spreads(
    cluster: ClusterResources, wanted: list[tuple[TaskRequirements, int]], level: int, scope: PlacementScope, *, future: bool
) -> Iterator[list[Offer]]:
    """All distributions of the level's tasks over nodes, the most packed first; each offer with its number of tasks."""
    need, count = wanted[level]
    nodes = list(offers(cluster, need, scope, future=future))
    caps = [offer.count for offer in nodes]
    if level == len(wanted) - 1:  # last level: any distribution will do
        yield [replace(offer, count=n) for offer, n in zip(nodes, _packed(caps, count), strict=True) if n]
        return
    twin = _twins(cluster, nodes, [need for need, _ in wanted], future=future)
    room_after = [0] * (len(caps) + 1)
    for place in range(len(caps) - 1, -1, -1):
        room_after[place] = room_after[place + 1] + caps[place]
    counts: list[int] = []
    remaining = count
    going_down = True
    while True:
        if going_down and len(counts) < len(caps):
            place = len(counts)
            most = min(caps[place], remaining)
            before = twin[place]
            if before is not None:
                most = min(most, counts[before])
            counts.append(most)
            remaining -= most
            going_down = remaining <= room_after[place + 1]
            continue
        if going_down and remaining == 0:
            yield [replace(offer, count=n) for offer, n in zip(nodes, counts, strict=True) if n]
        # Backtrack to the last node that can take one task less.
        while counts and (counts[-1] == 0 or remaining + 1 > room_after[len(counts)]):
            remaining += counts.pop()
        if not counts:
            return
        counts[-1] -= 1
        remaining += 1
        going_down = True


def _packed(caps: list[int], count: int) -> list[int]:
    counts = []
    for cap in caps:
        counts.append(min(cap, count))
        count -= counts[-1]
    return counts


def _twins(
    cluster: ClusterResources, nodes: list[Offer], requirements: list[TaskRequirements], *, future: bool
) -> list[int | None]:
    """For each node the nearest one before it that is interchangeable for all requirements."""
    eligible_by_need = [{node.number: eligible for node, eligible in cluster.eligible_nodes(need)} for need in requirements]
    shared = any(need.shared for need in requirements)
    seen: dict[tuple[object, ...], int] = {}
    found: list[int | None] = []
    for place, offer in enumerate(nodes):
        node = offer.node
        room = node.future if future else node.now()
        devices = tuple(
            (room.devices & eligible[node.number]).bit_count() if node.number in eligible else -1 for eligible in eligible_by_need
        )
        parts = (room.devices, *sorted(room.shares.items()), *node.units.items()) if shared else ()
        key = (devices, room.cpu_milli, room.memory_bytes, room.slots, parts)
        found.append(seen.get(key))
        seen[key] = place
    return found


def _devices_interchangeable(cluster: ClusterResources, wanted: list[tuple[TaskRequirements, int]]) -> bool:
    """Whether the choice of devices within a node does not matter.

    It matters if a node has several models and two requirements accept overlapping sets of them, neither a subset of the
    other. Nested sets are fine: the narrower one is placed first. With GPU sharing it does not matter if all devices of a
    node are equal and only the requirements placed last share them.
    """
    if any(need.shared for need, _ in wanted[:-1]):
        return False
    if wanted[-1][0].shared:
        return all(len(node.models) <= 1 and len(dict.fromkeys(node.units.values())) <= 1 for node in cluster.nodes.values())
    sets = [frozenset(need.models) for need, _ in wanted if need.models]
    crossing = any(one & other and not (one <= other or other <= one) for one in sets for other in sets)
    return not crossing or all(len(node.models) <= 1 for node in cluster.nodes.values())
