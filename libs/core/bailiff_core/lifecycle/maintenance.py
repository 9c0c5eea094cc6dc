"""Maintenance of nodes: when it begins and ends, and the evictions that empty the nodes, at the last moment."""

from collections.abc import Iterator

from bailiff_core.model.grace import grace_of
from bailiff_core.model.state import PoolState
from bailiff_core.quota.leaving import leaving_time
from bailiff_core.quota.maintenance import maintenance_text
from bailiff_core.records.decisions import MaintenanceBegan, MaintenanceEnded
from bailiff_core.records.payload import Decision

from . import before_maintenance as rule
from .operator_actions import leaves_nodes, with_reason
from .timers import timers_of

MAX_NAMED = 100


def maintenance_times(state: PoolState) -> Iterator[Decision]:
    """Records when the maintenance of a node begins, with who is still there, and when it is over."""
    for number, each in list(state.maintenance.items()):
        node = state.nodes[number].name
        if not each.began and state.now >= each.begin:
            leaving = [job.id for job in state.active_jobs() if any(task.node == number for task in job.tasks)]
            yield MaintenanceBegan(node=node, begin=each.begin, end=each.end, leaving=tuple(leaving[:MAX_NAMED]))
        if state.now >= each.end:
            drain = state.nodes[number].drain
            apart = drain.mode if drain is not None and drain.seq != each.seq else ""
            yield MaintenanceEnded(node=node, begin=each.begin, end=each.end, drained=apart)


def maintenance_evictions(state: PoolState) -> Iterator[Decision]:
    """Evicts jobs from a node before its maintenance, once the last moment of each has come."""
    for job in timers_of(state).due(state, rule.NAME):
        last = state.now + leaving_time(state, job)
        tasks = [task for task in rule.tasks_there(state, job) if state.maintenance[task.node].begin <= last]
        first = min(tasks, key=lambda task: state.maintenance[task.node].begin).node
        each = state.maintenance[first]
        grace = grace_of(state, job)
        if each.begin > state.now:  # the rest of the margin is for what comes before the notice and after the KILL
            grace = min(grace, max(0, each.begin - state.rules.reservations.margin // 2 - state.now))
        reason = with_reason(maintenance_text(state.nodes[first].name, each), each.reason)
        yield leaves_nodes(state, job, tasks, reason, grace)


def next_maintenance_change(state: PoolState) -> int | None:
    """When the next maintenance begins or ends, µs; `None`: there is none."""
    edges = (time for each in state.maintenance.values() for time in (each.begin, each.end))
    return min((time for time in edges if time > state.now), default=None)
