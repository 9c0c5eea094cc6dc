"""A finding of `bailiff doctor`."""

from typing import Literal, TypedDict

Status = Literal["ok", "warn", "wrong", "skipped"]


class Check(TypedDict):
    """One finding. advice: empty if there is nothing to do."""

    check: str
    status: Status
    found: str
    advice: str


def finding(check: str, status: Status, found: str, advice: str = "") -> Check:
    """Builds a finding."""
    return {"check": check, "status": status, "found": found, "advice": advice}
