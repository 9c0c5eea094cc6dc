"""`stale-gang`: how long a gang may run below its minimum before it is evicted whole.

It is stale while tasks of it run, none has succeeded, and what is left does not reach its minimum (`fold/gang.py`).
"""

from bailiff_core.model.state import Job, PoolState

NAME = "stale-gang"


def grace(state: PoolState, job: Job) -> int | None:
    """How long it may go on, µs; 0: not at all; `None`: never evicted for it."""
    stated = job.demand.stale_grace
    if stated is None:
        return state.rules.protections.stale_gang
    return None if stated == "never" else stated


def due(state: PoolState, job: Job) -> int | None:
    """When its grace is over."""
    time = grace(state, job)
    if job.stale_since is None or time is None or job.phase not in ("starting", "running"):
        return None
    return job.stale_since + time
