"""Sorted list of jobs by a key that may change."""

from bisect import bisect_left, insort
from collections.abc import Iterable

Key = tuple[int, int, int, str]


class SortedJobs:
    """Jobs in the order of their keys, `(rank, time, seq, id)`."""

    def __init__(self) -> None:
        self.order: list[Key] = []
        self._keys: dict[str, Key] = {}

    def fill(self, keys: Iterable[tuple[str, Key]]) -> None:
        """Replace all keys by these."""
        self._keys = dict(keys)
        self.order = sorted(self._keys.values())

    def put(self, name: str, key: Key) -> None:
        """Set the job's key."""
        if self._keys.get(name) != key:
            self.drop(name)
            self._keys[name] = key
            insort(self.order, key)

    def drop(self, name: str) -> None:
        """Remove the job."""
        if name in self._keys:
            del self.order[bisect_left(self.order, self._keys.pop(name))]
