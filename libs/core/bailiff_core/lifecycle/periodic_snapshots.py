"""Orders snapshots of running jobs at the intervals that they ask for, of so many jobs at a time as the policy allows."""

from collections.abc import Iterator

from bailiff_core.model.snapshots import why_not_saved
from bailiff_core.model.state import PoolState
from bailiff_core.records.decisions import JobCheckpointDue
from bailiff_core.records.payload import Decision

from . import snapshot_interval as rule
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
