"""The queue of pending jobs as part of the state: by priority, submission and id."""

from bisect import bisect_left, insort

from bailiff_core.model.state import Job, PoolState


def queue_key(job: Job) -> tuple[int, int, str]:
    """Sort key, smaller first: higher priority, earlier submitted, smaller id."""
    return (-job.priority, job.seq, job.id)


def enqueue(state: PoolState, job: Job) -> None:
    """Inserts a job into the queue."""
    state.indices.changed_jobs[job.id] = state.indices.to_schedule[job.id] = state.indices.queued[job.id] = None
    if state.queue and queue_key(state.jobs[state.queue[-1]]) > queue_key(job):
        insort(state.queue, job.id, key=lambda name: queue_key(state.jobs[name]))
    else:  # most jobs are the last of a long queue
        state.queue.append(job.id)


def dequeue(state: PoolState, job: Job) -> None:
    """Removes a job from the queue.

    Raises:
        ValueError: If it is not queued.
    """
    first = bool(state.queue) and state.queue[0] == job.id
    at = 0 if first else bisect_left(state.queue, queue_key(job), key=lambda name: queue_key(state.jobs[name]))
    if at == len(state.queue) or state.queue[at] != job.id:
        raise ValueError(f"job {job.id} does not wait in the queue")
    del state.queue[at], state.indices.queued[job.id]
    state.indices.to_schedule.pop(job.id, None)
    state.indices.backfill_blocked.pop(job.id, None)
    state.indices.withheld.pop(job.id, None)
