"""The queue: pending jobs by priority, then age, then id."""

from bisect import bisect_left, insort

from bailiff_core.model.pool import Job, Pool


def queue_key(job: Job) -> tuple[int, int, str]:
    """Smaller comes first: higher priority, earlier submitted, smaller id."""
    return (-job.priority, job.seq, job.id)


def enqueue(pool: Pool, job: Job) -> None:
    """Put a pending job at its place."""
    insort(pool.queue, job.id, key=lambda name: queue_key(pool.jobs[name]))


def dequeue(pool: Pool, job: Job) -> None:
    """Take a job out. Raises `ValueError` where it does not wait."""
    at = bisect_left(pool.queue, queue_key(job), key=lambda name: queue_key(pool.jobs[name]))
    if at == len(pool.queue) or pool.queue[at] != job.id:
        raise ValueError(f"job {job.id} does not wait in the queue")
    del pool.queue[at]
