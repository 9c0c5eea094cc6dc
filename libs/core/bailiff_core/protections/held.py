"""What is reserved for a gang is that gang's, unless the asker might have displaced it while it ran."""

from bailiff_core.model.pool import Job, Pool

from . import not_preemptible, priority

NAME = "held"


def excludes(pool: Pool, asker: Job, candidate: Job) -> bool:
    """Whether the candidate holds a reservation that the asker may not take."""
    return candidate.phase == "reserved" and (
        not_preemptible.excludes(pool, asker, candidate) or priority.excludes(pool, asker, candidate)
    )
