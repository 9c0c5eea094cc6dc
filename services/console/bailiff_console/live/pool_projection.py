"""Rows of one pool as serialized JSON, updated incrementally for the jobs and nodes that records changed.

`rebuild` renders every row; `update` renders changed jobs and nodes and returns the change. Both give the same rows.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

import orjson

from bailiff.client import projects
from bailiff.render.serializers.nodes import NodeRow, node_row
from bailiff.render.serializers.policy import class_rows
from bailiff.render.serializers.pools import pool_row
from bailiff.render.serializers.times import moment
from bailiff_core.model.state import ENDED, Job, PoolState

from .change import Change, Position, Rows, Show, event, members, packed
from .change_tracker import ChangeTracker
from .rows import holders_of, live_job, live_project, node_cells
from .view_cache import ViewCache

LONG_QUEUE = 300  # a longer queue is sent at most once per LONG_QUEUE_TICKS
LONG_QUEUE_TICKS = 5
MAX_EVENTS = 300


class PoolProjection:
    """position: of the record that the rows reflect. events: the newest event lines, serialized."""

    def __init__(self, name: str, view_cache: ViewCache) -> None:
        self.position = Position(name, -1, "")
        self.events: deque[bytes] = deque(maxlen=MAX_EVENTS)
        self._view_cache = view_cache
        self._nodes: dict[str, bytes] = {}
        self._jobs: dict[str, bytes] = {}
        self._projects: dict[str, bytes] = {}
        self._node_rows: dict[int, NodeRow] = {}
        self._jobs_on: dict[int, dict[str, None]] = {}  # by node number
        self._nodes_of: dict[str, frozenset[int]] = {}  # by job
        self._queue: list[str] = []
        self._queue_sent = 0
        self._ticks = 0
        self._head = b""
        self._classes = b"[]"
        self._snapshots: dict[Show, bytes] = {}

    def rebuild(self, state: PoolState, hash_: str, orphans: int = 0) -> None:
        """Render every row."""
        for rows in (self._nodes, self._jobs, self._projects, self._node_rows, self._jobs_on, self._nodes_of):
            rows.clear()
        self._queue = []
        self.update(state, hash_, ChangeTracker(everything=True), [], orphans)

    def update(self, state: PoolState, hash_: str, tracker: ChangeTracker, events: Iterable[bytes], orphans: int = 0) -> Change:
        """Render the rows of changed jobs and nodes. Returns the change."""
        before, self.position = self.position, Position(self.position.pool, state.seq, hash_)
        self._ticks += 1
        names = dict.fromkeys([*state.jobs, *self._jobs]) if tracker.everything else tracker.jobs
        numbers = dict.fromkeys(state.nodes) if tracker.everything else dict(tracker.nodes)
        for name in names:
            self._track_nodes(state, name, numbers)
        jobs, removed_jobs = self._update_jobs(state, names)
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
            before, self.position, self._head, {"nodes": nodes, "jobs": jobs, "projects": project_rows},
            {"jobs": removed_jobs, "projects": removed_projects}, self._changed_queue(state), classes, lines,
        )  # fmt: skip

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

    def _update_jobs(self, state: PoolState, names: Iterable[str]) -> tuple[Rows, list[str]]:
        changed: dict[str, bytes] = {}
        removed: list[str] = []
        for name in names:
            job = state.jobs.get(name)
            if job is None or job.phase in ENDED:
                if self._jobs.pop(name, None) is not None:
                    removed.append(name)
                continue
            _put(self._jobs, changed, name, live_job(state, job, self._view_cache))
        return changed, removed

    def _update_nodes(self, state: PoolState, numbers: Iterable[int]) -> Rows:
        changed: dict[str, bytes] = {}
        for number in numbers:
            node = state.nodes[number]
            placed: list[Job] = [state.jobs[name] for name in self._jobs_on.get(number, ())]
            row = node_row(node, holders_of(node, placed))
            _put(self._nodes, changed, node.name, node_cells(row))
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

    def _changed_queue(self, state: PoolState) -> bytes | None:
        pending = [name for name in state.queue if name not in state.active]
        due = len(pending) <= LONG_QUEUE or self._ticks - self._queue_sent >= LONG_QUEUE_TICKS
        if pending == self._queue or not due:
            return None
        self._queue, self._queue_sent = pending, self._ticks
        return packed(pending)


def _put(rows: dict[str, bytes], changed: dict[str, bytes], name: str, row: Any) -> None:
    made = packed(row)
    if rows.get(name) != made:
        rows[name] = changed[name] = made
