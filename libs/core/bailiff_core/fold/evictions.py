"""Evictions, of whole jobs and of single members: decided, begun, stuck, taken back."""

from collections.abc import Iterator
from dataclasses import replace

from bailiff_core.model.places import numbers
from bailiff_core.model.pool import Eviction, Job, Pool, Task
from bailiff_core.records import decisions, facts

from .gang import note_stale
from .growth import drop_reserved
from .register import folds
from .room import changing, drop_promise, leave_whole, phase_of, reindex, set_phase


@folds(decisions.EvictionDecided)
def eviction_decided(pool: Pool, decision: decisions.EvictionDecided) -> None:
    """The attempt is to end, or these members of it."""
    job = pool.jobs[decision.job]
    eviction = Eviction(pool.seq, decision.cause, decision.grace)
    if decision.tasks:
        leave_in_part(pool, job, numbers(decision.tasks), eviction)
    else:
        leave_whole(pool, job, eviction)
    pool.room_grew = True


def leave_in_part(pool: Pool, job: Job, indices: list[int], eviction: Eviction) -> None:
    """These members leave, the job goes on. Of those that were only promised room, it is free at once."""
    drop_reserved(pool, job, indices)
    with changing(pool, job):
        for index in indices:
            task = job.task(index)
            if task is not None:
                task.eviction = replace(eviction)
    note_stale(pool, job)
    reindex(pool, job)


@folds(facts.EvictionBegun)
def eviction_begun(pool: Pool, fact: facts.EvictionBegun) -> None:
    """From here on agents may be told, by the order of this record."""
    job = pool.jobs[fact.job]
    for eviction in (job.eviction, *(task.eviction for task in job.tasks)):
        if eviction is not None and eviction.decided_seq == fact.decided and eviction.begun_seq is None:
            eviction.begun_seq, eviction.begun_at = pool.seq, pool.now


@folds(decisions.EvictionStuck)
def eviction_stuck(pool: Pool, decision: decisions.EvictionStuck) -> None:
    """Nobody counts on this room any more."""
    job = pool.jobs[decision.job]
    with changing(pool, job):
        for eviction in _meant(job, decision.tasks):
            eviction.stuck = True
    for name in (*pool.reserved, *pool.leaving):
        pool.touched[name] = None


@folds(decisions.EvictionWithdrawn)
def eviction_withdrawn(pool: Pool, decision: decisions.EvictionWithdrawn) -> None:
    """Never told: it is as if nothing had been. Told: the agents' confirmations are awaited."""
    job = pool.jobs[decision.job]
    drop_promise(pool, job, numbers(decision.tasks) if decision.tasks else [task.index for task in job.promise])
    with changing(pool, job):
        if not decision.told:
            _stay(job, decision.tasks)
        for eviction in _meant(job, decision.tasks):
            eviction.spare_seq = pool.seq
    if not decision.told:
        pool.touched[job.id] = None
        note_stale(pool, job)
        set_phase(pool, job, phase_of(job) if job.eviction is None else job.phase)


def _stay(job: Job, tasks: str) -> None:
    if not tasks:
        job.eviction = None
    for task in _members(job, tasks) if tasks else ():
        task.eviction = None


def _meant(job: Job, tasks: str) -> Iterator[Eviction]:
    """The evictions that a decision about these members, or about the whole job, is about."""
    if not tasks and job.eviction is not None:
        yield job.eviction
    for task in _members(job, tasks) if tasks else ():
        if task.eviction is not None:
            yield task.eviction


def _members(job: Job, tasks: str) -> list[Task]:
    chosen = dict.fromkeys(numbers(tasks))
    return [task for task in job.tasks if task.index in chosen]
