"""Selects jobs by labels."""

from collections.abc import Iterable

from bailiff_core.model.state import Job


def matches(job: Job, labels: Iterable[tuple[str, str]]) -> bool:
    """Whether the job has all of these labels; true for every job if there are none."""
    own = job.demand.labels
    return all(own.get(name) == value for name, value in labels)
