"""Registration of the text of record types: one entry per type."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from bailiff_core.model.state import PoolState
from bailiff_core.records import Record
from bailiff_core.records.payload import Payload

from .line import Statement

P = TypeVar("P", bound=Payload)
Describe = Callable[[Any, PoolState], Sequence[Statement]]
Function = Callable[[P, PoolState], Statement | Sequence[Statement]]
EventWord = Callable[[Record, Any, PoolState], str]


@dataclass(frozen=True, slots=True)
class RecordText:
    """The text of one record type.

    Attributes:
        describe: Makes one statement, or one per victim. The state that it gets is folded up to the record, and may be empty.
        event: The event type; empty if the record is no event.
        fields: Names of the record's data, in order.
    """

    kind: type[Payload]
    describe: Describe
    event: EventWord

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the record's data, in order."""
        return tuple(self.kind.model_fields)


class Entries:
    """The entries of one subject."""

    def __init__(self) -> None:
        self.by_type: dict[type[Payload], RecordText] = {}

    def __call__(self, kind: type[P], *, event: str | EventWord = "") -> Callable[[Function[P]], Function[P]]:
        """Registers the function that describes records of this type.

        Args:
            event: Their event type, or a function that returns it.
        """
        word: EventWord = (lambda _record, _data, _state: event) if isinstance(event, str) else event

        def register(function: Function[P]) -> Function[P]:
            def describe(data: P, state: PoolState) -> Sequence[Statement]:
                found = function(data, state)
                return [found] if isinstance(found, Statement) else found

            self.by_type[kind] = RecordText(kind, describe, word)
            return function

        return register
