"""A pool as its pages have it: every row as bytes, brought up to date with what records touched, and with nothing else.

`all_anew` makes every row; `update` those of touched jobs and nodes, and says what changed. Both give the same rows.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

import orjson

from bailiff import projects
from bailiff.present.nodes import NodeRow, node_row
from bailiff.present.policy import class_rows
from bailiff.present.pools import pool_row
from bailiff.present.times import moment
from bailiff_core.model.pool import ENDED, Job, Pool

from .change import Change, Place, Rows, Show, event, members, packed
from .memo import Memo
from .rows import holders_of, live_job, live_project, node_cells
from .touched import Touched

LONG_QUEUE = 300  # a longer one is sent at most once in LONG_QUEUE_TICKS
LONG_QUEUE_TICKS = 5
EVENTS_KEPT = 300


class Picture:
    """place: which record the rows are of. events: the newest lines, as bytes."""

    def __init__(self, name: str, memo: Memo) -> None:
        self.place = Place(name, -1, "")
        self.events: deque[bytes] = deque(maxlen=EVENTS_KEPT)
        self._memo = memo
        self._nodes: dict[str, bytes] = {}
        self._jobs: dict[str, bytes] = {}
        self._projects: dict[str, bytes] = {}
        self._node_rows: dict[int, NodeRow] = {}
        self._standing: dict[int, dict[str, None]] = {}  # jobs by node
        self._nodes_of: dict[str, frozenset[int]] = {}  # and the other way round
        self._queue: list[str] = []
        self._queue_sent = 0
        self._ticks = 0
        self._head = b""
        self._classes = b"[]"
        self._boards: dict[Show, bytes] = {}

    def all_anew(self, pool: Pool, hash_: str, orphans: int = 0) -> None:
        """Every row of this pool."""
        for kept in (self._nodes, self._jobs, self._projects, self._node_rows, self._standing, self._nodes_of):
            kept.clear()
        self._queue = []
        self.update(pool, hash_, Touched(everything=True), [], orphans)

    def update(self, pool: Pool, hash_: str, touched: Touched, events: Iterable[bytes], orphans: int = 0) -> Change:
        """Bring the rows of what was touched up to date. Returns what changed."""
        before, self.place = self.place, Place(self.place.pool, pool.seq, hash_)
        self._ticks += 1
        names = dict.fromkeys([*pool.jobs, *self._jobs]) if touched.everything else touched.jobs
        numbers = dict.fromkeys(pool.nodes) if touched.everything else dict(touched.nodes)
        for name in names:
            self._stand(pool, name, numbers)
        jobs, jobs_gone = self._update_jobs(pool, names)
        nodes = self._update_nodes(pool, numbers)
        project_rows, projects_gone = self._update_projects(pool)
        told = list(events)
        self.events.extend(told)
        classes = None
        if touched.everything:
            classes = self._classes = packed(class_rows(pool)) if pool.policy is not None else b"[]"
        row = pool_row(pool, pool.now, orphans, list(self._node_rows.values())) if pool.policy is not None else None
        self._head = b'"seq":%d,"time":%b,"pool":%b' % (pool.seq, orjson.dumps(moment(pool.now)), orjson.dumps(row))
        self._boards.clear()
        return Change(
            before, self.place, self._head, {"nodes": nodes, "jobs": jobs, "projects": project_rows},
            {"jobs": jobs_gone, "projects": projects_gone}, self._changed_queue(pool), classes, told,
        )  # fmt: skip

    def board(self, show: Show) -> bytes:
        """Everything that a page with these parts shows, as an event."""
        made = self._boards.get(show)
        if made is None:
            made = self._boards[show] = event("board", b"{%b}" % self.members(show), str(self.place))
        return made

    def members(self, show: Show) -> bytes:
        """What stands between the braces of that."""
        return b",".join(self._members(show))

    def pool_row(self) -> Any:
        """The pool's row, or null before there is a policy."""
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

    def _stand(self, pool: Pool, name: str, numbers: dict[int, None]) -> None:
        """Note where the job stands; the nodes that it left or came to are touched, too."""
        job = pool.jobs.get(name)
        held = job.tasks if job is not None and name in pool.active else []
        now = frozenset(task.node for task in held if task.state != "released")
        was = self._nodes_of.get(name, frozenset())
        for number in was - now:
            self._standing[number].pop(name, None)
        for number in now - was:
            self._standing.setdefault(number, {})[name] = None
        numbers.update(dict.fromkeys(sorted(was | now)))
        if now:
            self._nodes_of[name] = now
        else:
            self._nodes_of.pop(name, None)

    def _update_jobs(self, pool: Pool, names: Iterable[str]) -> tuple[Rows, list[str]]:
        changed: dict[str, bytes] = {}
        gone: list[str] = []
        for name in names:
            job = pool.jobs.get(name)
            if job is None or job.phase in ENDED:
                if self._jobs.pop(name, None) is not None:
                    gone.append(name)
                continue
            _put(self._jobs, changed, name, live_job(pool, job, self._memo))
        return changed, gone

    def _update_nodes(self, pool: Pool, numbers: Iterable[int]) -> Rows:
        changed: dict[str, bytes] = {}
        for number in numbers:
            node = pool.nodes[number]
            there: list[Job] = [pool.jobs[name] for name in self._standing.get(number, ())]
            row = node_row(node, holders_of(node, there))
            _put(self._nodes, changed, node.name, node_cells(row))
            row["devices"] = []  # only sums are made of it
            self._node_rows[number] = row
        return changed

    def _update_projects(self, pool: Pool) -> tuple[Rows, list[str]]:
        changed: dict[str, bytes] = {}
        rows = projects.rows(pool) if pool.policy is not None else []
        for row in rows:
            name = row["project"]
            _put(self._projects, changed, name, live_project(row, projects.below(pool.rules, name), self._memo))
        names = {row["project"] for row in rows}
        gone = [name for name in self._projects if name not in names]
        for name in gone:
            del self._projects[name]
        return changed, gone

    def _changed_queue(self, pool: Pool) -> bytes | None:
        waits = [name for name in pool.queue if name not in pool.active]
        due = len(waits) <= LONG_QUEUE or self._ticks - self._queue_sent >= LONG_QUEUE_TICKS
        if waits == self._queue or not due:
            return None
        self._queue, self._queue_sent = waits, self._ticks
        return packed(waits)


def _put(kept: dict[str, bytes], changed: dict[str, bytes], name: str, row: Any) -> None:
    made = packed(row)
    if kept.get(name) != made:
        kept[name] = changed[name] = made
