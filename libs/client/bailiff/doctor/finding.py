"""A finding of `bailiff doctor`."""

from typing import Literal, TypedDict

Status = Literal["ok", "warn", "wrong", "skipped"]


class Check(TypedDict):
    """One finding.

    Attributes:
        advice: Empty if there is nothing to do.
        when: Past: something that happened, and whose cause may be gone.
    """

    check: str
    status: Status
    found: str
    advice: str
    when: Literal["now", "past"]


def finding(check: str, status: Status, found: str, advice: str = "") -> Check:
    """Builds a finding about the present."""
    return {"check": check, "status": status, "found": found, "advice": advice, "when": "now"}


def past(check: str, status: Status, found: str, advice: str = "") -> Check:
    """Builds a finding about what happened."""
    return {**finding(check, status, found, advice), "when": "past"}
