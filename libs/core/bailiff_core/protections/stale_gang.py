"""`stale-gang`: a gang goes on for a while with a member too few, in case it gets another, and then leaves whole.

It is stale while tasks of it run, none has succeeded, and what is left does not reach its minimum (`fold/gang.py`).
"""

from bailiff_core.model.pool import Job, Pool

NAME = "stale-gang"


def grace(pool: Pool, job: Job) -> int | None:
    """How long it may go on, µs; 0: not at all; `None`: for ever."""
    stated = job.demand.stale_grace
    found = pool.rules.protections.stale_gang if stated is None else stated
    return None if found < 0 else found


def due(pool: Pool, job: Job) -> int | None:
    """When its grace is over."""
    time = grace(pool, job)
    if job.stale_since is None or time is None or job.phase not in ("starting", "running"):
        return None
    return job.stale_since + time
