"""`stale-gang`: how long a gang may run below its minimum before it is evicted whole.

A gang is stale while some of its tasks run, none has succeeded, and fewer than its minimum run or have a reservation
(`fold/gang.py`).
"""

from bailiff_core.model.claims import NEVER, in_time, within
from bailiff_core.model.state import Job, PoolState

NAME = "stale-gang"


def grace(state: PoolState, job: Job) -> int | None:
    """How long the job may run below its minimum, µs; 0: not at all; `None`: without limit."""
    by_policy, own = state.rules.protections.stale_gang, job.demand.stale_grace
    if own is None:
        return by_policy
    granted = within(state, job, "stale_grace", in_time(own), in_time("never" if by_policy is None else by_policy))
    return None if granted == NEVER else granted


def due(state: PoolState, job: Job) -> int | None:
    """When the grace of a stale gang is over, µs; `None`: the gang is not stale, or is never evicted for it."""
    limit = grace(state, job)
    if job.stale_since is None or limit is None or job.phase not in ("starting", "running"):
        return None
    return job.stale_since + limit
