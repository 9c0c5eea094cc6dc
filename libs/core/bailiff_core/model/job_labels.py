"""Selects jobs by labels that protect them."""

from collections.abc import Mapping

from .claims import has_protective_labels
from .state import Job, PoolState


def is_covered(state: PoolState, job: Job, labels: Mapping[str, str]) -> bool:
    """Whether the job has all of these labels, and the policy lets it set them; true for every job if there are none."""
    return has_labels(job, labels) and (not labels or has_protective_labels(state, job))


def has_labels(job: Job, labels: Mapping[str, str]) -> bool:
    """Whether the job has all of these labels."""
    return all(job.demand.labels.get(name) == value for name, value in labels.items())


def is_excluded(state: PoolState, job: Job) -> bool:
    """Whether the job is covered by one of the entries of `protections.excluded`."""
    return any(is_covered(state, job, labels) for labels in state.rules.protections.excluded)
