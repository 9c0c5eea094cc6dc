"""Rows of one pool as serialized JSON, updated incrementally for the jobs and nodes that records changed.

There are rows of the jobs that hold or get resources, of the first pending ones, and of the newest that wait outside the queue: a
pool may have a hundred thousand jobs, of which `/jobs` has pages.

`rebuild` renders every row; `update` renders changed jobs and nodes and returns the change. Both give the same rows.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any, NotRequired

import orjson
from typing_extensions import TypedDict

from bailiff.render.serializers import projects
from bailiff.render.serializers.jobs import job_state
from bailiff.render.serializers.nodes import NodeRow, node_row
from bailiff.render.serializers.policy import ClassRow, class_rows
from bailiff.render.serializers.pools import PoolRow, pool_row
from bailiff.render.serializers.times import moment
from bailiff_core.model.state import ENDED, Job, PoolState
from bailiff_core.views import Moment

from .change import Change, Position, Rows, Show, event, members, packed
from .change_tracker import ChangeTracker
from .event_lines import EventLine
from .rows import LiveJob, LiveNode, LiveProject, holders_of, live_job, live_node, live_project
from .view_cache import ViewCache

MAX_PENDING = 300  # rows, the first of the queue
MAX_ASIDE = 300  # rows of each state outside the queue, the newest
MAX_EVENTS = 300


class PoolSnapshot(TypedDict):
    """The pool after the record `seq`: the parts that were asked for. queue: names of the first pending jobs, in order."""

    seq: int
    time: Moment | None
    pool: PoolRow | None
    nodes: NotRequired[dict[str, LiveNode]]
    jobs: NotRequired[dict[str, LiveJob]]
    projects: NotRequired[dict[str, LiveProject]]
    queue: NotRequired[list[str]]
    classes: list[ClassRow]
    events: NotRequired[list[EventLine]]


class ChangedRows(TypedDict, total=False):
    """New rows by name."""

    nodes: dict[str, LiveNode]
    jobs: dict[str, LiveJob]
    projects: dict[str, LiveProject]


class RemovedRows(TypedDict, total=False):
    """Names of removed rows. jobs: they have ended. unlisted: jobs that have not, and are no longer among the rows."""

    jobs: list[str]
    unlisted: list[str]
    projects: list[str]


class PoolChange(TypedDict):
    """Changes up to the record `seq`. queue, classes: if they changed. events: new ones."""

    seq: int
    time: Moment | None
    pool: PoolRow | None
    updated: ChangedRows
    removed: RemovedRows
    queue: NotRequired[list[str]]
    classes: NotRequired[list[ClassRow]]
    events: NotRequired[list[EventLine]]


class PoolProjection:
    """position: of the record that the rows reflect. events: the newest event lines, serialized.

    watched: jobs that have rows as long as they have not ended.
    """

    def __init__(self, name: str, view_cache: ViewCache, watched: Collection[str] = ()) -> None:
        self.position = Position(name, -1, "")
        self.events: deque[bytes] = deque(maxlen=MAX_EVENTS)
        self._view_cache, self._watched = view_cache, watched
        self._nodes: dict[str, bytes] = {}
        self._jobs: dict[str, bytes] = {}
        self._projects: dict[str, bytes] = {}
        self._node_rows: dict[int, NodeRow] = {}
        self._jobs_on: dict[int, dict[str, None]] = {}  # by node number
        self._nodes_of: dict[str, frozenset[int]] = {}  # by job
        self._aside: dict[str, list[tuple[int, str]]] = {}  # seq and name of jobs outside the queue, ascending, by state
        self._aside_as: dict[str, tuple[str, int]] = {}  # state and seq by job
        self._queue: list[str] = []
        self._head = b""
        self._classes = b"[]"
        self._snapshots: dict[Show, bytes] = {}

    def rebuild(self, state: PoolState, hash_: str, orphans: int = 0) -> None:
        """Render every row."""
        for rows in (self._nodes, self._jobs, self._projects, self._node_rows, self._jobs_on, self._nodes_of):
            rows.clear()
        self._aside.clear()
        self._aside_as.clear()
        self._queue = []
        self.update(state, hash_, ChangeTracker(everything=True), [], orphans)

    def update(self, state: PoolState, hash_: str, tracker: ChangeTracker, events: Iterable[bytes], orphans: int = 0) -> Change:
        """Render the rows of changed jobs and nodes. Returns the change."""
        before, self.position = self.position, Position(self.position.pool, state.seq, hash_)
        names = dict.fromkeys([*state.jobs, *self._aside_as]) if tracker.everything else tracker.jobs
        numbers = dict.fromkeys(state.nodes) if tracker.everything else dict(tracker.nodes)
        for name in names:
            self._track_nodes(state, name, numbers)
            self._track_aside(state, name)
        queue = list(islice((name for name in state.queue if name not in state.active), MAX_PENDING))
        jobs, removed_jobs, unlisted = self._update_jobs(state, names, queue)
        nodes = self._update_nodes(state, numbers)
        project_rows, removed_projects = self._update_projects(state)
        lines = list(events)
        self.events.extend(lines)
        classes = None
        if tracker.everything:
            classes = self._classes = packed(class_rows(state)) if state.policy is not None else b"[]"
        row = pool_row(state, state.now, orphans, list(self._node_rows.values())) if state.policy is not None else None
        self._head = b'"seq":%d,"time":%b,"pool":%b' % (state.seq, orjson.dumps(moment(state.now)), orjson.dumps(row))
        self._snapshots.clear()
        return Change(
            before,
            self.position,
            self._head,
            {"nodes": nodes, "jobs": jobs, "projects": project_rows},
            {"jobs": removed_jobs, "unlisted": unlisted, "projects": removed_projects},
            self._changed_queue(queue),
            classes,
            lines,
        )

    def watch(self, state: PoolState, name: str) -> None:
        """Render the row of a watched job, which the next snapshot has."""
        job = state.jobs.get(name)
        if name not in self._jobs and job is not None and job.phase not in ENDED:
            self._jobs[name] = packed(live_job(state, job, self._view_cache))
            self._snapshots.clear()

    def snapshot_event(self, show: Show) -> bytes:
        """The server-sent event `snapshot` with all rows of these parts."""
        made = self._snapshots.get(show)
        if made is None:
            made = self._snapshots[show] = event("snapshot", b"{%b}" % self.members(show), str(self.position))
        return made

    def members(self, show: Show) -> bytes:
        """JSON members of the snapshot, without the braces."""
        return b",".join(self._members(show))

    def pool_row(self) -> Any:
        """The pool's row; None before a policy is applied."""
        return orjson.loads(b"{%b}" % self._head)["pool"] if self._head else None

    def _members(self, show: Show) -> list[bytes]:
        found = [self._head] if self._head else []
        for part, rows in (("nodes", self._nodes), ("jobs", self._jobs), ("projects", self._projects)):
            if part in show:
                found.append(b'"%b":%b' % (part.encode(), members(rows)))
        if show & {"queue", "jobs"}:
            found.append(b'"queue":' + orjson.dumps(self._queue))
        found.append(b'"classes":' + self._classes)
        if "events" in show:
            found.append(b'"events":[%b]' % b",".join(self.events))
        return found

    # --- rows

    def _track_nodes(self, state: PoolState, name: str, numbers: dict[int, None]) -> None:
        """Update on which nodes the job has tasks; nodes it left or joined count as changed."""
        job = state.jobs.get(name)
        tasks = job.tasks if job is not None and name in state.active else []
        after = frozenset(task.node for task in tasks if task.state != "released")
        before = self._nodes_of.get(name, frozenset())
        for number in before - after:
            self._jobs_on[number].pop(name, None)
        for number in after - before:
            self._jobs_on.setdefault(number, {})[name] = None
        numbers.update(dict.fromkeys(sorted(before | after)))
        if after:
            self._nodes_of[name] = after
        else:
            self._nodes_of.pop(name, None)

    def _track_aside(self, state: PoolState, name: str) -> None:
        """Update in which state the job waits outside the queue, if it does."""
        job = state.jobs.get(name)
        held = job is None or job.phase in ENDED or name in state.active or name in state.indices.queued
        after = (job_state(job), job.seq) if job is not None and not held else None
        before = self._aside_as.get(name)
        if before == after:
            return
        if before is not None:
            found = self._aside[before[0]]
            del found[bisect_left(found, (before[1], name))], self._aside_as[name]
        if after is not None:
            insort(self._aside.setdefault(after[0], []), (after[1], name))
            self._aside_as[name] = after

    def _update_jobs(self, state: PoolState, names: Iterable[str], queue: list[str]) -> tuple[Rows, list[str], list[str]]:
        """New rows, and the jobs without one from now on: those that have ended, and the others."""
        aside = [name for found in self._aside.values() for _, name in found[-MAX_ASIDE:]]
        shown = {**state.active, **dict.fromkeys(queue), **dict.fromkeys(aside)}
        shown.update((name, None) for name in self._watched if name in state.jobs and state.jobs[name].phase not in ENDED)
        changed: dict[str, bytes] = {}
        fresh = [name for name in shown if name not in self._jobs]
        for name in dict.fromkeys([*(name for name in names if name in shown), *fresh]):
            _put(self._jobs, changed, name, live_job(state, state.jobs[name], self._view_cache))
        removed, unlisted = list[str](), list[str]()
        for name in [name for name in self._jobs if name not in shown]:
            del self._jobs[name]
            job = state.jobs.get(name)
            (removed if job is None or job.phase in ENDED else unlisted).append(name)
        return changed, removed, unlisted

    def _update_nodes(self, state: PoolState, numbers: Iterable[int]) -> Rows:
        changed: dict[str, bytes] = {}
        for number in numbers:
            node = state.nodes[number]
            placed: list[Job] = [state.jobs[name] for name in self._jobs_on.get(number, ())]
            row = node_row(state, node, holders_of(node, placed))
            _put(self._nodes, changed, node.name, live_node(row))
            row["devices"] = []  # kept for sums only
            self._node_rows[number] = row
        return changed

    def _update_projects(self, state: PoolState) -> tuple[Rows, list[str]]:
        changed: dict[str, bytes] = {}
        rows = projects.rows(state) if state.policy is not None else []
        for row in rows:
            name = row["project"]
            _put(self._projects, changed, name, live_project(row, projects.below(state.rules, name), self._view_cache))
        names = {row["project"] for row in rows}
        removed = [name for name in self._projects if name not in names]
        for name in removed:
            del self._projects[name]
        return changed, removed

    def _changed_queue(self, queue: list[str]) -> bytes | None:
        if queue == self._queue:
            return None
        self._queue = queue
        return packed(queue)


def _put(rows: dict[str, bytes], changed: dict[str, bytes], name: str, row: Any) -> None:
    made = packed(row)
    if rows.get(name) != made:
        rows[name] = changed[name] = made
