"""Which jobs a list shows, and in which order: `bailiff list`, and `jobs` of the Python client."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from bailiff.render.serializers.jobs import STATES, JobRow, job_order, job_row, job_rows
from bailiff.render.serializers.projects import below
from bailiff_core.model.state import ENDED
from bailiff_core.model.undecoded import Shared, jobs_of_user, shared_counts, shared_of
from bailiff_core.views import requested_gpu_milli

from .answers import NAMES, not_found
from .errors import ClassNotFound, InvalidRequest, NodeNotFound, ProjectNotFound

if TYPE_CHECKING:
    from bailiff_core.model.state import Job, PoolState


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Selects jobs; an empty field selects all.

    Attributes:
        project: Jobs of this project and its subprojects.
        nodes: Jobs with a task or a reservation on one of these nodes.
        names: Names, with * and ?.
        since: Submitted at this time or later, µs UTC.
        until: Submitted before this time, µs UTC.
        ended: Include ended jobs; implied by a state that is an end.
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
    def takes_all(self) -> bool:
        """Whether it leaves out no job, except those that have ended."""
        chosen = (self.states, self.users, self.classes, self.nodes, self.labels, self.names)
        return not any(chosen) and (self.project, self.since, self.until) == (None, None, None)

    @property
    def with_ended(self) -> bool:
        """Whether jobs that have ended are looked at."""
        return self.ended or any(state in ENDED for state in self.states)

    def may_take(self, name: str, shared: Shared, projects: Collection[str] | None) -> bool:
        """Whether the job may be wanted, by what is known of it without decoding it."""
        return (
            (not self.users or shared.user in self.users)
            and (not self.classes or shared.class_name in self.classes)
            and (projects is None or shared.project in projects)
            and (not self.states or _state_of(shared) in (None, *self.states))
            and (not self.nodes or not shared.waits)
            and (not self.names or any(fnmatchcase(name, pattern) for pattern in self.names))
        )

    def needs_row(self, shared: Shared) -> bool:
        """Whether only the job's row says whether it is wanted."""
        of_the_row = self.nodes or self.labels or (self.since, self.until) != (None, None)
        return bool(of_the_row or (self.states and _state_of(shared) is None))

    def takes(self, row: JobRow, submitted_at: int) -> bool:
        """Whether a job that may be wanted is wanted.

        Args:
            submitted_at: µs UTC.
        """
        return (
            (not self.states or row["state"] in self.states)
            and (not self.nodes or any(node in self.nodes for node in (*row["nodes"], *row["reserved_nodes"])))
            and all(row["labels"].get(name) == value for name, value in (self.labels or {}).items())
            and (self.since is None or submitted_at >= self.since)
            and (self.until is None or submitted_at < self.until)
        )


def _state_of(shared: Shared) -> str | None:
    """The job's state, where it is known without decoding the job."""
    return shared.phase if shared.waits or shared.phase in ENDED else None


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


SHARED_SORTS: Mapping[str, Callable[[str, int, Shared], Any]] = {
    "job": lambda name, _, __: name,
    "user": lambda _, __, shared: shared.user,
    "project": lambda _, __, shared: shared.project,
    "class": lambda _, __, shared: shared.class_name,
    "priority": lambda _, __, shared: shared.priority,
    "submitted": lambda _, submitted, __: submitted,
}
"""Those for which no job is needed: by name, how many were submitted before, and what the job has in common with others."""

JOB_SORTS: Mapping[str, Callable[[PoolState, Job], Any]] = {
    "gpus": lambda state, job: requested_gpu_milli(job.demand, state.policy),
    "evicted": lambda _, job: job.evictions,
    "attempt": lambda _, job: job.attempt,
}
"""Those for which no row is needed, which costs ten times as much."""


class JobPage(NamedTuple):
    """A page of a list of jobs.

    Attributes:
        total: How many jobs are listed on all pages.
        next: The token of the next page; None after the last one.
    """

    rows: list[JobRow]
    total: int
    next: str | None


