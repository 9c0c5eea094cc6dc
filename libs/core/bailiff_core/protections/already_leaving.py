"""A job on its way out is room to come, not a victim once more."""

from bailiff_core.model.pool import Job, Pool

NAME = "already-leaving"


def excludes(pool: Pool, asker: Job, candidate: Job) -> bool:  # noqa: ARG001
    """Whether the candidate is being evicted already."""
    return candidate.phase == "evicting"
