"""GPU allocations and GPU states over time, derived from the fold as rows with a begin and an end.

The fold is looked at after every record. What was stored is identified by its position, so that a record that is folded
again changes nothing. For the auditor to write, and for `verify --derived` to compare.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bailiff_core.explain import jobs_of
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.state import Job, Node, PoolState
from bailiff_core.records import Record, facts
from bailiff_core.records.wire import EPOCH_START, MICROSECOND

from .archive import without_nul

Key = tuple[Any, ...]
What = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one table: key columns, then those whose change ends a row and begins another."""

    name: str
    key: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def insert(self) -> str:
        """Of a whole row."""
        columns = ("pool", *self.key, *self.values, "from_seq", "from_at", "to_seq", "to_at")
        given = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
        return f"INSERT INTO {self.name} ({', '.join(columns)}) VALUES ({given}) ON CONFLICT DO NOTHING"  # noqa: S608 - our names

    @property
    def end(self) -> str:
        """Of a row that was stored before: pool, key, and where it ends."""
        key = " AND ".join(f"{column} = ${number}" for number, column in enumerate(("pool", *self.key), 1))
        at = len(self.key) + 2
        return f"UPDATE {self.name} SET to_seq = ${at}, to_at = ${at + 1} WHERE {key} AND to_seq IS NULL"  # noqa: S608


@dataclass(slots=True)
class _Row:
    key: Key
    what: What
    begin: tuple[int, Any]
    end: tuple[int | None, Any] = (None, None)
    stored: bool = False


@dataclass
class IntervalRows:
    """The open rows of one table, and what is to be written of it. `owner`: the first part of a key."""

    table: Table
    open: dict[str, dict[Key, _Row]] = field(default_factory=dict)
    begun: list[_Row] = field(default_factory=list)
    ended: list[_Row] = field(default_factory=list)

    def now(self, owner: str, found: Mapping[Key, What], at: tuple[int, Any], *, stored: bool) -> None:
        """All that is so of this owner from here on. stored: the database has it already."""
        rows = self.open.get(owner, {})
        for key, row in list(rows.items()):
            if found.get(key) != row.what:
                del rows[key]
                row.end = at
                if row.stored and not stored:
                    self.ended.append(row)
        for key, what in found.items():
            if key not in rows:
                rows[key] = row = _Row(key, what, at, stored=stored)
                if not stored:
                    self.begun.append(row)
        if rows:
            self.open[owner] = rows
        else:
            self.open.pop(owner, None)

    async def write(self, connection: Any, pool: int) -> None:
        """What is due; the caller's transaction makes it whole."""
        ended, self.ended = self.ended, []
        begun, self.begun = self.begun, []
        if ended:
            await connection.executemany(self.table.end, [(pool, *row.key, *row.end) for row in ended])
        if begun:
            rows = [(pool, *row.key, *row.what, *row.begin, *row.end) for row in begun]
            for row in begun:
                row.stored = True
            await connection.executemany(self.table.insert, rows)


GPU_ALLOCATIONS = Table("gpu_allocations", ("job", "submitted_seq", "task", "kind"), ("attempt", "node", "gpus"))
GPU_STATES = Table("gpu_states", ("node", "gpu"), ("id", "model", "state", "fault"))


@dataclass
class GpuAllocations:
    """Both tables of one pool, as of the pool that was looked at last."""

    places: IntervalRows = field(default_factory=lambda: IntervalRows(GPU_ALLOCATIONS))
    states: IntervalRows = field(default_factory=lambda: IntervalRows(GPU_STATES))

    def begin(self, state: PoolState) -> None:
        """The pool is what a snapshot says, of a record that is stored."""
        for job in state.active_jobs():
            self._job(state, job.id, stored=True)
        for node in state.nodes.values():
            self._node(state, node, stored=True)

    def at(self, state: PoolState, record: Record, *, stored: bool) -> None:
        """The pool is as after this record. stored: the database has what it changed."""
        if record.seq == 0:  # the log is folded anew, from its start
            self.places.open.clear()
            self.states.open.clear()
        data = record.data
        everyone = isinstance(data, facts.NodeLost)
        jobs: Iterable[str] = list(self.places.open) if everyone else jobs_of(record)
        for job in jobs:
            self._job(state, job, stored=stored)
        if data is not None and data.NAME.startswith(("Node", "Device")):
            number = state.node_numbers.get(getattr(data, "node", None) or "")
            if number is not None:
                self._node(state, state.nodes[number], stored=stored)

    async def write(self, connection: Any, pool: int) -> None:
        """What is due; the caller's transaction makes it whole."""
        await self.places.write(connection, pool)
        await self.states.write(connection, pool)

    def _job(self, state: PoolState, name: str, *, stored: bool) -> None:
        job = state.jobs.get(name)
        self.places.now(name, allocations_of(state, job) if job is not None else {}, _moment(state), stored=stored)

    def _node(self, state: PoolState, node: Node, *, stored: bool) -> None:
        self.states.now(node.name, gpu_states_of(node), _moment(state), stored=stored)


def allocations_of(state: PoolState, job: Job) -> dict[Key, What]:
    """Where the job's tasks stand now, and what is promised to them."""
    found: dict[Key, What] = {}
    for task in job.tasks:
        if task.state != "released":
            kind = "reserved" if task.state == "reserved" else "allocated"
            found[job.id, job.seq, task.index, kind] = (job.attempt, state.nodes[task.node].name, bits(task.devices))
    for task in job.reservation:
        found[job.id, job.seq, task.index, "reserved"] = (job.attempt + 1, state.nodes[task.node].name, bits(task.devices))
    return found


def gpu_states_of(node: Node) -> dict[Key, What]:
    """How the node's GPUs are now."""
    found: dict[Key, What] = {}
    for device in node.devices:
        bad = "quarantined" if node.quarantined >> device.number & 1 else "unhealthy" if not device.healthy else ""
        fault = without_nul(device.fault) if bad else ""
        found[node.name, device.number] = (device.id, device.model, bad or "ok", fault)
    return found


def _moment(state: PoolState) -> tuple[int, Any]:
    return state.seq, EPOCH_START + state.now * MICROSECOND
