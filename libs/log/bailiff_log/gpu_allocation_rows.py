"""GPU allocations and GPU states over time: derives interval rows from the folded state.

Rows are compared with the state after every record. Each begins and ends at a record's seq, so folding a record again changes
nothing. The auditor stores the rows; `verify --derived` compares them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.state import Job, Node, PoolState
from bailiff_core.records import Record, facts
from bailiff_core.records.subjects import jobs_of
from bailiff_core.records.wire import EPOCH_START, MICROSECOND

from .archive import without_nul

Key = tuple[Any, ...]
Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one table: key columns, then those whose change ends a row and begins another."""

    name: str
    key: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def insert(self) -> str:
        """The statement that inserts a row."""
        columns = ("pool", *self.key, *self.values, "from_seq", "from_at", "to_seq", "to_at")
        placeholders = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
        return f"INSERT INTO {self.name} ({', '.join(columns)}) VALUES ({placeholders}) ON CONFLICT DO NOTHING"  # noqa: S608 - our own names

    @property
    def end(self) -> str:
        """The statement that ends a stored row. Parameters: pool, key, seq and time of the end."""
        key = " AND ".join(f"{column} = ${number}" for number, column in enumerate(("pool", *self.key), 1))
        at = len(self.key) + 2
        return f"UPDATE {self.name} SET to_seq = ${at}, to_at = ${at + 1} WHERE {key} AND to_seq IS NULL"  # noqa: S608


@dataclass(slots=True)
class _Row:
    key: Key
    values: Values
    begin: tuple[int, Any]
    end: tuple[int | None, Any] = (None, None)
    stored: bool = False


@dataclass
class IntervalRows:
    """Rows of one table. open: by owner, the first part of the key, then by key. begun, ended: changes to write."""

    table: Table
    open: dict[str, dict[Key, _Row]] = field(default_factory=dict)
    begun: list[_Row] = field(default_factory=list)
    ended: list[_Row] = field(default_factory=list)

    def update(self, owner: str, found: Mapping[Key, Values], at: tuple[int, Any], *, stored: bool) -> None:
        """Replace the open rows of this owner from `at` (seq, time) on. stored: the database has the change already."""
        rows = self.open.get(owner, {})
        for key, row in list(rows.items()):
            if found.get(key) != row.values:
                del rows[key]
                row.end = at
                if row.stored and not stored:
                    self.ended.append(row)
        for key, values in found.items():
            if key not in rows:
                rows[key] = row = _Row(key, values, at, stored=stored)
                if not stored:
                    self.begun.append(row)
        if rows:
            self.open[owner] = rows
        else:
            self.open.pop(owner, None)

    def moment(self, key: Key, values: Values, at: tuple[int, Any]) -> None:
        """Add a row that begins and ends at `at`."""
        self.begun.append(_Row(key, values, at, at))

    async def write(self, connection: Any, pool: int) -> None:
        """Write the changes since the last call. Call inside a transaction."""
        ended, self.ended = self.ended, []
        begun, self.begun = self.begun, []
        if ended:
            await connection.executemany(self.table.end, [(pool, *row.key, *row.end) for row in ended])
        if begun:
            rows = [(pool, *row.key, *row.values, *row.begin, *row.end) for row in begun]
            for row in begun:
                row.stored = True
            await connection.executemany(self.table.insert, rows)


GPU_ALLOCATIONS = Table("gpu_allocations", ("job", "submitted_seq", "task", "kind"), ("attempt", "node", "gpus"))
GPU_STATES = Table("gpu_states", ("node", "gpu"), ("id", "model", "state", "fault"))


@dataclass
class GpuAllocations:
    """Both tables of one pool, as of the last state passed to `at`."""

    allocations: IntervalRows = field(default_factory=lambda: IntervalRows(GPU_ALLOCATIONS))
    states: IntervalRows = field(default_factory=lambda: IntervalRows(GPU_STATES))

    def begin(self, state: PoolState) -> None:
        """Start from the state of a snapshot, whose rows are stored."""
        for job in state.active_jobs():
            self._job(state, job.id, stored=True)
        for node in state.nodes.values():
            self._node(state, node, stored=True)

    def at(self, state: PoolState, record: Record, *, stored: bool) -> None:
        """Update the rows after this record. state: after the record. stored: the database has its changes already."""
        if record.seq == 0:  # the log is folded again from the start
            self.allocations.open.clear()
            self.states.open.clear()
        data = record.data
        all_jobs = isinstance(data, facts.NodeLost)
        jobs: Iterable[str] = list(self.allocations.open) if all_jobs else jobs_of(record)
        for job in jobs:
            self._job(state, job, stored=stored)
        if data is not None and data.NAME.startswith(("Node", "Device")):
            number = state.node_numbers.get(getattr(data, "node", None) or "")
            if number is not None:
                self._node(state, state.nodes[number], stored=stored)

    async def write(self, connection: Any, pool: int) -> None:
        """Write the changes since the last call. Call inside a transaction."""
        await self.allocations.write(connection, pool)
        await self.states.write(connection, pool)

    def _job(self, state: PoolState, name: str, *, stored: bool) -> None:
        job = state.jobs.get(name)
        self.allocations.update(name, allocations_of(state, job) if job is not None else {}, position_of(state), stored=stored)

    def _node(self, state: PoolState, node: Node, *, stored: bool) -> None:
        self.states.update(node.name, gpu_states_of(node), position_of(state), stored=stored)


def allocations_of(state: PoolState, job: Job) -> dict[Key, Values]:
    """Allocated and reserved GPUs of the job's tasks: attempt, node and device numbers by row key."""
    found: dict[Key, Values] = {}
    for task in job.tasks:
        if task.state != "released":
            kind = "reserved" if task.state == "reserved" else "allocated"
            found[job.id, job.seq, task.index, kind] = (job.attempt, state.nodes[task.node].name, bits(task.devices))
    for task in job.reservation:
        found[job.id, job.seq, task.index, "reserved"] = (job.attempt + 1, state.nodes[task.node].name, bits(task.devices))
    return found


def gpu_states_of(node: Node) -> dict[Key, Values]:
    """State of the node's GPUs: id, model, state and fault by row key."""
    found: dict[Key, Values] = {}
    for device in node.devices:
        condition = "quarantined" if node.quarantined >> device.number & 1 else "unhealthy" if not device.healthy else ""
        fault = without_nul(device.fault) if condition else ""
        found[node.name, device.number] = (device.id, device.model, condition or "ok", fault)
    return found


def position_of(state: PoolState) -> tuple[int, Any]:
    """Seq and time of the state's newest record."""
    return state.seq, EPOCH_START + state.now * MICROSECOND
