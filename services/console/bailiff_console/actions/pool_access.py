"""Ports of the request service to the followed pools."""

from collections.abc import Callable
from typing import Protocol

from bailiff.client.rejections import PoolAlarms
from bailiff_core.model.state import PoolState
from bailiff_log.reader import Entry


class FollowedPool(Protocol):
    """A followed pool. on_record: called with each record, once it is folded."""

    on_record: Callable[[Entry], None]

    @property
    def alarms(self) -> PoolAlarms: ...

    @property
    def name(self) -> str: ...

    @property
    def state(self) -> PoolState: ...


class Pools(Protocol):
    """The followed pools."""

    def get(self, name: str) -> FollowedPool:
        """The pool. Raises `ApiError` if it is unknown or its log is not read to the end."""
        ...
