"""The columns of `bailiff list`: for a terminal as a table, for a pipe separated by tabs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bailiff.client.errors import InvalidRequest
from bailiff.render.plain_text import plain
from bailiff.render.serializers.jobs import JobRow
from bailiff_core.humanize import user_text

from .cells import seconds_cell, some

if TYPE_CHECKING:
    from rich.console import RenderableType

NO_LIMIT = 99


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        brief: Its cell in a table that is not wide.
        optional: Shown by default only if some job has a value.
    """

    header: str
    cell: Callable[[JobRow], str]
    brief: Callable[[JobRow], str] | None = None
    number: bool = False
    optional: bool = False


def _gpus(row: JobRow) -> str:
    """`4/8`: allocated of requested GPUs, for a job that runs with fewer tasks."""
    some = 0 < row["placed_tasks"] < row["tasks"]
    wanted = "-" if row["gpus_text"] == "0" else row["gpus_text"]
    return f"{row['placed_gpus_text']}/{wanted}" if some and wanted != "-" else wanted


def _tasks(row: JobRow) -> str:
    least = f", at least {row['min_tasks']}" if row["min_tasks"] < row["tasks"] else ""
    return f"{row['placed_tasks']}/{row['tasks']}{least}"


def _time_spent(row: JobRow) -> str:
    if row["pending_s"] is not None:
        return f"pending {seconds_cell(row['pending_s'])}"
    if row["running_s"] is not None:
        ran = "last ran" if (row["attempt"] or 0) > 1 else "ran"
        return f"{ran if row['ended_at'] else 'running'} {seconds_cell(row['running_s'])}"
    return ""


def _time(value: str | None) -> str:
    return (value or "")[:19].replace("T", " ")


def _day_and_minute(value: str | None) -> str:
    return (value or "")[5:16].replace("T", " ")


COLUMNS: Mapping[str, Column] = {
    "ahead": Column("#", lambda row: "" if row["jobs_ahead"] is None else str(row["jobs_ahead"]), number=True),
    "job": Column("JOB", lambda row: row["job"]),
    "user": Column("USER", lambda row: user_text(row["user"], row["user_verified"]), optional=True),
    "project": Column("PROJECT", lambda row: row["project"] or "-"),
    "class": Column("CLASS", lambda row: f"{row['priority_class']} {row['priority']}"),
    "state": Column("STATE", lambda row: row["state"]),
    "gpus": Column("GPUS", _gpus, number=True),
    "nodes": Column("NODES", lambda row: some(row["nodes"], NO_LIMIT), lambda row: some(row["nodes"], 1)),
    "attempt": Column("TRY", lambda row: str(row["attempt"] or "-"), number=True),
    "evicted": Column("EVICTED", lambda row: str(row["evictions"] or "-"), number=True),
    "time": Column("TIME", _time_spent),
    "tasks": Column("TASKS", _tasks),
    "reserved": Column("RESERVED", lambda row: some(row["reserved_nodes"], NO_LIMIT)),
    "submitted": Column("SUBMITTED", lambda row: _time(row["submitted_at"]), lambda row: _day_and_minute(row["submitted_at"])),
    "started": Column("STARTED", lambda row: _time(row["started_at"]), lambda row: _day_and_minute(row["started_at"])),
    "ended": Column("ENDED", lambda row: _time(row["ended_at"]), lambda row: _day_and_minute(row["ended_at"])),
    "failures": Column("FAILURES", lambda row: str(row["failures"] or "-"), number=True),
    "labels": Column("LABELS", lambda row: ",".join(f"{name}={value}" for name, value in row["labels"].items())),
    "believed": Column("BELIEVED", lambda row: row["believed"], optional=True),
    "note": Column("NOTE", lambda row: row["note"], optional=True),
}
DEFAULT = ("ahead", "job", "user", "class", "state", "gpus", "nodes", "attempt", "evicted", "time")
TIMES = ("started", "ended")
WIDE = (
    "ahead",
    "job",
    "user",
    "project",
    "class",
    "state",
    "gpus",
    "nodes",
    "attempt",
    "evicted",
    "time",
    "tasks",
    "reserved",
    "submitted",
)


def chosen(rows: Sequence[JobRow], named: Sequence[str] = (), *, wide: bool = False, times: bool = False) -> list[str]:
    """The names of the columns: those that are named, else the default ones.

    Args:
        times: Add start and end.
    """
    unknown = [name for name in named if name not in COLUMNS]
    if unknown:
        raise InvalidRequest([f"columns: there is no column {unknown[0]!r}"], f"columns: {', '.join(COLUMNS)}")
    if named:
        return list(named)
    names = [*(WIDE if wide else DEFAULT), *(TIMES if times else ()), "believed", "note"]
    return [name for name in names if not COLUMNS[name].optional or any(COLUMNS[name].cell(row) for row in rows)]


def jobs_table(rows: Sequence[JobRow], named: Sequence[str] = (), *, wide: bool = False, times: bool = False) -> RenderableType:
    """`bailiff list` on a terminal."""
    from rich.text import Text

    from .style import LIST_WIDTH, MOST_WIDTH, Unsqueezed, table

    if not rows:
        return Text("No jobs. Submit one: bailiff submit --gpus 1 -- python train.py", "dim")
    names = chosen(rows, named, wide=wide, times=times)
    made = table(
        *(COLUMNS[name].header for name in names), right=[COLUMNS[name].header for name in names if COLUMNS[name].number]
    )
    for row in rows:
        made.add_row(*(_cell(name, row, wide=wide or bool(named)) for name in names))
    return Unsqueezed(made, MOST_WIDTH if wide or times or named else LIST_WIDTH)


def _cell(name: str, row: JobRow, *, wide: bool) -> RenderableType:
    from .style import state_word, text

    column = COLUMNS[name]
    value = column.cell(row) if wide or column.brief is None else column.brief(row)
    if name == "state":
        return state_word(value)
    return text(value, {"job": "bold", "note": "dim"}.get(name, ""))


def jobs_text(rows: Sequence[JobRow], named: Sequence[str] = (), *, wide: bool = False, times: bool = False) -> str:
    """`bailiff list` in a pipe: one line per job, cells separated by one tab, not padded; the first line has the headers."""
    names = chosen(rows, named, wide=wide, times=times)
    lines = [[COLUMNS[name].header for name in names], *([plain(COLUMNS[name].cell(row)) for name in names] for row in rows)]
    return "".join("\t".join(cells) + "\n" for cells in lines)
