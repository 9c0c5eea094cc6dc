"""Keeps `pool.queue` sorted."""

from bisect import bisect_left

from bailiff_core.model.pool import Job, Pool


def queue_key(job: Job) -> tuple[int, int, str]:
    """Sorts jobs into queue order: high priority first, then the older one, then by id."""
    return (-job.priority, job.seq, job.id)


def enqueue(pool: Pool, job: Job) -> None:
    """Put the job at its place in the queue; nothing happens if it stands there already."""
    place = _place(pool, job)
    if pool.queue[place : place + 1] != [job.id]:
        pool.queue.insert(place, job.id)


def dequeue(pool: Pool, job: Job) -> None:
    """Take the job out of the queue; nothing happens if it does not stand there."""
    place = _place(pool, job)
    if pool.queue[place : place + 1] == [job.id]:
        del pool.queue[place]


def _place(pool: Pool, job: Job) -> int:
    return bisect_left(pool.queue, queue_key(job), key=lambda name: queue_key(pool.jobs[name]))
