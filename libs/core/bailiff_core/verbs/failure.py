"""Which job a failing decision was about, so that it can be held and the rest can go on."""

from collections.abc import Iterator
from contextlib import contextmanager

from bailiff_core.model.pool import Job


class DecisionError(Exception):
    """Deciding about `job` failed."""

    def __init__(self, job: str, cause: Exception) -> None:
        super().__init__(f"deciding about {job} failed: {type(cause).__name__}: {cause}")
        self.job = job


@contextmanager
def about(job: Job) -> Iterator[None]:
    """Whatever goes wrong inside is about this job. Raises `DecisionError`."""
    try:
        yield
    except Exception as cause:
        raise DecisionError(job.id, cause) from cause
