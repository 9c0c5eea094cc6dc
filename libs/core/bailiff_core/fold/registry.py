"""The registry of fold functions, by record type."""

from collections.abc import Callable
from typing import Any, TypeVar

from bailiff_core.model.state import PoolState
from bailiff_core.records.payload import Payload

P = TypeVar("P", bound=Payload)
FOLDS: dict[type[Payload], Callable[[PoolState, Any], None]] = {}


def folds(kind: type[P]) -> Callable[[Callable[[PoolState, P], None]], Callable[[PoolState, P], None]]:
    """Decorator: registers the fold of this record type. `state.seq` and `state.now` are the record's when it runs."""

    def register(function: Callable[[PoolState, P], None]) -> Callable[[PoolState, P], None]:
        FOLDS[kind] = function
        return function

    return register
