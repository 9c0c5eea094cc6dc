"""Times in JSON and YAML output."""

from bailiff_core.records.wire import time_text


def moment(micros: int | None) -> str | None:
    """RFC 3339 UTC time of µs, without a zero fraction; None for 0 or None."""
    if not micros:
        return None
    text = time_text(micros)
    return text.replace(".000000Z", "Z")
