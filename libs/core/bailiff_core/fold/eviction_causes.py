"""Which causes of evictions count for the rules that protect jobs from the next one."""

MAX_EVICTION_TIMES = 64
GANG_FAILURE = "gang-failure"
INVOLUNTARY = ("preemption", "policy", "stale-gang", "requested", "drain")
VOLUNTARY = ("paused", "migration", "resize")
"""Not counted as evictions by any rule; the job is requeued whatever its on_eviction."""
