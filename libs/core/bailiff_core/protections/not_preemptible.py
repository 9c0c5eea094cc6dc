"""Jobs whose class, or whose owner, says that they are not to be preempted."""

from bailiff_core.model.pool import Job, Pool

NAME = "not-preemptible"


def excludes(pool: Pool, asker: Job, candidate: Job) -> bool:  # noqa: ARG001
    """Whether the candidate is not preemptible."""
    return not candidate.preemptible
