"""Which jobs a policy means by labels."""

from collections.abc import Iterable

from bailiff_core.model.state import Job


def matches(job: Job, labels: Iterable[tuple[str, str]]) -> bool:
    """Whether the job carries all of them; where none is named, every job does."""
    carried = job.demand.labels
    return all(carried.get(name) == value for name, value in labels)
