"""Results that follow from objects of the API alone, kept while the very same objects are given again."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Memo:
    """Identity tells whether an object has changed: a local view replaces it by another one, and nobody changes it in place."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[tuple[Any, ...], Any]] = {}
        self._used: dict[Hashable, tuple[tuple[Any, ...], Any]] = {}

    def of(self, key: Hashable, make: Callable[[], T], *objects: Any) -> T:
        """What `make` gives for these objects; key: unique among the calls between two `forget`."""
        kept = self._kept.get(key)
        if kept is None or len(kept[0]) != len(objects) or any(a is not b for a, b in zip(kept[0], objects, strict=True)):
            kept = objects, make()
        self._used[key] = kept
        result: T = kept[1]
        return result

    def forget(self) -> None:
        """Drop what was not asked for since the last call."""
        self._kept, self._used = self._used, {}
