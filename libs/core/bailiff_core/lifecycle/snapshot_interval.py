"""`snapshot-interval`: when a running job is to be saved by its nodes."""

from bailiff_core.model.state import Job, PoolState

NAME = "snapshot-interval"
SILENT_AFTER = 3_600_000_000
"""A job that is being saved for so long, µs, holds up no other: its node may be of an older release, or lie."""


def due(state: PoolState, job: Job) -> int | None:
    """When it is due, µs; `None`: it is not. Of one that is being saved: from when on it holds up no other."""
    if job.saving_seq is not None:
        return (job.saving_since or 0) + SILENT_AFTER
    every = job.demand.checkpoint_every
    if every is None or job.phase != "running" or job.last_start is None:
        return None
    return max(job.last_start, job.saving_since or 0) + max(every, state.rules.snapshots.min_interval)
