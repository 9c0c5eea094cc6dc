"""Sums by name and labels, and the windows in which they are kept."""

from typing import Literal

SECOND = 1_000_000
WindowName = Literal["1m", "1h", "1d"]
LENGTHS: dict[WindowName, int] = {"1m": 60 * SECOND, "1h": 3_600 * SECOND, "1d": 86_400 * SECOND}  # µs; each divides the next

Key = tuple[str, ...]  # the name of a sum and its labels
Sums = dict[Key, int]


def of(sums: Sums, name: str) -> dict[Key, int]:
    """The sums of this name, by their labels."""
    return {key[1:]: value for key, value in sums.items() if key[0] == name}


def listed(sums: Sums) -> list[tuple[Key, int]]:
    """As JSON holds them."""
    return sorted(sums.items())


def found(listed: list[tuple[list[str], int]]) -> Sums:
    """What `listed` listed."""
    return {tuple(key): value for key, value in listed}
