"""Which jobs a list shows, and in which order: `bailiff list`, and `jobs` of the Python client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from bailiff.render.serializers.jobs import STATES, JobRow, job_rows
from bailiff_core.model.state import ENDED

from .answers import no_such_project
from .errors import InvalidRequest

if TYPE_CHECKING:
    from bailiff_core.model.state import PoolState


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs are wanted; an empty field takes all. ended: also jobs that have ended; a state that is an end implies it.

    project: and its subprojects. names: with * and ?. since, until: submitted from, and before, this time, µs UTC.
    nodes: on which a task is, or resources are reserved.
    """

    states: Sequence[str] = ()
    users: Sequence[str] = ()
    project: str | None = None
    classes: Sequence[str] = ()
    nodes: Sequence[str] = ()
    labels: Mapping[str, str] | None = None
    names: Sequence[str] = ()
    since: int | None = None
    until: int | None = None
    ended: bool = False

    def __post_init__(self) -> None:
        unknown = [name for name in self.states if name not in STATES]
        if unknown:
            raise InvalidRequest([f"state: there is no state {unknown[0]!r}"], f"states: {', '.join(STATES)}")

    @property
    def with_ended(self) -> bool:
        """Whether jobs that have ended are looked at."""
        return self.ended or any(state in ENDED for state in self.states)

    def takes(self, row: JobRow, submitted_at: int) -> bool:
        """Whether the job is wanted. submitted_at: µs UTC."""
        return (
            (not self.states or row["state"] in self.states)
            and (not self.users or row["user"] in self.users)
            and (not self.classes or row["priority_class"] in self.classes)
            and (not self.nodes or any(node in self.nodes for node in (*row["nodes"], *row["reserved_nodes"])))
            and all(row["labels"].get(name) == value for name, value in (self.labels or {}).items())
            and (not self.names or any(fnmatchcase(row["job"], pattern) for pattern in self.names))
            and (self.since is None or submitted_at >= self.since)
            and (self.until is None or submitted_at < self.until)
        )


SortKey = Callable[[JobRow], Any]
SORTS: Mapping[str, SortKey] = {
    "job": lambda row: row["job"],
    "user": lambda row: row["user"],
    "project": lambda row: row["project"],
    "class": lambda row: row["priority_class"],
    "priority": lambda row: row["priority"],
    "state": lambda row: STATES.index(row["state"]),
    "gpus": lambda row: row["gpus"],
    "evicted": lambda row: row["evictions"],
    "attempt": lambda row: row["attempt"],
    "submitted": lambda row: row["submitted_at"] or "",
    "started": lambda row: row["started_at"] or "",
    "ended": lambda row: row["ended_at"] or "",
    "pending": lambda row: row["pending_s"] or 0,
    "running": lambda row: row["running_s"] or 0,
}


def selected(state: PoolState, now: int, wanted: JobFilter, sort: Sequence[str] = ()) -> list[JobRow]:
    """The rows of the wanted jobs. sort: fields of `SORTS`, with a dash before one for descending; without: as `job_rows`.

    Raises `ProjectNotFound`, or `InvalidRequest` for an unknown field.
    """
    if wanted.project is not None and all(wanted.project != each.name for each in state.rules.projects):
        raise no_such_project(state, wanted.project)
    rows = [
        row
        for row in job_rows(state, now, ended=wanted.with_ended, project=wanted.project)
        if wanted.takes(row, state.jobs[row["job"]].submitted_at)
    ]
    for field in reversed(sort):
        name = field.removeprefix("-")
        if name not in SORTS:
            raise InvalidRequest([f"sort: there is no field {name!r}"], f"fields: {', '.join(SORTS)}; -{name}: descending")
        rows.sort(key=SORTS[name], reverse=field.startswith("-"))
    return rows
