"""A job that was evicted is left alone, whole, for a while once it runs again (kueue#14468, #6861; volcano#3729)."""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit

from .rule import Ends, Rule, Shield

NAME = "cooldown"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Jobs whose present run follows an eviction, for so long after its start."""
    cooldown = state.rules.protections.cooldown.job
    if not cooldown:
        return None

    def cooling(unit: Unit) -> bool:
        job = unit.job
        if job.last_eviction is None or job.phase == "reserved":
            return False
        if job.last_eviction < job.pending_since:  # it came back from a failure, not from the eviction
            return False
        return job.last_start is None or state.now < job.last_start + cooldown

    return cooling


def ends(state: PoolState, action: Action, preemptor: Job) -> Ends | None:  # noqa: ARG001
    """When the job has been left alone for long enough."""
    cooldown = state.rules.protections.cooldown.job
    return (lambda job: None if job.last_start is None else job.last_start + cooldown) if cooldown else None


PROTECTION = Rule(130, NAME, shield, "restarted after an eviction only recently", ends=ends)
