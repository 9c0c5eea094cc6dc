"""`stale-gang`: a gang goes on for a while with a member too few, in case that is worth something, and then leaves whole.

It is stale while tasks of it run, none has succeeded, and a part of it that has members has fewer than its minimum.
"""

from bailiff_core.model.pool import Job, Pool

NAME = "stale-gang"


def grace(pool: Pool, job: Job) -> int | None:
    """How long it may go on, µs; 0: not at all; `None`: for ever."""
    stated = job.demand.stale_grace
    found = pool.rules.protections.stale_gang if stated is None else stated
    return None if found < 0 else found


def lacks_member(job: Job) -> bool:
    """Whether the job's present attempt is stale."""
    alive = [task for task in job.tasks if task.state in ("starting", "running")]
    if not alive or any(task.exit_code == 0 for task in job.tasks):
        return False
    minimum = {part.name: part.min_tasks for part in job.demand.sub_groups}
    if not minimum:
        return len(alive) < job.minimum
    groups = job.groups()
    counts: dict[str, list[int]] = {}
    for task in job.tasks:
        count = counts.setdefault(groups[task.index].sub_group or "", [0, 0])
        count[0] += 1
        count[1] += task.state in ("starting", "running")
    return any(running < min(placed, minimum.get(name) or placed) for name, (placed, running) in counts.items())


def note(pool: Pool, job: Job) -> None:
    """Keep since when the job is stale. Called when one of its tasks is gone."""
    if not lacks_member(job):
        job.stale_since = None
    elif job.stale_since is None:
        job.stale_since = pool.now
    pool.stale_times[job.id] = None


def due(pool: Pool, job: Job) -> int | None:
    """When its grace is over; a gang that may not go on at all is stopped as broken, not as stale."""
    if job.stale_since is None or job.phase not in ("starting", "running"):
        return None
    time = grace(pool, job)
    return job.stale_since + time if time else None
