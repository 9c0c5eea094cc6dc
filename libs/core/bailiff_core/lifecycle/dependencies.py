"""Jobs that wait for others, or for a time: they join the queue, or end because a job that had to succeed did not."""

from collections.abc import Iterator

from bailiff_core.model.state import Job, PoolState, begins_later
from bailiff_core.records.decisions import DependenciesMet, JobEnded
from bailiff_core.records.payload import Decision

from . import begin
from .timers import timers_of

RULE = "dependency-failed"


def dependencies(state: PoolState) -> Iterator[Decision]:
    """Jobs that wait for none any more join the queue. Rule `dependency-failed`: those whose dependency failed are cancelled."""
    for job in state.touched_jobs():
        if job.phase != "waiting" or job.cancelled:
            continue
        if job.failed_dependency:
            reason = f"{job.failed_dependency}, which had to succeed before it, did not (rule {RULE})"
            yield JobEnded(job=job.id, attempt=job.attempt, outcome="cancelled", reason=reason)
        elif _may_begin(state, job):
            yield DependenciesMet(job=job.id)


def begun_jobs(state: PoolState) -> Iterator[Decision]:
    """Jobs whose time has come, and that wait for no other, join the queue."""
    for job in timers_of(state).due(state, begin.NAME):
        if _may_begin(state, job) and not job.failed_dependency:
            yield DependenciesMet(job=job.id)


def _may_begin(state: PoolState, job: Job) -> bool:
    return not job.waits_for and not begins_later(state, job)
