"""Which causes of evictions count for the rules that protect jobs from the next one."""

from bailiff_core.model.state import Job, PoolState
from bailiff_core.permissions import Requester, owns

MAX_EVICTION_TIMES = 64
GANG_FAILURE = "gang-failure"
INVOLUNTARY = ("preemption", "policy", "stale-gang", "requested", "drain")
VOLUNTARY = ("paused", "migration", "resize")
"""Not counted as evictions by any rule; the job is requeued whatever its on_eviction."""


def is_voluntary(state: PoolState, job: Job, cause: str) -> bool:
    """Whether it counts as no eviction: the job was paused, moved, resized, or its verified owner has asked for it.

    Otherwise owners could make their jobs hard to evict, or raise their priority, by evicting them.
    """
    if cause != "requested":
        return cause in VOLUNTARY
    return job.requester_verified and owns(state.rules, Requester(job.requester, "signed"), job)
