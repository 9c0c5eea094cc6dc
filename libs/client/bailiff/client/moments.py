"""Times as people write them: `Mon 08:00`, `tomorrow 08:00`, `18:30`, `now`, `2026-12-07 08:00`."""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from .errors import UsageError

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
EXAMPLES = "as in 'Mon 08:00', 'tomorrow 08:00', 18:30, now, 2026-12-07T08:00 or 2026-12-07T08:00:00Z"


def zone(name: str | None) -> tzinfo:
    """The time zone of that name; None: that of this machine.

    Raises:
        ClientError: There is no such time zone.
    """
    if name is None:
        return datetime.now().astimezone().tzinfo or UTC
    try:
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # not found; a folder; no name
        raise UsageError(f"--tz: there is no time zone {name!r}; as in Europe/Berlin or UTC") from None


def moment_of(option: str, text: str, now: int, where: tzinfo) -> int:
    """The time, µs UTC: of a weekday or a clock time the next one, now included.

    Args:
        option: For the error.
        now: µs UTC.
        where: The time zone of what is written without one.

    Raises:
        ClientError: It is no time.
    """
    words = text.strip().lower().split()
    try:
        here = (EPOCH_START + timedelta(microseconds=now)).astimezone(where)
        if words == ["now"]:
            return now
        if words and (words[0] in ("today", "tomorrow") or words[0][:3] in WEEKDAYS):
            return _micros(_on_day(words, here))
        if len(words) == 1 and ":" in text and "-" not in text:
            found = _at_clock(here, words[0])
            return _micros(
                found if found >= here.replace(second=0, microsecond=0) else _at_clock(here + timedelta(days=1), words[0])
            )
        found = datetime.fromisoformat(text.strip())
        return _micros(found if found.tzinfo is not None else found.replace(tzinfo=where))
    except (ValueError, OverflowError):
        raise UsageError(f"{option}: expected a time, {EXAMPLES}; found {text!r}") from None


def local_weekday(time: int, where: tzinfo) -> int:
    """The day of the week there; Monday is 0."""
    return (EPOCH_START + timedelta(microseconds=time)).astimezone(where).weekday()


def weekdays_of(option: str, text: str) -> tuple[int, ...]:
    """Weekdays, Monday 0, from `mon,wed`.

    Raises:
        ClientError: One of them is none.
    """
    names = [part.strip().lower()[:3] for part in text.split(",")]
    unknown = next((name for name in names if name not in WEEKDAYS), None)
    if unknown is not None:
        raise UsageError(f"{option}: expected weekdays, as in mon,wed; found {text!r}")
    return tuple(sorted({WEEKDAYS.index(name) for name in names}))


def _on_day(words: list[str], here: datetime) -> datetime:
    if len(words) != 2:
        raise ValueError("a day and a time")
    if words[0] in ("today", "tomorrow"):
        return _at_clock(here + timedelta(days=words[0] == "tomorrow"), words[1])
    if not _full_names(words[0]):
        raise ValueError("no weekday")
    days = (WEEKDAYS.index(words[0][:3]) - here.weekday()) % 7
    found = _at_clock(here + timedelta(days=days), words[1])
    return found if found >= here.replace(second=0, microsecond=0) else _at_clock(here + timedelta(days=days + 7), words[1])


def _full_names(word: str) -> bool:
    full = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    return any(name.startswith(word) for name in full)


def _at_clock(day: datetime, text: str) -> datetime:
    """Without the offset of `day`, which another day may not have."""
    hour, _, minute = text.partition(":")
    if not (hour.isdecimal() and minute.isdecimal() and len(minute) == 2):
        raise ValueError("no time of day")
    return datetime(day.year, day.month, day.day, int(hour), int(minute), tzinfo=day.tzinfo)


def _micros(found: datetime) -> int:
    return (found.astimezone(UTC) - EPOCH_START) // MICROSECOND
