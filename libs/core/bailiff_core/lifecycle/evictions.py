"""Evictions that are no longer wanted, and those that do not come to an end."""

from collections.abc import Iterator

from bailiff_core.model.pool import Job, Pool
from bailiff_core.records.decisions import EvictionStuck, EvictionWithdrawn
from bailiff_core.records.payload import Decision


def withdrawn_evictions(pool: Pool) -> Iterator[Decision]:
    """A preemption whose plan is gone: victims that nobody was told of stay, others if nothing of them has left yet."""
    for job in _leaving(pool):
        eviction = job.eviction
        if eviction is None or eviction.plan is None or eviction.plan in pool.plans or eviction.spare_seq is not None:
            continue
        told = eviction.begun_seq is not None
        if told and any(task.state in ("exited", "released") for task in job.tasks):
            continue
        yield EvictionWithdrawn(
            job=job.id,
            attempt=job.attempt,
            plan=eviction.plan,
            told=told,
            reason=f"{eviction.for_job} does not need the room any more",
        )


def stuck_evictions(pool: Pool) -> Iterator[Decision]:
    """Room that should have come free long ago is not counted on any more."""
    for job in _leaving(pool):
        due = stuck_at(pool, job)
        if due is not None and pool.now >= due:
            yield EvictionStuck(job=job.id, attempt=job.attempt)


def stuck_at(pool: Pool, job: Job) -> int | None:
    """When an eviction that was begun counts as stuck, µs on log time."""
    eviction = job.eviction
    if eviction is None or eviction.begun_at is None or eviction.stuck:
        return None
    return eviction.begun_at + eviction.grace + pool.rules.eviction.stuck_after


def _leaving(pool: Pool) -> list[Job]:
    return [pool.jobs[name] for name in pool.leaving]
