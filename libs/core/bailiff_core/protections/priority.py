"""The gate of preempt: only strictly lower priority loses. The asker itself is thereby no candidate either."""

from bailiff_core.model.pool import Job, Pool

NAME = "lower-priority-only"


def excludes(pool: Pool, asker: Job, candidate: Job) -> bool:  # noqa: ARG001
    """Whether the candidate's priority is not below the asker's."""
    return candidate.priority >= asker.priority
