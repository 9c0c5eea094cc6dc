"""Rejections of inputs."""

from dataclasses import dataclass
from datetime import UTC, datetime

from bailiff_core.permissions import Denial

MAX_REASON_LENGTH = 2000


@dataclass(frozen=True, slots=True)
class Rejected:
    """A rejected input.

    Attributes:
        code: A code for programs.
        reason: For the sender: what is wrong, and what to do.
        rule: The rule that denied it.
        retry_at: From when on it is worth sending it again, µs UTC.
    """

    code: str
    reason: str
    job: str | None = None
    rule: str | None = None
    retry_at: int | None = None

    @staticmethod
    def denied(denial: Denial, job: str | None = None) -> "Rejected":
        """A request that is not permitted."""
        return Rejected("not-permitted", f"{denial.reason} (rule {denial.rule})", job, denial.rule)

    @staticmethod
    def later(code: str, reason: str, retry_at: int, job: str | None = None) -> "Rejected":
        """A request that may be accepted from then on, µs UTC."""
        when = datetime.fromtimestamp(-(-retry_at // 1_000_000), UTC)
        return Rejected(code, f"{reason}: send it again after {when:%Y-%m-%d %H:%M:%S} UTC", job, retry_at=retry_at)

    @property
    def text(self) -> str:
        """The reason, cut to the limit of a record."""
        return self.reason if len(self.reason) <= MAX_REASON_LENGTH else f"{self.reason[: MAX_REASON_LENGTH - 1]}…"
