"""Orders snapshots of running jobs at the intervals that they ask for, of so many jobs at a time as the policy allows."""

from collections.abc import Iterator

from bailiff_core.model.snapshots import why_not_saved
from bailiff_core.model.state import PoolState
from bailiff_core.records.decisions import JobCheckpointDue
from bailiff_core.records.payload import Decision

from . import snapshot_interval as rule
from .timers import timers_of


def periodic_snapshots(state: PoolState) -> Iterator[Decision]:
    """Saves the jobs that have waited longest."""
    due = timers_of(state).due(state, rule.NAME)
    silent = sum(job.id in state.saving for job in due)
    for job in due:
        if len(state.saving) - silent >= state.rules.snapshots.at_once:
            return
        if job.saving_seq is None and not why_not_saved(state, job):
            yield JobCheckpointDue(job=job.id, attempt=job.attempt)
