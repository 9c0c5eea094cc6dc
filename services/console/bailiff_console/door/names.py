"""Names of people as they come from outside: they are shown, and stand in the log for ever."""

from collections.abc import Sequence

LONGEST_NAME = 128  # Kafka's requests take 256 bytes of an actor, and a character may have two
MOST_GROUPS = 500


def usable_name(text: object) -> str | None:
    """The name without blanks around it; None where it is no name."""
    if not isinstance(text, str):
        return None
    name = text.strip()
    return name if 0 < len(name) <= LONGEST_NAME and name.isprintable() and len(name.encode("utf-8", "replace")) <= 256 else None


def usable_groups(given: Sequence[object]) -> tuple[str, ...]:
    """Those that are names, each once."""
    names = (usable_name(each) for each in given[:MOST_GROUPS])
    return tuple(dict.fromkeys(name for name in names if name is not None))
