"""Counters by name and labels, and the lengths of the time windows."""

from typing import Literal

SECOND = 1_000_000
WindowName = Literal["1m", "1h", "1d"]
LENGTHS: dict[WindowName, int] = {"1m": 60 * SECOND, "1h": 3_600 * SECOND, "1d": 86_400 * SECOND}  # µs; each divides the next

Key = tuple[str, ...]  # name and labels of a counter
Counters = dict[Key, int]


def of(sums: Counters, name: str) -> dict[Key, int]:
    """The counters of this name, by labels."""
    return {key[1:]: value for key, value in sums.items() if key[0] == name}


def to_pairs(sums: Counters) -> list[tuple[Key, int]]:
    """The counters as a list for JSON, sorted by key."""
    return sorted(sums.items())


def from_pairs(pairs: list[tuple[list[str], int]]) -> Counters:
    """Counters from the list that `to_pairs` returns."""
    return {tuple(key): value for key, value in pairs}
