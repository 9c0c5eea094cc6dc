"""Attempts that are over, jobs that were cancelled, gangs that broke."""

from collections.abc import Iterator
from itertools import islice

from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.room import work_lost
from bailiff_core.records.decisions import EvictionDecided, JobEnded, JobRequeued, ReservationDropped
from bailiff_core.records.payload import Decision

from .outcome import gang_verdict, verdict

FIRST_BACKOFF = 1_000_000
LONGEST_BACKOFF = 64_000_000
CODES_TOLD = 100


def cancelled_jobs(pool: Pool) -> Iterator[Decision]:
    """A cancelled job that holds nothing ends at once; its reservation is dropped first."""
    for job in _touched(pool):
        if job.cancelled and job.phase == "reserved":
            yield ReservationDropped(job=job.id, reason="cancelled", plan=job.plan)
        if job.cancelled and job.phase == "pending":
            yield JobEnded(job=job.id, attempt=job.attempt, outcome="cancelled")


def finished_attempts(pool: Pool) -> Iterator[Decision]:
    """All tasks gone: the job has ended, or it goes back to its place in the queue."""
    for job in _touched(pool):
        if job.tasks and all(task.state == "released" for task in job.tasks):
            yield _end_or_requeue(pool, job)


def _end_or_requeue(pool: Pool, job: Job) -> Decision:
    outcome = gang_verdict(job)
    codes = dict(islice(((str(task.index), task.exit_code) for task in job.tasks if task.exit_code), CODES_TOLD))
    cause = job.eviction.cause if job.eviction is not None else "exit"
    if outcome == "finished":
        return JobEnded(job=job.id, attempt=job.attempt, outcome="succeeded", exit_codes=codes)
    if job.cancelled:
        return JobEnded(job=job.id, attempt=job.attempt, outcome="cancelled", exit_codes=codes)
    if outcome == "failed" and job.failures >= job.demand.max_failures:
        first = next(task for task in job.tasks if verdict(task) == "failed")
        reason = f"task {first.index} ended with exit code {first.exit_code}"
        return JobEnded(job=job.id, attempt=job.attempt, outcome="failed", exit_codes=codes, reason=reason)
    if outcome.startswith("preempted") and job.demand.on_eviction == "end":
        return JobEnded(job=job.id, attempt=job.attempt, outcome="evicted", exit_codes=codes)
    rules = pool.rules.preemption
    preempted = outcome.startswith("preempted")
    backoff = min(FIRST_BACKOFF << min(job.attempt, 16), LONGEST_BACKOFF)
    return JobRequeued(
        job=job.id,
        attempt=job.attempt,
        outcome=outcome,
        cause=cause,
        lost_gpu_ms=work_lost(job, pool.now, rules.restart_cost, rules.max_counted_loss),
        not_before=0 if preempted else pool.now + backoff,
    )


def broken_attempts(pool: Pool) -> Iterator[Decision]:
    """A cancelled running job, and a gang that lost a member, are stopped whole."""
    for job in _touched(pool):
        if job.phase not in ("starting", "running"):
            continue
        broken = [task for task in job.tasks if task.state in ("exited", "released") and verdict(task) != "finished"]
        alive = any(task.state in ("starting", "running") for task in job.tasks)
        if job.cancelled and alive:
            yield _stop(pool, job, "cancelled", "its owner wants it gone")
        elif broken and alive:
            yield _stop(pool, job, "gang-failure", f"task {broken[0].index} is gone, so the gang stops")


def _stop(pool: Pool, job: Job, cause: str, reason: str) -> Decision:
    return EvictionDecided.model_validate(
        {"job": job.id, "attempt": job.attempt, "cause": cause, "grace": grace_of(pool, job), "reason": reason}
    )


def grace_of(pool: Pool, job: Job) -> int:
    """How long the job has from notice to KILL: its own word, else its class's, else the policy's. µs."""
    if job.demand.grace is not None:
        return job.demand.grace
    entry = pool.rules.find_class(job.class_name)
    return entry.grace if entry is not None and entry.grace is not None else pool.rules.eviction.grace


def _touched(pool: Pool) -> list[Job]:
    return [pool.jobs[name] for name in pool.touched if name in pool.jobs]
