"""Comparison of archive rows with rows derived from the records."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

SHOWN = 20


@dataclass
class Derived:
    """The comparison of derived rows with the archived ones.

    Attributes:
        rows: Number of compared rows.
        differences: The first difference of each table, as text.
        unchecked: What was not compared.
    """

    rows: int = 0
    differences: list[str] = field(default_factory=list)
    unchecked: str = ""

    def differ(self, what: str, names: Sequence[str], there: Sequence[Any], expected: Sequence[Any]) -> None:
        """Reports values that differ from the expected ones."""
        for name, has, says in zip(names, there, expected, strict=True):
            if has != says:
                self.say(f"{what}: {name} is {_short(has)}, its records say {_short(says)}")

    def say(self, text: str) -> None:
        """Adds a difference; of many, only the first are kept."""
        if len(self.differences) < SHOWN * 5:
            self.differences.append(text)


def _short(value: Any) -> str:
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
