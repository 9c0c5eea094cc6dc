"""Jobs that wait for others: they join the queue, or end because a job that had to succeed did not."""

from collections.abc import Iterator

from bailiff_core.model.state import PoolState
from bailiff_core.records.decisions import DependenciesMet, JobEnded
from bailiff_core.records.payload import Decision

RULE = "dependency-failed"


def dependencies(state: PoolState) -> Iterator[Decision]:
    """Jobs that wait for none any more join the queue. Rule `dependency-failed`: those whose dependency failed are cancelled."""
    for job in state.touched_jobs():
        if job.phase != "waiting" or job.cancelled:
            continue
        if job.failed_dependency:
            reason = f"{job.failed_dependency}, which had to succeed before it, did not (rule {RULE})"
            yield JobEnded(job=job.id, attempt=job.attempt, outcome="cancelled", reason=reason)
        elif not job.waits_for:
            yield DependenciesMet(job=job.id)
