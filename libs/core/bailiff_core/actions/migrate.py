"""Migrate: a job that somebody wants elsewhere, or whose node is emptied, leaves for a place that is kept for it."""

from collections.abc import Iterator
from dataclasses import replace

from bailiff_core.lifecycle.operator_actions import because, drain_grace, takes_whole
from bailiff_core.lifecycle.termination import ACTIVE
from bailiff_core.model.grace import grace_of
from bailiff_core.model.state import Drain, Job, PoolState
from bailiff_core.model.units import Unit, allocated_tasks
from bailiff_core.placement.gang import GangPlacement, NoFit, place_unit
from bailiff_core.placement.placement_codec import encode_placement
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.records.decisions import MigrationDecided, MigrationRefused
from bailiff_core.records.payload import Decision
from bailiff_core.scheduling_snapshot import current_snapshot

from .failure import about

LONGEST_TEXT = 2000


def migrations(state: PoolState) -> Iterator[Decision]:
    """Each wish is fulfilled or refused in the turn in which it came."""
    for job in state.touched_jobs():
        if job.operator_request is None or job.operator_request.kind != "migrate" or job.phase not in ACTIVE:
            continue
        with about(job):
            found = place_elsewhere(state, job, job.operator_request.node)
            if isinstance(found, str):
                yield MigrationRefused(job=job.id, attempt=job.attempt, reason=found[:LONGEST_TEXT])
                continue
            yield _moves(state, job, found, grace_of(state, job), job.operator_request.reason)


def moves_off_drained(state: PoolState) -> Iterator[Decision]:
    """Jobs on a node that is emptied gracefully move as soon as there is room for them elsewhere.

    Only those that listen for notices: they lose a step at most. For the others it is gracious to let them finish.
    """
    if not state.draining:
        return
    for job in list(state.active_jobs()) if state.indices.retry_unschedulable else state.touched_jobs():
        drain = leaves_gracefully(state, job)
        if drain is None:
            continue
        with about(job):
            found = place_elsewhere(state, job, None)
            if not isinstance(found, str):
                node = next(state.nodes[task.node] for task in job.tasks if task.node in state.draining)
                why = because(f"{node.name} is being emptied ({drain.mode})", drain.reason)
                yield _moves(state, job, found, drain_grace(state, job, drain), why)


def leaves_gracefully(state: PoolState, job: Job) -> Drain | None:
    """The drain of a node without which the job cannot go on, if it may move because of it."""
    if job.phase not in ACTIVE or job.suspended_reason is not None or not job.tasks:
        return None
    if not all(task.state == "running" and task.attached and task.eviction is None for task in job.tasks):
        return None
    drains = {task.node: state.nodes[task.node].drain for task in job.tasks if task.node in state.draining}
    drain = next((each for each in drains.values() if each is not None and each.mode == "graceful"), None)
    return drain if drain is not None and takes_whole(job, dict.fromkeys(drains)) else None


def _moves(state: PoolState, job: Job, place: GangPlacement, grace: int, reason: str) -> Decision:
    expires = state.now + state.rules.preemption.reservation_expiry + grace
    return MigrationDecided(
        job=job.id, attempt=job.attempt, placement=encode_placement(place), grace=grace, expires=expires, reason=reason
    )


def place_elsewhere(state: PoolState, job: Job, node: str | None) -> GangPlacement | str:
    """Free room for all that the job has running, on that node or on others than its own; or a sentence why there is none.

    Its own room does not count: the place has to be there before the job is told to leave the one that it has.
    """
    cluster = current_snapshot(state).cluster
    own = dict.fromkeys(task.node for task in job.tasks)
    closed = [room for room in cluster.nodes.values() if (room.number in own if node is None else room.name != node)]
    if len(closed) == len(cluster.nodes):
        return "there is no other node that takes work"
    members = tuple(task.index for task in allocated_tasks(job) if task.state != "reserved")
    anew = Unit(replace(job, tasks=[], reservation=[]), members, core=True)
    mark = cluster.mark()
    for room in closed:
        cluster.close(room)
    found = place_unit(cluster, anew, StepBudget(state.rules.preemption.search_steps))
    cluster.rollback(mark)
    if isinstance(found, NoFit):
        return found.why
    if found.future:
        return "there is room for it elsewhere only when others that are on their way out have left"
    return replace(found, future=True)
