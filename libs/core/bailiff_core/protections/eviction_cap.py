"""`eviction-cap`: protects a job that was evicted as often as the policy allows within a sliding window.

Only involuntary evictions count: by a preemption or by the policy, not by the owner or the job's own failure. The eviction
of a surplus task does not stop the job, so it does not count, and surplus is not protected.
"""

from bailiff_core.model.job_rules import EVICTION_CAP
from bailiff_core.model.policy import Action, EvictionCap
from bailiff_core.model.state import Job, PoolState

from .rule import Ends, JobsShield, Rule, Shield

NAME = "eviction-cap"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Running jobs with so many evictions in the window."""
    cap_of = EVICTION_CAP.by_job(state)
    if cap_of is None:
        return None

    def is_capped(job: Job) -> bool:
        cap = cap_of(job)
        frees = None if cap is None else _frees(job, cap)
        return frees is not None and frees > state.now

    return JobsShield.where(
        state, is_capped, lambda unit: unit.stops_job and unit.job.phase != "reserved" and is_capped(unit.job)
    )


def ends(state: PoolState, action: Action, preemptor: Job) -> Ends | None:  # noqa: ARG001
    """When the earliest counted eviction leaves the window, µs."""
    cap_of = EVICTION_CAP.by_job(state)
    return None if cap_of is None else lambda job: None if (cap := cap_of(job)) is None else _frees(job, cap)


def _frees(job: Job, cap: EvictionCap) -> int | None:
    times = job.eviction_times
    return times[-cap.evictions] + cap.window if len(times) >= cap.evictions else None


PROTECTION = Rule(120, NAME, shield, "was evicted as often as the policy allows", ends=ends, field="protections.eviction_cap")
