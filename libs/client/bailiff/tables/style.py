"""Styles and cells of tables."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bailiff.render.plain_text import plain

STATE_STYLES = {
    "running": "green",
    "succeeded": "green",
    "ready": "green",
    "ok": "green",
    "free": "green",
    "evicting": "yellow",
    "releasing": "yellow",
    "reserved": "magenta",
    "starting": "cyan",
    "cancelling": "yellow",
    "pending": "",
    "suspended": "red",
    "failed": "red",
    "cancelled": "dim",
    "unreachable": "yellow",
    "lost": "red",
    "paused": "cyan",
    "pausing": "yellow",
    "draining": "yellow",
    "drained": "cyan",
    "unhealthy": "red",
    "quarantined": "red",
    "shared": "cyan",
    "warn": "yellow",
    "wrong": "red",
    "skipped": "dim",
}


LIST_WIDTH, MOST_WIDTH = 100, 1000
WHOLE = ("JOB", "PROJECT", "TASKS", "NODE", "CLASS", "STATE", "TIME", "SUBMITTED")


def table(*columns: str, right: Sequence[str] = (), **options: Any) -> Table:
    """An empty table without frame. `right` names the columns of numbers."""
    made = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0), **options)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", no_wrap=column in (*WHOLE, *right))
    return made


def state_word(word: str) -> Text:
    """A state in its colour."""
    return Text(word, STATE_STYLES.get(word, ""))


def text(value: str, style: str = "") -> Text:
    """External text, without markup and control characters."""
    return Text(plain(value), style)


class Unsqueezed:
    """A table as wide as its content, up to a limit: the terminal wraps lines, columns are not truncated."""

    def __init__(self, made: Table, most: int) -> None:
        self._made, self._most = made, most

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Renders the table at its measured width."""
        wanted = self._made.__rich_measure__(console, options.update(max_width=MOST_WIDTH)).maximum
        yield from console.render(self._made, options.update(max_width=max(options.max_width, min(wanted, self._most))))


def results_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Unsqueezed:
    """Results of simulations at their full width."""
    made = table(*head, right=[name for name in head[1:] if name != "class"])
    for row in rows:
        made.add_row(*row)
    return Unsqueezed(made, MOST_WIDTH)


def pairs() -> Table:
    """Two columns: names and values."""
    made = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    return made


def indented(inner: RenderableType) -> Padding:
    """Indented below a heading."""
    return Padding(inner, (0, 0, 0, 2))


def time_cell(value: str | None) -> str:
    """A time to the second."""
    return "" if value is None else escape(value[:19].replace("T", " ") + " UTC")
