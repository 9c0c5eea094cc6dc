"""Rejections of inputs."""

from dataclasses import dataclass

from bailiff_core.permissions import Denial

MAX_REASON_LENGTH = 2000


@dataclass(frozen=True, slots=True)
class Rejected:
    """A rejected input. code: for programs. reason: for the sender, what is wrong and what to do. rule: that denied it."""

    code: str
    reason: str
    job: str | None = None
    rule: str | None = None

    @staticmethod
    def denied(denial: Denial, job: str | None = None) -> "Rejected":
        """A request that is not permitted."""
        return Rejected("not-permitted", f"{denial.reason} (rule {denial.rule})", job, denial.rule)

    @property
    def text(self) -> str:
        """The reason, cut to the limit of a record."""
        return self.reason if len(self.reason) <= MAX_REASON_LENGTH else f"{self.reason[: MAX_REASON_LENGTH - 1]}…"
