"""Places all tasks of a unit together, or gives the reason why the unit does not fit."""

from collections.abc import Iterator

from bailiff_core.model.units import Unit

from .cluster_resources import ClusterResources
from .islands import prefers_islands
from .packing import ANYWHERE, PlacementScope, TasksOnNode, has_capacity
from .packing_search import pack
from .result import GangPlacement, NoFit, TaskPlacement
from .step_budget import StepBudget
from .task_requirements import TasksByRequirements, requirements_of_unit
from .topology import PlacedTasks, TopologySearch
from .topology_parts import has_topology_constraints, topology_parts_of, topology_problem

__all__ = ["GangPlacement", "NoFit", "TaskPlacement", "cannot_fit", "has_uniform_tasks", "is_spread", "place_unit"]


def place_unit(cluster: ClusterResources, unit: Unit, budget: StepBudget, *, reserve: bool = False) -> GangPlacement | NoFit:
    """Place all tasks of the unit together. On success their resources are taken in `cluster`, else `cluster` is unchanged.

    If the resources that are free now suffice, only these are used and the unit may start now. Otherwise, or with
    `reserve`, releasing resources count as free too, and the whole placement is a reservation.
    """
    found = _places(cluster, unit, budget, reserve=reserve)
    if isinstance(found, NoFit):
        return found
    future = reserve or any(chunk.future for _, chunks in found for chunk in chunks)
    places = [place for requirements, chunks in found for place in _assign(cluster, requirements, chunks, future=future)]
    if len(places) > 1:
        places.sort(key=_index)
    return GangPlacement(tuple(places), future)


def _index(place: TaskPlacement) -> int:
    return place.index


def _places(cluster: ClusterResources, unit: Unit, budget: StepBudget, *, reserve: bool) -> PlacedTasks | NoFit:
    scope = PlacementScope(spread=is_spread(cluster, unit), islands=prefers_islands(unit.job.demand, cluster.policy))
    if has_topology_constraints(unit.job.demand):
        problem = topology_problem(unit.job.demand, cluster.policy)
        if problem is not None:
            return NoFit("impossible", problem)
        parts = topology_parts_of(unit, cluster.policy)
        if parts.rules():
            return TopologySearch(cluster, parts, budget, scope).place(reserve=reserve)
    requirements = requirements_of_unit(unit)
    wanted = {need: len(indices) for need, indices in requirements.items()}
    found = NoFit("impossible", "") if reserve else pack(cluster, wanted, scope, budget, future=False, explain=False)
    if isinstance(found, NoFit):
        found = pack(cluster, wanted, scope, budget, future=True)
    return found if isinstance(found, NoFit) else [(requirements, found)]


def cannot_fit(cluster: ClusterResources, unit: Unit) -> bool:
    """Whether some task type of the unit does not fit even on its own: a quick negative test."""
    return not all(
        has_capacity(cluster, need, len(indices), ANYWHERE, future=True) for need, indices in requirements_of_unit(unit).items()
    )


def has_uniform_tasks(unit: Unit) -> bool:
    """Whether all its tasks have equal requirements and no topology constraint: then more free resources never hurt."""
    requirements = requirements_of_unit(unit)
    return len(requirements) == 1 and not next(iter(requirements)).shared and not has_topology_constraints(unit.job.demand)


def is_spread(cluster: ClusterResources, unit: Unit) -> bool:
    """Whether its tasks are spread over nodes instead of packed."""
    policy = cluster.policy
    return (unit.job.demand.pack or (policy.packing if policy is not None else "binpack")) == "spread"


def _assign(
    cluster: ClusterResources, requirements: TasksByRequirements, chunks: list[TasksOnNode], *, future: bool
) -> Iterator[TaskPlacement]:
    """Take the resources and assign them to the tasks, in index order per requirements."""
    unassigned = {need: iter(indices) for need, indices in requirements.items()}
    for chunk in chunks:
        for mask in chunk.masks:
            cluster.take(chunk.node, chunk.need.amount(chunk.node.units, mask), future=future)
            yield TaskPlacement(next(unassigned[chunk.need]), chunk.node.number, mask)
