"""What other packages add to the agent: entry points, by their group."""

from functools import cache
from importlib.metadata import entry_points
from typing import Any


@cache  # packages do not change while the agent runs, and each look goes through the files of all of them
def installed(group: str) -> tuple[Any, ...]:
    """What the entry points of this group name."""
    return tuple(each.load() for each in entry_points(group=group))
