"""Orders snapshots of running jobs at the intervals that they ask for, of so many jobs at a time as the policy allows; and
drops those of jobs that have not run for longer than the policy keeps them.
"""

from collections.abc import Iterator

from bailiff_core.model.snapshots import why_not_saved
from bailiff_core.model.state import PoolState
from bailiff_core.records.decisions import JobCheckpointDue, SnapshotExpired
from bailiff_core.records.payload import Decision

from . import snapshot_interval as rule
from . import snapshot_retention
from .timers import timers_of


def periodic_snapshots(state: PoolState) -> Iterator[Decision]:
    """Saves the jobs that have waited longest. Those that somebody has saved by request hold up none of them."""
    due = timers_of(state).due(state, rule.NAME)
    silent = dict.fromkeys(job.id for job in due)
    saving = sum(state.jobs[name].saving_at_interval and name not in silent for name in state.saving)
    for job in due:
        if saving >= state.rules.snapshots.at_once:
            return
        if job.saving_seq is None and not why_not_saved(state, job):
            saving += 1
            yield JobCheckpointDue(job=job.id, attempt=job.attempt)


def expired_snapshots(state: PoolState) -> Iterator[Decision]:
    """Before jobs are placed: what has expired is not restored any more."""
    for job in timers_of(state).due(state, snapshot_retention.NAME):
        assert job.snapshot is not None
        yield SnapshotExpired(job=job.id, attempt=job.snapshot.attempt, lost_gpu_ms=job.snapshot.work_gpu_ms)
