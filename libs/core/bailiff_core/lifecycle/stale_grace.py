"""`stale-gang`: how long a gang may run below its minimum before it is evicted whole.

A gang is stale while some of its tasks run, none has succeeded, and fewer than its minimum run or have a reservation
(`fold/gang.py`).
"""

from bailiff_core.model.state import Job, PoolState

NAME = "stale-gang"


def grace(state: PoolState, job: Job) -> int | None:
    """How long the job may run below its minimum, µs; 0: not at all; `None`: without limit."""
    own = job.demand.stale_grace
    if own is None:
        return state.rules.protections.stale_gang
    return None if own == "never" else own


def due(state: PoolState, job: Job) -> int | None:
    """When the grace of a stale gang is over, µs; `None`: the gang is not stale, or is never evicted for it."""
    limit = grace(state, job)
    if job.stale_since is None or limit is None or job.phase not in ("starting", "running"):
        return None
    return job.stale_since + limit
