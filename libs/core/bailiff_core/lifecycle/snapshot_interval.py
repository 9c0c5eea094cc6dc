"""`snapshot-interval`: when a running job is to be saved by its nodes."""

from bailiff_core.model.state import Job, PoolState

NAME = "snapshot-interval"


def due(state: PoolState, job: Job) -> int | None:
    """When it is due, µs; `None`: it is not."""
    every = job.demand.checkpoint_every
    if every is None or job.phase != "running" or job.last_start is None or job.saving_seq is not None:
        return None
    return max(job.last_start, job.saving_since or 0) + max(every, state.rules.snapshots.min_interval)
