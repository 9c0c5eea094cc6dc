"""The short line of a record, as plain text and styled for a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bailiff_core.records.wire import time_text

if TYPE_CHECKING:
    from rich.text import Text

WHAT_WIDTH = 20
WHERE_WIDTH = 10


@dataclass(frozen=True, slots=True)
class Statement:
    """The text of a line: what happened, to which job, task or node, and the details.

    Attributes:
        tone: Its colour.
    """

    what: str
    subject: str = ""
    detail: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `str()` is its plain form."""

    time: int
    pool: str
    seq: int
    statement: Statement

    @property
    def clock(self) -> str:
        """Time of day, UTC."""
        return time_text(self.time)[11:19]

    @property
    def day(self) -> str:
        """The date, UTC."""
        return time_text(self.time)[:10]

    def __str__(self) -> str:
        where = f"{self.pool}#{self.seq}"
        rest = "  ".join(part for part in (self.statement.subject, self.statement.detail) if part)
        return f"{self.clock} {where:<{WHERE_WIDTH}} {self.statement.what:<{WHAT_WIDTH}} {rest}".rstrip()


TONES = {"good": "green", "bad": "red", "warn": "yellow", "preempt": "magenta", "evict": "yellow", "quiet": "dim", "": ""}


def styled(line: Line, *, pool: bool = True) -> Text:
    """The line for a terminal: the same characters, with colours.

    Args:
        pool: Add the pool's name.
    """
    from rich.text import Text

    tone = TONES[line.statement.tone]
    text = Text()
    text.append(line.clock, "dim")
    where = f"{f'{line.pool}#{line.seq}':<{WHERE_WIDTH}}" if pool else f"#{line.seq:<4}"
    text.append(f" {where} ", "cyan")
    text.append(f"{line.statement.what:<{WHAT_WIDTH}} ", tone)
    text.append(line.statement.subject, "bold")
    if line.statement.detail:
        text.append(
            ("  " if line.statement.subject else "") + line.statement.detail, "dim" if line.statement.tone == "quiet" else ""
        )
    text.rstrip()
    return text
