"""Migrate: moves running jobs to a reserved placement, on request or because their node is drained."""

from collections.abc import Iterator
from dataclasses import replace

from bailiff_core.lifecycle.operator_actions import drain_terms, requires_nodes
from bailiff_core.lifecycle.termination import ACTIVE
from bailiff_core.model.grace import grace_of
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, allocated_tasks, stopped_tasks
from bailiff_core.model.work_lost import eviction_loss
from bailiff_core.placement.gang import GangPlacement, NoFit, place_unit
from bailiff_core.placement.islands import islands_used
from bailiff_core.placement.placement_codec import encode_placement
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.quota.maintenance import closed_to
from bailiff_core.records.decisions import MigrationDecided, MigrationRefused
from bailiff_core.records.payload import Decision
from bailiff_core.scheduling_snapshot import current_snapshot

from .failure import attribute_errors_to

MAX_REASON_CHARS = 2000


def migrations(state: PoolState) -> Iterator[Decision]:
    """Decides or refuses each migration request in the decision cycle in which it arrived."""
    for job in state.touched_jobs():
        if job.operator_request is None or job.operator_request.kind != "migrate" or job.phase not in ACTIVE:
            continue
        with attribute_errors_to(job):
            found = place_elsewhere(state, job, job.operator_request.node)
            if isinstance(found, str):
                yield MigrationRefused(job=job.id, attempt=job.attempt, reason=found[:MAX_REASON_CHARS])
                continue
            yield _migration(state, job, found, grace_of(state, job), job.operator_request.reason)


def drain_migrations(state: PoolState) -> Iterator[Decision]:
    """Migrates jobs off nodes that are drained gracefully, as soon as they fit on other nodes.

    Only jobs that subscribe to eviction notices: they lose at most one step. The others may run to their end.
    """
    for job in list(state.active_jobs()) if state.indices.retry_unschedulable else state.touched_jobs():
        if not moves_off_drained_nodes(state, job):
            continue
        with attribute_errors_to(job):
            found = place_elsewhere(state, job, None)
            if not isinstance(found, str):
                yield _migration(state, job, found, *drain_terms(state, job, job.tasks))


def moves_off_drained_nodes(state: PoolState, job: Job) -> bool:
    """Whether all of the job listens, one of its nodes is drained gracefully, and it cannot run without its drained nodes."""
    if job.phase not in ACTIVE or job.suspended_reason is not None:
        return False
    if not all(task.state == "running" and task.attached and task.eviction is None for task in job.tasks):
        return False
    drains = {task.node: state.nodes[task.node].drain for task in job.tasks if task.node in state.draining}
    graceful = any(drain is not None and drain.mode == "graceful" for drain in drains.values())
    return graceful and requires_nodes(job, dict.fromkeys(drains))


def _migration(state: PoolState, job: Job, place: GangPlacement, grace: int, reason: str) -> Decision:
    expires = state.now + state.rules.preemption.reservation_expiry + grace
    loss = eviction_loss(state, job, allocated_tasks(job), whole=True, moved=True)
    return MigrationDecided(
        job=job.id,
        attempt=job.attempt,
        placement=encode_placement(place),
        grace=grace,
        expires=expires,
        reason=reason,
        lost_gpu_ms=sum(loss),
        measured=loss.measured > 0,
        island=islands_used(state, job, place.tasks),
    )


def place_elsewhere(state: PoolState, job: Job, node: str | None) -> GangPlacement | str:
    """A placement of the job's running tasks on free resources, or a sentence why there is none.

    The job's own resources do not count as free: the new placement is reserved before the job is evicted from the old one.

    Args:
        node: The target; None: any node but the job's own.
    """
    cluster = current_snapshot(state).cluster
    own, never = dict.fromkeys(task.node for task in job.tasks), closed_to(state, job)
    closed = [
        entry
        for entry in cluster.nodes.values()
        if (entry.number in own if node is None else entry.name != node) or entry.name in never
    ]
    if len(closed) == len(cluster.nodes):
        return "no other node is schedulable"
    members = tuple(task.index for task in stopped_tasks(job, allocated_tasks(job), whole=True))
    moved = Unit(replace(job, tasks=[], reservation=[]), members, core=True)
    mark = cluster.mark()
    for entry in closed:
        cluster.close(entry)
    found = place_unit(cluster, moved, StepBudget(state.rules.preemption.search_steps))
    cluster.rollback(mark)
    if isinstance(found, NoFit):
        return found.why
    if found.future:
        return "it fits elsewhere only once evicting jobs have released their resources"
    return replace(found, future=True)