def page(
    state: PoolState,
    now: int,
    wanted: JobFilter,
    sort: Sequence[str] = (),
    *,
    limit: int | None = None,
    after: str | None = None,
    own: str = "",
) -> JobPage:
    """A page of the wanted jobs. Only its jobs are decoded, as far as filter and order permit.

    Args:
        sort: Fields of `SORTS`, with a dash before a descending one; empty: the order of `job_order`.
        limit: How many rows at most; None: all.
        after: The token of the page.
        own: The user whose jobs are first, where there are more than `limit` and no `sort`.

    Raises:
        ProjectNotFound: The filter names an unknown project.
        NotFound: It names an unknown node or class, and no job has it.
        InvalidRequest: `sort` names an unknown field, or `after` is no token.
    """
    names = _sorted(state, now, _wanted(state, now, wanted), sort)
    if own and not sort and limit is not None and len(names) > limit:
        owns = dict.fromkeys(jobs_of_user(state.jobs, own))
        mine = [name for name in names if name in owns] if owns else []
        names = [*mine, *(name for name in names if name not in owns)] if mine else names
    first = _first_after(names, after)
    last = len(names) if limit is None else min(len(names), first + limit)
    following = f"{last}.{names[last - 1]}" if first < last < len(names) else None
    return JobPage(job_rows(state, now, names[first:last]), len(names), following)


def _wanted(state: PoolState, now: int, wanted: JobFilter) -> list[str]:
    projects: Collection[str] | None = None
    if wanted.project is not None:
        stated = (each.name for each in state.rules.projects)  # jobs may be of one that the policy had before
        if wanted.project not in (*stated, *(shared.project for shared in shared_counts(state.jobs))):
            raise not_found(ProjectNotFound, wanted.project, state)
        projects = dict.fromkeys(below(state.rules, wanted.project))

    names = job_order(state, ended=wanted.with_ended)
    if wanted.takes_all:
        return names

    def takes(name: str) -> bool:
        shared = shared_of(state.jobs, name)
        if not wanted.may_take(name, shared, projects):
            return False
        job = state.jobs[name] if wanted.needs_row(shared) else None
        return job is None or wanted.takes(job_row(state, job, now), job.submitted_at)

    found = [name for name in names if takes(name)]
    for kind, asked in ((NodeNotFound, wanted.nodes), (ClassNotFound, wanted.classes)) if not found else ():
        unknown = [name for name in asked if name not in NAMES[kind](state)]
        if unknown:  # where jobs have it, it was there
            raise not_found(kind, unknown[0], state)
    return found


def _sorted(state: PoolState, now: int, names: list[str], sort: Sequence[str]) -> list[str]:
    fields = [(each.removeprefix("-"), each.startswith("-")) for each in sort]
    for name, _ in fields:
        if name not in SORTS:
            raise InvalidRequest([f"sort: there is no field {name!r}"], f"fields: {', '.join(SORTS)}; -{name}: descending")
    by_rows = any(name not in SHARED_SORTS and name not in JOB_SORTS for name, _ in fields)
    rows = {row["job"]: row for row in job_rows(state, now, names)} if by_rows else {}
    submitted = {name: at for at, name in enumerate(state.jobs)} if fields else {}
    for field, descending in reversed(fields):
        by_shared, by_job, by_row = SHARED_SORTS.get(field), JOB_SORTS.get(field), SORTS[field]
        if by_shared is not None:
            names.sort(key=lambda name: by_shared(name, submitted[name], shared_of(state.jobs, name)), reverse=descending)
        elif by_job is not None:
            names.sort(key=lambda name: by_job(state, state.jobs[name]), reverse=descending)
        else:
            names.sort(key=lambda name: by_row(rows[name]), reverse=descending)
    return names


def _first_after(names: Sequence[str], token: str | None) -> int:
    """Where the page begins: after the last job of the page before, or where that was, if it is no longer listed."""
    if token is None:
        return 0
    count, _, last = token.partition(".")
    if not (count.isascii() and count.isdigit() and last):
        raise InvalidRequest([f"after: {token!r} is no token of a page"], "leave it out for the first page")
    return names.index(last) + 1 if last in names else min(int(count), len(names))
