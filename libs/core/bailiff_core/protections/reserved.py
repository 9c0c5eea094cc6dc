"""What is reserved for a gang is that gang's, unless the preemptor might have displaced it while it ran."""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit

from .rule import Rule, Shield

NAME = "reserved"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:  # noqa: ARG001
    """Gangs that wait for their reservation. A consolidation never moves them: it would give away what was freed for them."""

    def held(unit: Unit) -> bool:
        job = unit.job
        if job.phase != "reserved":
            return False
        return action == "consolidate" or not job.preemptible or (action == "preempt" and job.priority >= preemptor.priority)

    return held


PROTECTION = Rule(20, NAME, shield, "is waiting for resources reserved for it", by_group=True)
