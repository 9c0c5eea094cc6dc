"""Packing search for cases that depend on the choice of devices within a node: task by task over all distinct choices."""

from collections.abc import Iterator, Sequence
from typing import Literal

from bailiff_core.model.placement_ranges import bits

from .backtracking import backtrack
from .cluster_resources import ClusterResources, NodeResources
from .packing import PlacementScope, TasksOnNode, has_capacity, offers, take_devices
from .step_budget import StepBudget
from .task_requirements import TaskRequirements


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
    labels = tuple(need.selector.admits(node.labels) for need in requirements)
    kinds = sorted(device_class(node, number, future=future) for number in bits(node.usable))
    return (admits, labels, free.cpu_milli, free.memory_bytes, free.slots, tuple(kinds))


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
