"""What is reserved for a gang is that gang's, unless the asker might have displaced it while it ran."""

from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import Unit

from .rule import Shield

NAME = "held"


def shield(pool: Pool, verb: Verb, asker: Job) -> Shield | None:  # noqa: ARG001
    """Gangs that wait for their reservation. A consolidation never moves them: it would give away what was freed for them."""

    def held(unit: Unit) -> bool:
        job = unit.job
        if job.phase != "reserved":
            return False
        return verb == "consolidate" or not job.preemptible or (verb == "preempt" and job.priority >= asker.priority)

    return held
