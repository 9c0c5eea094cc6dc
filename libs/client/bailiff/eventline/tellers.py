"""One function per record type tells of it."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from bailiff_core.model.pool import Pool
from bailiff_core.records.payload import Payload

from .line import Said

P = TypeVar("P", bound=Payload)
Tells = Callable[[Any, Pool], Sequence[Said]]
Function = Callable[[P, Pool], Said | Sequence[Said]]


class Tellers:
    """Those of one subject. The pool, folded to about the record, gives names to numbers and may be empty."""

    def __init__(self) -> None:
        self.by_type: dict[type[Payload], Tells] = {}

    def __call__(self, kind: type[P]) -> Callable[[Function[P]], Function[P]]:
        """Marks the function that tells of records of this type."""

        def register(function: Function[P]) -> Function[P]:
            def several(data: P, pool: Pool) -> Sequence[Said]:
                told = function(data, pool)
                return [told] if isinstance(told, Said) else told

            self.by_type[kind] = several
            return function

        return register
