"""A job that was evicted as often as the policy allows within its window is left alone until the window has moved on.

Involuntary evictions count: by another job's need or by the policy, not what its owner or its own failure brought
about. A surplus task that leaves does not stop the job, so it neither counts nor is shielded.
"""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit

from .rule import Ends, Rule, Shield

NAME = "eviction-cap"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Running jobs with so many evictions in the window."""
    cap = state.rules.protections.eviction_cap
    if cap is None:
        return None
    begin = state.now - cap.window

    def capped(unit: Unit) -> bool:
        evicted_at = unit.job.eviction_times
        if len(evicted_at) < cap.evictions or not unit.core or unit.job.phase == "reserved":
            return False
        return evicted_at[-cap.evictions] > begin

    return capped


def ends(state: PoolState, action: Action, preemptor: Job) -> Ends | None:  # noqa: ARG001
    """When the window has moved on."""
    cap = state.rules.protections.eviction_cap
    if cap is None or not cap.evictions:
        return None
    return lambda job: job.eviction_times[-cap.evictions] + cap.window if len(job.eviction_times) >= cap.evictions else None


PROTECTION = Rule(120, NAME, shield, "was evicted as often as the policy allows", ends=ends)
