"""Paths of the bundled trace files."""

from importlib.resources import files
from importlib.resources.abc import Traversable


def shipped(*parts: str) -> Traversable:
    """Path of a file in `traces_data`."""
    found: Traversable = files("bailiff_sim") / "traces_data"
    for part in parts:
        found = found / part
    return found
