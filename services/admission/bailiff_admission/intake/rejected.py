"""An input without effect."""

from dataclasses import dataclass

LONGEST = 2000


@dataclass(frozen=True, slots=True)
class Rejected:
    """`code` is for programs, `reason` for the person who sent it: what was wrong, and what would be right."""

    code: str
    reason: str
    job: str | None = None

    @property
    def told(self) -> str:
        """The reason, as long as a record may hold it."""
        return self.reason if len(self.reason) <= LONGEST else f"{self.reason[: LONGEST - 1]}…"
