"""`snapshot-retention`: until when the snapshot of a job is kept that does not run."""

from bailiff_core.model.job_rules import KEPT_FOR
from bailiff_core.model.state import Job, PoolState

NAME = "snapshot-retention"


def due(state: PoolState, job: Job) -> int | None:
    """When it is over, µs; `None`: the job runs, has no snapshot, or the policy keeps it."""
    if job.snapshot is None or job.phase not in ("waiting", "pending", "paused"):
        return None
    kept_for = KEPT_FOR.of(state, job).value
    return None if kept_for is None else job.queued_since + kept_for
