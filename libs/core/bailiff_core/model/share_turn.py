"""By which key the state keeps a turn: that of all GPUs of one project's children, or of one kind of GPU (`gpu_kinds.py`)."""

SEPARATOR = ":"  # in no project's name


def turn_of(parent: str, kind: str = "") -> str:
    """Returns the key.

    Args:
        kind: Empty: all GPUs.
    """
    return f"{parent}{SEPARATOR}{kind}" if kind else parent


def parent_and_kind(key: str) -> tuple[str, str]:
    """Returns what `turn_of` was called with."""
    parent, _, kind = key.partition(SEPARATOR)
    return parent, kind
