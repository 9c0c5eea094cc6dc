"""`park-limit`: until when an evicted job stays in the memory of its node."""

from bailiff_core.model.parking import parked_on
from bailiff_core.model.snapshots import driver_of
from bailiff_core.model.state import Job, PoolState

NAME = "park-limit"


def due(state: PoolState, job: Job) -> int | None:
    """When it is to be saved to disk, µs; `None`: it is not parked, goes on, is being saved, or its node cannot."""
    if job.snapshot is None or job.snapshot.parked_at is None or job.snapshot.save_seq is not None:
        return None
    node = parked_on(state, job)
    if job.phase not in ("waiting", "pending", "paused") or node is None or driver_of(node) is None:
        return None
    limit = state.rules.snapshots.park_limit
    return job.snapshot.parked_at + (0 if limit is None or node.drain is not None else limit)
