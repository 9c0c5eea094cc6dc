"""Names the job whose decision failed, so that it is suspended and the other jobs are scheduled."""

from types import TracebackType

from bailiff_core.model.state import Job


class DecisionError(Exception):
    """A decision about `job` failed."""

    def __init__(self, job: str, cause: Exception) -> None:
        super().__init__(f"deciding about {job} failed: {type(cause).__name__}: {cause}")
        self.job = job


class attribute_errors_to:  # noqa: N801 - used as a context manager; a class, because a generator costs as much as the body
    """Context manager: raises `DecisionError` for the job if the body raises an exception."""

    __slots__ = ("_job",)

    def __init__(self, job: Job) -> None:
        self._job = job

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, Exception):
            raise DecisionError(self._job.id, error) from error
