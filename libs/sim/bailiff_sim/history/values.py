"""Values that several formats write: times in a zone, durations, numbers."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from .records import SECOND

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?")


class Unreadable(ValueError):
    """A value that is not what its field has. The text says what was expected and found."""


def zone(name: str) -> ZoneInfo:
    """A time zone by name. Raises `ValueError`."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise ValueError(f"--timezone: there is no time zone {name!r}: expected a name such as Europe/Berlin or UTC") from None


@lru_cache(maxsize=65_536)
def moment(text: str, local: ZoneInfo, fold: int = 0) -> int:
    """As `date_and_time`, or of seconds since 1970."""
    return int(text) * SECOND if text.isdecimal() else date_and_time(text, local, fold)


def date_and_time(text: str, local: ZoneInfo, fold: int = 0) -> int:
    """µs UTC of `2026-03-01T12:00:00` in the zone, or of a time with its own offset."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Unreadable(f"expected a time such as 2026-03-01T12:00:00, found {shown(text)}") from None
    aware = found if found.tzinfo else found.replace(tzinfo=local, fold=fold)
    return (aware - EPOCH) // timedelta(microseconds=1)


def is_ambiguous(text: str, local: ZoneInfo) -> bool:
    """Whether the clock showed this time twice, when summer time ended."""
    return local.key != "UTC" and not text.isdecimal() and moment(text, local, 0) < moment(text, local, 1)


@lru_cache(maxsize=65_536)
def elapsed(text: str) -> int:
    """µs of Slurm's `1-02:03:04`, `02:03:04`, `03:04`."""
    found = ELAPSED.fullmatch(text)
    if found is None:
        raise Unreadable(f"expected a duration such as 1-02:03:04, found {shown(text)}")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * SECOND


def whole(text: str, least: int = 0) -> int:
    """A whole number."""
    if not text.isdecimal() or int(text) < least:
        raise Unreadable(f"expected a whole number, {least} or more, found {shown(text)}")
    return int(text)


def shown(text: str) -> str:
    """A value in an error, shortened."""
    return repr(text[:60]) if text else "nothing"
