"""Selects jobs by labels."""

from collections.abc import Iterable, Mapping

from .state import Job


def matches(job: Job, labels: Iterable[tuple[str, str]]) -> bool:
    """Whether the job has all of these labels; true for every job if there are none."""
    own = job.demand.labels
    return all(own.get(name) == value for name, value in labels)


def is_excluded(job: Job, excluded: Iterable[Mapping[str, str]]) -> bool:
    """Whether the job has all labels of one of these entries (`protections.excluded`)."""
    return any(matches(job, labels.items()) for labels in excluded)
