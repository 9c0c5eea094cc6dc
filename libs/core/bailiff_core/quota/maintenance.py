"""Nodes with maintenance to come: a job gets none of them that it could not leave in time."""

from dataclasses import replace

from bailiff_core.humanize import window_text
from bailiff_core.model.state import Job, Maintenance, PoolState
from bailiff_core.model.units import Unit

from .leaving import gone_after_start


def closed_to(state: PoolState, job: Job) -> tuple[str, ...]:
    """The nodes on which the job may not start now, as it could not be gone by their maintenance."""
    if not state.maintenance:
        return ()
    gone = gone_after_start(state, job)
    return tuple(sorted(state.nodes[number].name for number, each in state.maintenance.items() if each.begin < gone))


def on_open_nodes(state: PoolState, unit: Unit) -> Unit:
    """The unit, without the nodes that are closed to its job."""
    closed, demand = closed_to(state, unit.job), unit.job.demand
    if not closed:
        return unit
    groups = [group.model_copy(update={"excluded_nodes": (*group.excluded_nodes, *closed)}) for group in demand.tasks]
    job = replace(unit.job, demand=demand.model_copy(update={"tasks": tuple(groups)}))
    return Unit(job, unit.indices, unit.core)


def with_maintenance(state: PoolState, job: Job, why: str) -> str:
    """Why the job does not fit, and the nodes that are closed to it."""
    closed = closed_to(state, job)
    if not closed:
        return why
    first = state.maintenance[state.node_numbers[closed[0]]]
    more = f" and {len(closed) - 1} more" if len(closed) > 1 else ""
    return f"{why}; it could not be gone before {maintenance_text(closed[0], first)}{more}"


def maintenance_text(node: str, each: Maintenance) -> str:
    """`the maintenance of n1, 2026-12-07 08:00 to 12:00 UTC`."""
    return f"the maintenance of {node}, {window_text(each.begin, each.end)}"
