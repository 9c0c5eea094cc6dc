"""Validates user and group names from outside: they are displayed and recorded in the log."""

from collections.abc import Sequence

MAX_NAME = 128  # characters; the actor of a request has at most 256 bytes
MOST_GROUPS = 500


def usable_name(text: object) -> str | None:
    """The stripped name; None if it is not valid."""
    if not isinstance(text, str):
        return None
    name = text.strip()
    return name if 0 < len(name) <= MAX_NAME and name.isprintable() and len(name.encode("utf-8", "replace")) <= 256 else None


def usable_groups(given: Sequence[object]) -> tuple[str, ...]:
    """The valid group names, without duplicates."""
    names = (usable_name(each) for each in given[:MOST_GROUPS])
    return tuple(dict.fromkeys(name for name in names if name is not None))
