"""The gate of preempt: only strictly lower priority loses. The asker itself is thereby no candidate either."""

from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, Pool

from .rule import Shield

NAME = "lower-priority-only"


def shield(pool: Pool, verb: Verb, asker: Job) -> Shield | None:  # noqa: ARG001
    """Under preempt, jobs whose effective priority is not below the asker's."""
    return (lambda unit: unit.job.priority >= asker.priority) if verb == "preempt" else None
