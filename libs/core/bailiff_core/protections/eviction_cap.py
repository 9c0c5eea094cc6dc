"""`eviction-cap`: protects a job that was evicted as often as the policy allows within a sliding window.

Only involuntary evictions count: by a preemption or by the policy, not by the owner or the job's own failure. The eviction
of a surplus task does not stop the job, so it does not count, and surplus is not protected.
"""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit

from .rule import Ends, JobsShield, Rule, Shield

NAME = "eviction-cap"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Running jobs with that many evictions in the window."""
    cap = state.rules.protections.eviction_cap
    if cap is None:
        return None
    begin = state.now - cap.window

    def capped(unit: Unit) -> bool:
        times = unit.job.eviction_times
        if len(times) < cap.evictions or not unit.stops_job or unit.job.phase == "reserved":
            return False
        return times[-cap.evictions] > begin

    return JobsShield.where(state, lambda job: len(job.eviction_times) >= cap.evictions, capped)


def ends(state: PoolState, action: Action, preemptor: Job) -> Ends | None:  # noqa: ARG001
    """When the earliest counted eviction leaves the window, µs."""
    cap = state.rules.protections.eviction_cap
    if cap is None:
        return None
    return lambda job: job.eviction_times[-cap.evictions] + cap.window if len(job.eviction_times) >= cap.evictions else None


PROTECTION = Rule(120, NAME, shield, "was evicted as often as the policy allows", ends=ends, field="protections.eviction_cap")
