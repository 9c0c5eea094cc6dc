"""Rejections of inputs."""

from dataclasses import dataclass

MAX_REASON_LENGTH = 2000


@dataclass(frozen=True, slots=True)
class Rejected:
    """A rejected input. code: for programs. reason: for the sender, what is wrong and what to do."""

    code: str
    reason: str
    job: str | None = None

    @property
    def text(self) -> str:
        """The reason, cut to the limit of a record."""
        return self.reason if len(self.reason) <= MAX_REASON_LENGTH else f"{self.reason[: MAX_REASON_LENGTH - 1]}…"
