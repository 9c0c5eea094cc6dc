"""Reads trace tables; errors name file, line and column."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

from bailiff_sim.history.values import Unreadable, date_and_time
from bailiff_sim.text_files import text_of

T = TypeVar("T")
MAX_ERRORS = 20
SECOND = 1_000_000
LONGEST = 10 * 366 * 86_400 * SECOND
UTC = ZoneInfo("UTC")


class TraceProblem(Exception):
    """A trace that cannot be read. The text has one line per error: file, line, column, expected and found value."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row; `values` by column."""

    file: str
    line: int
    values: Mapping[str, str]

    def text(self, column: str) -> str:
        """Returns the value, stripped."""
        return self.values[column].strip()

    def count(self, column: str) -> int:
        """Parses a whole number, 0 or more; also `8.0`. Raises `TraceProblem`."""
        found = self._number(column, "a whole number")
        if found != found.to_integral_value() or found < 0:
            raise self.fault(column, "a whole number, 0 or more")
        return int(found)

    def micros(self, column: str, unit: int = SECOND) -> int:
        """Parses a time or duration, 0 or more, and returns µs. unit: µs per unit. Raises `TraceProblem`."""
        found = self._number(column, "a number") * unit
        if not 0 <= found <= LONGEST * 100:
            raise self.fault(column, "a time or duration, 0 or more")
        return int(found)

    def moment(self, column: str) -> int:
        """Parses a date and time, UTC by default, and returns µs UTC. Raises `TraceProblem`."""
        try:
            return date_and_time(self.text(column), UTC)
        except Unreadable:
            raise self.fault(column, "a date and time such as 2017-10-09 07:01:55") from None

    def choice(self, column: str, among: Mapping[str, T]) -> T:
        """Looks the value up in `among`. Raises `TraceProblem`."""
        if self.text(column) not in among:
            raise self.fault(column, " or ".join(among) if len(among) < 8 else f"one of {', '.join(among)}")
        return among[self.text(column)]

    def word(self, column: str, among: Mapping[str, object]) -> str:
        """The value, which must be one of these. Raises `TraceProblem`."""
        self.choice(column, among)
        return self.text(column)

    def fault(self, column: str, expected: str) -> TraceProblem:
        """Returns the error for a value."""
        found = self.values.get(column, "").strip()
        return TraceProblem(f"{self.file}:{self.line}: {column}: expected {expected}, found {found[:60] or 'nothing'!r}")

    def _number(self, column: str, expected: str) -> Decimal:
        try:
            found = Decimal(self.text(column))
        except InvalidOperation:
            raise self.fault(column, expected) from None
        if not found.is_finite():
            raise self.fault(column, expected)
        return found


def shipped(*parts: str) -> Traversable:
    """Path of a file in `traces_data`."""
    return files("bailiff_sim").joinpath("traces_data", *parts)


def table(source: Path | Traversable, columns: Sequence[str], make: Callable[[Row], T | None], delimiter: str = ",") -> list[T]:
    """Parses each row of a file, gzipped or not, with `make`; rows for which it returns None are left out.

    Raises `TraceProblem` with the errors of all rows, up to twenty.
    """
    found: list[T] = []
    errors: list[str] = []
    for row in _rows(source, columns, delimiter):
        try:
            made = row if isinstance(row, TraceProblem) else make(row)
        except TraceProblem as fault:
            made = fault
        if isinstance(made, TraceProblem):
            errors.append(str(made))
        elif made is not None:
            found.append(made)
    if errors:
        more = [f"{source.name}: and {len(errors) - MAX_ERRORS} more rows"] if len(errors) > MAX_ERRORS else []
        raise TraceProblem("\n".join(errors[:MAX_ERRORS] + more))
    return found


def _rows(source: Path | Traversable, columns: Sequence[str], delimiter: str) -> Iterator[Row | TraceProblem]:
    name = source.name
    try:
        with text_of(source, errors="strict") as text:
            lines = csv.reader(text, delimiter=delimiter, strict=True)
            header = [each.strip() for each in next(lines, [])]
            missing = [column for column in columns if column not in header]
            if missing:
                there = ", ".join(header)[:200] or "nothing"
                raise TraceProblem(
                    f"{name}:1: expected the columns {', '.join(columns)}; it lacks {', '.join(missing)}, found {there}"
                )
            for values in lines:
                if not values or values == [""]:
                    continue
                if len(values) < len(header):
                    yield TraceProblem(f"{name}:{lines.line_num}: expected {len(header)} values, found {len(values)}")
                else:
                    yield Row(name, lines.line_num, dict(zip(header, values, strict=False)))
    except (OSError, UnicodeDecodeError, csv.Error, EOFError) as error:
        raise TraceProblem(f"{name}: {error}") from None
    except ValueError as error:  # its text names the file
        raise TraceProblem(str(error)) from None
