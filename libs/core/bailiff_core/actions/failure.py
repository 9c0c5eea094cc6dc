"""Which job a failing decision was about, so that it can be suspended and the rest goes on."""

from types import TracebackType

from bailiff_core.model.state import Job


class DecisionError(Exception):
    """Deciding about `job` failed."""

    def __init__(self, job: str, cause: Exception) -> None:
        super().__init__(f"deciding about {job} failed: {type(cause).__name__}: {cause}")
        self.job = job


class about:  # noqa: N801 - reads as a statement; a class, because a generator costs as much as what stands inside
    """Whatever goes wrong inside is about this job. Raises `DecisionError`."""

    __slots__ = ("_job",)

    def __init__(self, job: Job) -> None:
        self._job = job

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, Exception):
            raise DecisionError(self._job.id, error) from error
