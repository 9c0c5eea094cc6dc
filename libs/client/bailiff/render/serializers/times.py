"""Times for programs."""

from bailiff_core.records.wire import time_text


def moment(micros: int | None) -> str | None:
    """A time for programs: RFC 3339 UTC, to the second where there is nothing finer."""
    if not micros:
        return None
    text = time_text(micros)
    return text.replace(".000000Z", "Z")
