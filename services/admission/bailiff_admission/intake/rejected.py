"""An input without effect."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rejected:
    """`code` is for programs, `reason` for the person who sent it: what was wrong, and what would be right."""

    code: str
    reason: str
    job: str | None = None
