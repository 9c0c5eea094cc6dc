"""A job that was evicted is left alone, whole, for a while once it runs again (kueue#14468, #6861; volcano#3729)."""

from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import Unit

from .rule import Ends, Shield

NAME = "cooldown"


def shield(pool: Pool, verb: Verb, asker: Job) -> Shield | None:  # noqa: ARG001
    """Jobs whose present run follows an eviction, for so long after its start."""
    cooldown = pool.rules.protections.cooldown.job
    if not cooldown:
        return None

    def cooling(unit: Unit) -> bool:
        job = unit.job
        if job.last_eviction is None or job.phase == "reserved":
            return False
        if job.last_eviction < job.waiting_since:  # it came back from a failure, not from the eviction
            return False
        return job.last_start is None or pool.now < job.last_start + cooldown

    return cooling


def ends(pool: Pool, verb: Verb, asker: Job) -> Ends | None:  # noqa: ARG001
    """When the job has been left alone for long enough."""
    cooldown = pool.rules.protections.cooldown.job
    return (lambda job: None if job.last_start is None else job.last_start + cooldown) if cooldown else None
