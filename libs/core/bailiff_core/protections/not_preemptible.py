"""Jobs whose class, or whose owner, says that they are not to be preempted."""

from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, Pool

from .rule import Shield

NAME = "not-preemptible"


def shield(pool: Pool, verb: Verb, asker: Job) -> Shield | None:  # noqa: ARG001
    """Jobs that are not preemptible, their surplus included."""
    return lambda unit: not unit.job.preemptible
