"""Since when a job is pending."""

from bailiff_core.model.state import Job


def waiting_since(job: Job) -> int:
    """When it last joined the queue, µs: submitted, evicted, failed or lost. A dropped reservation begins no new wait."""
    return max(job.submitted_at, job.last_eviction or 0, job.pending_since)
