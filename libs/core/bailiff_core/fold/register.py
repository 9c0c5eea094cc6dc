"""The register of folds, by record type."""

from collections.abc import Callable
from typing import Any, TypeVar

from bailiff_core.model.pool import Pool
from bailiff_core.records.payload import Payload

P = TypeVar("P", bound=Payload)
FOLDS: dict[type[Payload], Callable[[Pool, Any], None]] = {}


def folds(kind: type[P]) -> Callable[[Callable[[Pool, P], None]], Callable[[Pool, P], None]]:
    """Marks the function that folds records of this type. `pool.seq` and `pool.now` are the record's when it runs."""

    def register(function: Callable[[Pool, P], None]) -> Callable[[Pool, P], None]:
        FOLDS[kind] = function
        return function

    return register
