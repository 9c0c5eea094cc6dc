"""`reserved`: protects a gang's reservation from preemptors that could not evict the gang while it runs."""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit

from .rule import Rule, Shield

NAME = "reserved"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Gangs with a reservation. Consolidation never relocates them: it would use the resources that were freed for them."""

    def is_protected(unit: Unit) -> bool:
        job = unit.job
        if job.phase != "reserved":
            return False
        return action == "consolidate" or not job.preemptible or (action == "preempt" and job.priority >= preemptor.priority)

    return is_protected


PROTECTION = Rule(20, NAME, shield, "is waiting for resources reserved for it", by_group=True)
