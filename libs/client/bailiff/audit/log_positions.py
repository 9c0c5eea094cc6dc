"""Positions in a log as users write them: a record number, a time, or a duration ago."""

import time
from collections.abc import AsyncIterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from bailiff.client.errors import InvalidRequest, UsageError
from bailiff_bus.port import Message
from bailiff_core.model.document import parse_duration
from bailiff_core.records.wire import time_value

EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
LONGEST_SEQ = 18  # digits; bounds the input of int()
WANTED = "a time as in 2026-01-31T12:00:00Z, or how long ago, as in -10m"


@dataclass(frozen=True, slots=True)
class Point:
    """A position: a record, a time (µs), or a duration (µs) before the end."""

    seq: int | None = None
    time: int | None = None
    ago: int | None = None

    def at(self, end: int) -> "Point":
        """The position with `ago` resolved against the end of the log, µs."""
        return self if self.ago is None else Point(time=end - self.ago)


def point(text: str, option: str) -> Point:
    """Parses `118`, `#118`, or a time as in `moment`.

    Raises:
        ClientError: The text is invalid; names the option.
    """
    number = text.removeprefix("#")
    if number.isascii() and number.isdigit():
        return Point(seq=int(number[:LONGEST_SEQ]))
    try:
        return moment(text)
    except ValueError:
        raise UsageError(f"{option}: expected a record's number, {WANTED}; found {text!r}") from None


def moment(text: str) -> Point:
    """Parses `2026-01-31T12:00:00Z`, `2026-01-31 12:00` (UTC), `now` or `-10m`. Raises `ValueError`."""
    if text == "now":
        return Point(ago=0)
    if text.startswith("-"):
        ago = parse_duration(text[1:])
        if not isinstance(ago, int) or text[1:].isdigit():
            raise ValueError(text)
        return Point(ago=ago)
    found = datetime.fromisoformat(text)
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
    return Point(time=(found - EPOCH_START) // MICROSECOND)


def point_in_time(text: str, option: str, now: int) -> int:
    """The time, µs UTC, of a text as `moment` reads it; `2d` is the same as `-2d`. Raises `InvalidRequest`."""
    try:
        found = moment(f"-{text}" if text[:1].isdigit() and text[-1:].isalpha() and text[-1:] != "Z" else text).at(now).time
    except (ValueError, OverflowError):
        found = None
    if found is None:
        wanted = "a time as in 2026-01-31T12:00:00Z, or how long ago, as in 2d or 10m"
        raise InvalidRequest([f"{option}: expected {wanted}; found {text!r}"])
    return found


def wall_clock() -> int:
    """The current time, µs UTC."""
    return time.time_ns() // 1000


async def end_of(messages: AsyncIterable[Message]) -> int:
    """The time of a log's last record, µs, from its header; the chain is not verified here."""
    end = ""
    async for message in messages:
        end = max(end, dict(message.headers).get("ce_time", b"").decode(errors="replace"))
    try:
        return time_value(end)
    except ValueError:
        return 0
