"""Which job a failing decision was about, so that it can be held and the rest can go on."""

from bailiff_core.model.pool import Job


class DecisionError(Exception):
    """Deciding about `job` failed."""

    def __init__(self, job: str, cause: Exception) -> None:
        super().__init__(f"deciding about {job} failed: {type(cause).__name__}: {cause}")
        self.job = job


class about:  # noqa: N801 - to be read as one word of a sentence, as `suppress` is
    """Whatever goes wrong inside is about this job. Raises `DecisionError`."""

    __slots__ = ("_job",)

    def __init__(self, job: Job) -> None:
        self._job = job

    def __enter__(self) -> None:
        """Nothing has gone wrong yet."""

    def __exit__(self, _kind: object, cause: BaseException | None, _traceback: object) -> None:
        """Say whom it was about."""
        if isinstance(cause, Exception):
            raise DecisionError(self._job.id, cause) from cause
