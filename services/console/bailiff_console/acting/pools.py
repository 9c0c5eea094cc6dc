"""What acting needs of the rest of the console: the pools that it follows."""

from collections.abc import Callable
from typing import Protocol

from bailiff_bus.log import Entry
from bailiff_core.model.pool import Pool


class Following(Protocol):
    """A pool that is followed. heard: called with each record, once it is folded."""

    heard: Callable[[Entry], None]

    @property
    def name(self) -> str: ...

    @property
    def pool(self) -> Pool: ...


class Pools(Protocol):
    """All of them."""

    def get(self, name: str) -> Following:
        """Raises `Refused` where there is none of that name, or its log has not been read yet."""
        ...
