"""Evictions of whole jobs and of single tasks: decided, started, stuck, cancelled."""

from collections.abc import Iterator
from dataclasses import replace

from bailiff_core.model.evictions import evictions_of
from bailiff_core.model.parking import is_to_be_parked
from bailiff_core.model.placement_ranges import numbers
from bailiff_core.model.state import Eviction, Job, PoolState, Task
from bailiff_core.model.units import allocated_tasks
from bailiff_core.records import decisions, facts

from .allocation import changing, drop_reservation, evict_job, note_parked, phase_of, reindex, set_phase, set_reservation
from .elasticity import drop_reserved
from .gang import note_stale
from .registry import folds


@folds(decisions.EvictionDecided)
def eviction_decided(state: PoolState, decision: decisions.EvictionDecided) -> None:
    """Evicts the attempt, or these tasks of it."""
    job = state.jobs[decision.job]
    eviction = Eviction(state.seq, decision.cause, decision.grace)
    if decision.together:
        restart_without(state, job, numbers(decision.tasks), eviction)
    elif decision.tasks:
        evict_tasks(state, job, numbers(decision.tasks), eviction)
    else:
        evict_job(state, job, eviction)
    state.indices.retry_unschedulable = True


def evict_tasks(state: PoolState, job: Job, indices: list[int], eviction: Eviction) -> None:
    """Evicts these tasks; the job continues. Reserved tasks among them are dropped at once."""
    drop_reserved(state, job, indices, eviction.cause)
    with changing(state, job):
        for index in indices:
            task = job.task(index)
            if task is not None:
                task.eviction = replace(eviction)
    note_stale(state, job)
    reindex(state, job)


def restart_without(state: PoolState, job: Job, indices: list[int], eviction: Eviction) -> None:
    """Evicts the job whole, and reserves its other tasks their places for the next attempt."""
    others = [task for task in allocated_tasks(job) if task.index not in indices and task.state != "reserved"]
    evict_job(state, job, replace(eviction, shrinks=True))
    until = state.now + state.rules.preemption.reservation_expiry + eviction.grace
    set_reservation(state, job, [Task(task.index, task.node, task.devices, "reserved") for task in others], until)


def extend_restart(state: PoolState, job: Job, indices: list[int], grace: int) -> None:
    """Of a job that is evicted to restart with fewer tasks, these lose their places, too. Of none left, it is evicted whole."""
    assert job.eviction is not None
    drop_reservation(state, job, indices)
    with changing(state, job):
        job.eviction.grace = min(job.eviction.grace, grace)
        job.eviction.shrinks = bool(job.reservation)


@folds(facts.EvictionStarted)
def eviction_started(state: PoolState, fact: facts.EvictionStarted) -> None:
    """From here on agents may be notified, ordered by this record. Whether the job is parked is settled now."""
    job = state.jobs[fact.job]
    for entry in evictions_of(job):
        starts = entry.eviction.decided_seq == fact.decided_by and entry.eviction.started_seq is None
        if starts and is_to_be_parked(state, entry):
            entry.eviction.parks = True
            note_parked(state, job)
    for eviction in (job.eviction, *(task.eviction for task in job.tasks)):
        if eviction is not None and eviction.decided_seq == fact.decided_by and eviction.started_seq is None:
            eviction.started_seq, eviction.started_at = state.seq, state.now


@folds(decisions.GraceShortened)
def grace_shortened(state: PoolState, decision: decisions.GraceShortened) -> None:
    """Agents are told, ordered by this record."""
    job = state.jobs[decision.job]
    for eviction in _evictions_of(job, decision.tasks):
        eviction.grace, eviction.shortened_seq = decision.grace, state.seq


@folds(decisions.EvictionStuck)
def eviction_stuck(state: PoolState, decision: decisions.EvictionStuck) -> None:
    """Its resources no longer count as releasing."""
    job = state.jobs[decision.job]
    with changing(state, job):
        for eviction in _evictions_of(job, decision.tasks):
            eviction.stuck = True
    for name in (*state.reserved, *state.evicting):
        state.indices.touched[name] = None


@folds(decisions.EvictionCancelled)
def eviction_cancelled(state: PoolState, decision: decisions.EvictionCancelled) -> None:
    """Not notified: the eviction is removed. Notified: the agents' confirmations are awaited."""
    job = state.jobs[decision.job]
    drop_reservation(state, job, numbers(decision.tasks) if decision.tasks else [task.index for task in job.reservation])
    with changing(state, job):
        if not decision.notified:
            _remove_eviction(job, decision.tasks)
        for eviction in _evictions_of(job, decision.tasks):
            eviction.cancel_seq = state.seq
    if not decision.notified:
        state.indices.touched[job.id] = None
        note_stale(state, job)
        set_phase(state, job, phase_of(job) if job.eviction is None else job.phase)


def _remove_eviction(job: Job, tasks: str) -> None:
    if not tasks:
        job.eviction = None
    for task in _members(job, tasks):
        task.eviction = None


def _evictions_of(job: Job, tasks: str) -> Iterator[Eviction]:
    """Yields the evictions of these tasks, or of the whole job if there are none."""
    if not tasks and job.eviction is not None:
        yield job.eviction
    for task in _members(job, tasks):
        if task.eviction is not None:
            yield task.eviction


def _members(job: Job, tasks: str) -> list[Task]:
    chosen = dict.fromkeys(numbers(tasks))
    return [task for task in job.tasks if task.index in chosen]
