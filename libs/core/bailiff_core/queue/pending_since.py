"""Start of a job's current pending time."""

from bailiff_core.model.state import Job


def pending_since(job: Job) -> int:
    """When the job last joined the queue, µs: submitted, evicted, failed or lost. A dropped reservation does not restart it."""
    return max(job.submitted_at, job.last_eviction or 0, job.pending_since)
