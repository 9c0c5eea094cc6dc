"""`cooldown`: protects a job, surplus included, for a time after its restart (kueue#14468, #6861; volcano#3729)."""

from bailiff_core.model.job_rules import COOLDOWN
from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit

from .rule import Ends, JobsShield, Rule, Shield

NAME = "cooldown"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Jobs whose current attempt follows an involuntary eviction, until the cooldown after its start is over."""
    cooldown = COOLDOWN.by_job(state)
    if cooldown is None:
        return None

    def cooling_down(unit: Unit) -> bool:
        job = unit.job
        if not job.eviction_times or job.phase == "reserved" or not cooldown(job):
            return False
        if job.eviction_times[-1] < job.pending_since:  # it was last requeued by a failure, not by the eviction
            return False
        return job.last_start is None or state.now < job.last_start + cooldown(job)

    return JobsShield.where(state, lambda job: bool(job.eviction_times), cooling_down)


def ends(state: PoolState, action: Action, preemptor: Job) -> Ends | None:  # noqa: ARG001
    """When the job's cooldown is over, µs."""
    cooldown = COOLDOWN.by_job(state)
    return None if cooldown is None else lambda job: None if job.last_start is None else job.last_start + cooldown(job)


PROTECTION = Rule(130, NAME, shield, "restarted after an eviction only recently", ends=ends, field="protections.cooldown.job")
