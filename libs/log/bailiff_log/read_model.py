"""The archive's read model: derives rows of jobs, attempts, evictions and nodes from records.

Changes of a batch are merged by row, so that each table is written with one statement. A column keeps either the first or the
last of several values, as declared in `TABLES`. Nothing is incremented, so noting a record again changes nothing.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from bailiff_core.canonical import canonical_json
from bailiff_core.explain import condition_of
from bailiff_core.model.mig import device_gpu_milli, mig_weights_of
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.policy import Policy
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.payload import Payload
from bailiff_core.records.wire import time_text
from bailiff_core.views import requested_gpu_milli

Row = dict[str, Any]
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of a table: the key, those that keep the last value, and those that keep the first."""

    key: tuple[str, ...]
    last: tuple[str, ...]
    first: tuple[str, ...] = ()

    def upsert(self, name: str, into: str = "") -> str:
        """A statement that upserts many rows, given as JSON. into: another table with the same columns."""
        columns = [*self.key, *self.last, *self.first]
        sets = [f"{column} = coalesce(excluded.{column}, t.{column})" for column in self.last]
        sets += [f"{column} = coalesce(t.{column}, excluded.{column})" for column in self.first]
        listed = ", ".join(columns)
        return (
            f"INSERT INTO {into or name} AS t ({listed}) SELECT {listed} FROM jsonb_populate_recordset(NULL::{name}, $1::jsonb) "  # noqa: S608 - our own names
            f"ON CONFLICT ({', '.join(self.key)}) DO UPDATE SET {', '.join(sets)}"
        )


STAGES: tuple[facts.EvictionStage, ...] = (
    "noticed",
    "acknowledged",
    "checkpoint_started",
    "checkpoint_committed",
    "yielding",
    "term_sent",
    "kill_sent",
)
TABLES = {
    "jobs": Table(
        ("pool", "job", "submitted_seq"),
        ("priority_class", "state", "attempt", "ended_seq", "ended_at", "outcome", "reason"),
        (
            "submitted_at",
            "actor",
            "user_name",
            "user_verified",
            "project",
            "tasks",
            "gpu_milli",
            "first_placed_at",
            "first_started_at",
        ),
    ),
    "attempts": Table(
        ("pool", "job", "submitted_seq", "attempt"),
        ("ended_seq", "ended_at", "outcome", "cause"),
        ("action", "placed_seq", "placed_at", "nodes", "started_at"),
    ),
    "evictions": Table(
        ("pool", "decided_seq", "job"),
        (*(f"{stage}_at" for stage in STAGES), "exited_at", "released_at", "stuck_at", "cancelled_at", "ended_at", "outcome"),
        (
            "submitted_seq",
            "attempt",
            "tasks",
            "cause",
            "action",
            "for_job",
            "for_class",
            "for_priority",
            "reason",
            "explanation",
            "cost",
            "decided_at",
            "started_at",
            "resumed_at",
        ),
    ),
    "nodes": Table(
        ("pool", "node"),
        (
            "number",
            "state",
            "since",
            "joined_at",
            "machine_id",
            "gpu_milli",
            "gpu_models",
            "cpu_milli",
            "memory_bytes",
            "drained",
        ),
    ),
}
UPSERTS = {name: table.upsert(name) for name, table in TABLES.items()}
FIRST = {name: frozenset(table.first) for name, table in TABLES.items()}


@dataclass(slots=True)
class _Live:
    """A job that has not ended: seq of its submission, attempt, seq of its latest eviction and that eviction's attempt."""

    submitted: int
    attempt: int = 0
    eviction: int | None = None
    evicted_attempt: int = 0


@dataclass
class ReadModel:
    """Unwritten rows of one pool. jobs: those that have not ended. nodes: names by number. policy: the one in force."""

    pool: int
    jobs: dict[str, _Live] = field(default_factory=dict)
    nodes: dict[int, str] = field(default_factory=dict)
    policy: Policy | None = None
    _due: dict[str, dict[tuple[Any, ...], Row]] = field(default_factory=lambda: {name: {} for name in TABLES})
    at: str = ""
    _time: int = -1

    async def load(self, connection: Any) -> None:
        """Load live jobs, nodes and policy from the archive."""
        for row in await connection.fetch(
            """SELECT j.job, j.submitted_seq, j.attempt, e.decided_seq, e.attempt AS evicted_attempt FROM jobs j
               LEFT JOIN LATERAL (SELECT decided_seq, attempt FROM evictions e WHERE e.pool = j.pool AND e.job = j.job
                   AND e.submitted_seq = j.submitted_seq ORDER BY decided_seq DESC LIMIT 1) e ON true
               WHERE j.pool = $1 AND j.ended_seq IS NULL ORDER BY j.submitted_seq""",
            self.pool,
        ):
            self.jobs[row["job"]] = _Live(
                row["submitted_seq"], row["attempt"] or 0, row["decided_seq"], row["evicted_attempt"] or 0
            )
        await self.load_from(connection, None)

    async def load_from(self, connection: Any, first_seq: int | None) -> None:
        """Load node names and policy as of before record `first_seq`, where the log was pruned; None: the current ones."""
        if first_seq == 0:
            return
        for row in await connection.fetch("SELECT number, node FROM nodes WHERE pool = $1", self.pool):
            self.nodes[row["number"]] = row["node"]
        newest = None
        if first_seq is None:
            newest = await connection.fetchval(
                "SELECT value FROM records WHERE pool = $1 AND type = 'PolicyApplied.v1' ORDER BY seq DESC LIMIT 1", self.pool
            )
        newest = newest or await connection.fetchval("SELECT first_policy FROM pools WHERE id = $1", self.pool)
        if newest is not None:
            self.policy = facts.PolicyApplied.model_validate_json(newest).policy

    def note(self, record: Record) -> None:
        """Update the rows with this record."""
        handler = HANDLERS.get(type(record.data))
        if handler is not None:
            if record.time != self._time:  # all records of a cycle have the same time
                self._time, self.at = record.time, time_text(record.time)
            handler(self, record, record.data)

    def take(self) -> dict[str, str]:
        """Returns the unwritten rows as JSON, by table, sorted by key, and clears them."""
        due, self._due = self._due, {name: {} for name in TABLES}
        return {name: _text([rows[key] for key in sorted(rows)]) for name, rows in due.items() if rows}

    def row(self, table: str, *key: Any, **values: Any) -> None:
        """Merge these values into a row."""
        self._merge(table, (self.pool, *key), values)

    def _merge(self, table: str, full: tuple[Any, ...], values: Row) -> None:
        rows = self._due[table]
        found = rows.get(full)
        if found is None:
            rows[full] = dict(zip(TABLES[table].key, full, strict=True)) | values
            return
        first = FIRST[table]
        for name, value in values.items():
            if value is not None and (name not in first or found.get(name) is None):
                found[name] = value

    def job(self, name: str, **values: Any) -> None:
        """Merge values into the row of a job that has not ended."""
        live = self.jobs.get(name)
        if live is not None:
            self._merge("jobs", (self.pool, name, live.submitted), values)

    def attempt(self, name: str, attempt: int, **values: Any) -> None:
        """Merge values into the row of one of its attempts."""
        live = self.jobs.get(name)
        if live is not None:
            self._merge("attempts", (self.pool, name, live.submitted, attempt), values)

    def eviction(self, name: str, attempt: int, **values: Any) -> None:
        """Merge values into the row of this attempt's eviction, if there is one."""
        live = self.jobs.get(name)
        if live is not None and live.eviction is not None and live.evicted_attempt == attempt:
            self._merge("evictions", (self.pool, live.eviction, name), values)

    def placed(self, name: str, attempt: int, action: str, placement: Sequence[NodeShare], seq: int, state: str) -> None:
        """A new attempt of the job was placed."""
        live = self.jobs.get(name)
        if live is None:
            return
        live.attempt = attempt
        nodes = ", ".join(self.nodes.get(share.node, f"node {share.node}") for share in placement)
        self.job(name, state=state, attempt=attempt, first_placed_at=self.at)
        self.attempt(name, attempt, action=action, placed_seq=seq, placed_at=self.at, nodes=nodes)

    def evicted(self, name: str, attempt: int, seq: int, cause: str, tasks: str, **values: Any) -> None:
        """The eviction of the job, or of these tasks, was decided."""
        live = self.jobs.get(name)
        if live is not None:
            live.eviction, live.evicted_attempt = seq, attempt
            self.row(
                "evictions",
                seq,
                name,
                submitted_seq=live.submitted,
                attempt=attempt,
                tasks=tasks,
                cause=cause,
                decided_at=self.at,
                **values,
            )
            if not tasks:
                self.job(name, state="evicting")


Handler = Callable[[ReadModel, Record, Any], None]
HANDLERS: dict[type[Payload] | type[None], Handler] = {}


def handles(*kinds: type[Payload]) -> Callable[[Handler], Handler]:
    """Registers the handler of records of these types."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(kinds, handler))
        return handler

    return register


@handles(facts.PolicyApplied)
def _policy(model: ReadModel, _: Record, data: facts.PolicyApplied) -> None:
    model.policy = data.policy


@handles(facts.JobSubmitted)
def _submitted(model: ReadModel, record: Record, data: facts.JobSubmitted) -> None:
    demand = data.demand
    entry = model.policy.find_class(demand.priority_class) if model.policy is not None else None
    model.jobs[demand.job] = _Live(record.seq)
    model.row(
        "jobs",
        demand.job,
        record.seq,
        submitted_at=model.at,
        actor=record.actor or None,
        user_name=demand.user or data.user or None,
        user_verified=data.user_verified,
        project=demand.project,
        priority_class=entry.name if entry is not None else demand.priority_class,
        tasks=sum(group.count for group in demand.tasks),
        gpu_milli=requested_gpu_milli(demand, model.policy),
        state="waiting" if demand.after or (demand.begin or 0) > record.time else "pending",
    )


@handles(facts.JobPriorityClassChanged)
def _priority_class_changed(model: ReadModel, _: Record, data: facts.JobPriorityClassChanged) -> None:
    model.job(data.job, priority_class=data.priority_class)


@handles(facts.JobPaused)
def _paused(model: ReadModel, _: Record, data: facts.JobPaused) -> None:
    model.job(data.job, state="paused")


@handles(facts.JobResumed)
def _resumed(model: ReadModel, _: Record, data: facts.JobResumed) -> None:
    model.job(data.job, state="pending")


@handles(decisions.DependenciesMet)
def _dependencies_met(model: ReadModel, _: Record, data: decisions.DependenciesMet) -> None:
    model.job(data.job, state="pending")


@handles(decisions.JobPlaced)
def _placed(model: ReadModel, record: Record, data: decisions.JobPlaced) -> None:
    state = "reserved" if data.reserved else "starting"
    model.placed(data.job, data.attempt, data.action, data.placement, record.seq, state)


@handles(decisions.JobStarting)
def _starting(model: ReadModel, _: Record, data: decisions.JobStarting) -> None:
    if not data.tasks:
        model.job(data.job, state="starting")


@handles(decisions.ReservationDropped)
def _reservation_dropped(model: ReadModel, record: Record, data: decisions.ReservationDropped) -> None:
    live = model.jobs.get(data.job)
    if live is not None and not data.tasks:
        model.job(data.job, state="pending")
        model.attempt(data.job, live.attempt, ended_seq=record.seq, ended_at=model.at, outcome="not-started", cause=data.reason)


@handles(facts.TaskStarted)
def _started(model: ReadModel, _: Record, data: facts.TaskStarted) -> None:
    model.job(data.job, state="running", first_started_at=model.at)
    model.attempt(data.job, data.attempt, started_at=model.at)
    live = model.jobs.get(data.job)
    if live is not None and live.eviction is not None and live.evicted_attempt < data.attempt:
        model.row("evictions", live.eviction, data.job, resumed_at=model.at)


@handles(decisions.PreemptionDecided)
def _preempted(model: ReadModel, record: Record, data: decisions.PreemptionDecided) -> None:
    preemptor, explanation = data.preemptor, data.explanation
    for victim in data.new_victims:
        model.evicted(
            victim.job,
            victim.attempt,
            record.seq,
            "preemption",
            victim.tasks,
            action=data.action,
            for_job=preemptor.job,
            for_class=preemptor.class_name,
            for_priority=preemptor.priority,
            reason=condition_of(data, victim).message,
            explanation=_json(explanation.to_data()),
            cost=_json(explanation.cost.to_data()) if explanation.cost is not None else None,
        )
    if not data.tasks:
        model.placed(preemptor.job, data.attempt, data.action, data.placement, record.seq, "reserved")


@handles(decisions.EvictionDecided)
def _evicted(model: ReadModel, record: Record, data: decisions.EvictionDecided) -> None:
    model.evicted(data.job, data.attempt, record.seq, data.cause, data.tasks, reason=data.reason)


@handles(decisions.MigrationDecided)
def _migrated(model: ReadModel, record: Record, data: decisions.MigrationDecided) -> None:
    model.evicted(data.job, data.attempt, record.seq, data.cause, "", reason=data.reason)


@handles(facts.EvictionStarted)
def _eviction_started(model: ReadModel, _: Record, data: facts.EvictionStarted) -> None:
    model.eviction(data.job, data.attempt, started_at=model.at)


@handles(facts.EvictionStageReached)
def _stage_reached(model: ReadModel, _: Record, data: facts.EvictionStageReached) -> None:
    if data.stage in STAGES:
        model.eviction(data.job, data.attempt, **{f"{data.stage}_at": model.at})


@handles(facts.TaskExited, facts.TaskVanished)
def _exited(model: ReadModel, _: Record, data: facts.TaskFact) -> None:
    model.eviction(data.job, data.attempt, exited_at=model.at)


@handles(facts.TaskReleased)
def _released(model: ReadModel, _: Record, data: facts.TaskReleased) -> None:
    model.eviction(data.job, data.attempt, released_at=model.at)


@handles(decisions.EvictionStuck)
def _stuck(model: ReadModel, _: Record, data: decisions.EvictionStuck) -> None:
    model.eviction(data.job, data.attempt, stuck_at=model.at)


@handles(decisions.EvictionCancelled)
def _eviction_cancelled(model: ReadModel, _: Record, data: decisions.EvictionCancelled) -> None:
    ended = {} if data.notified else {"ended_at": model.at, "outcome": "eviction-cancelled"}
    model.eviction(data.job, data.attempt, cancelled_at=model.at, **ended)
    if not data.notified and not data.tasks:
        model.job(data.job, state="running")


@handles(facts.TaskEvictionCancelled)
def _task_eviction_cancelled(model: ReadModel, _: Record, data: facts.TaskEvictionCancelled) -> None:
    model.eviction(data.job, data.attempt, ended_at=model.at, outcome="eviction-cancelled")
    model.job(data.job, state="running")


@handles(facts.TaskCancelEvictionRefused)
def _cancel_eviction_refused(model: ReadModel, _: Record, data: facts.TaskCancelEvictionRefused) -> None:
    model.job(data.job, state="evicting")


@handles(decisions.JobRequeued)
def _requeued(model: ReadModel, record: Record, data: decisions.JobRequeued) -> None:
    ending = {"ended_at": model.at, "outcome": data.outcome}
    model.job(data.job, state="paused" if data.cause == "paused" else "pending")
    model.attempt(data.job, data.attempt, ended_seq=record.seq, cause=data.cause, **ending)
    model.eviction(data.job, data.attempt, **ending)


@handles(decisions.JobShrunk)
def _shrunk(model: ReadModel, _: Record, data: decisions.JobShrunk) -> None:
    model.eviction(data.job, data.attempt, ended_at=model.at, outcome=data.outcome)


@handles(decisions.JobEnded)
def _ended(model: ReadModel, record: Record, data: decisions.JobEnded) -> None:
    ending = {"ended_at": model.at, "outcome": data.outcome}
    state = "failed" if data.outcome in ("evicted", "timed-out") else data.outcome
    model.job(data.job, state=state, ended_seq=record.seq, reason=data.reason or None, **ending)
    if data.attempt:
        model.attempt(data.job, data.attempt, ended_seq=record.seq, **ending)
    model.eviction(data.job, data.attempt, **ending)
    model.jobs.pop(data.job, None)


@handles(facts.NodeJoined)
def _joined(model: ReadModel, _: Record, data: facts.NodeJoined) -> None:
    model.nodes[data.number] = data.node
    weights = mig_weights_of(model.policy)
    model.row(
        "nodes",
        data.node,
        number=data.number,
        state="ready",
        since=model.at,
        joined_at=model.at,
        machine_id=data.machine_id,
        gpu_milli=int(sum(device_gpu_milli(device, weights) for device in data.devices)),
        gpu_models=sorted({device.model for device in data.devices}),
        cpu_milli=data.cpu_milli,
        memory_bytes=data.memory_bytes,
    )


@handles(facts.NodeUnreachable, facts.NodeReachable, facts.NodeLost)
def _node_state(model: ReadModel, _: Record, data: Any) -> None:
    state: Mapping[str, str] = {"NodeUnreachable": "unreachable", "NodeReachable": "ready", "NodeLost": "lost"}
    model.row("nodes", data.node, state=state[data.NAME], since=model.at)


@handles(facts.NodeDrained)
def _drained(model: ReadModel, _: Record, data: facts.NodeDrained) -> None:
    if data.begin is None:
        model.row("nodes", data.node, drained=data.mode)


@handles(decisions.MaintenanceBegan)
def _maintenance(model: ReadModel, _: Record, data: decisions.MaintenanceBegan) -> None:
    model.row("nodes", data.node, drained="quick")


@handles(facts.NodeUndrained)
def _undrained(model: ReadModel, _: Record, data: facts.NodeUndrained) -> None:
    model.row("nodes", data.node, drained="")


@handles(decisions.MaintenanceEnded)
def _maintenance_over(model: ReadModel, _: Record, data: decisions.MaintenanceEnded) -> None:
    model.row("nodes", data.node, drained=data.drained)


def _text(rows: list[Row]) -> str:
    """The rows as JSON; NUL is replaced as by `without_nul`."""
    text = orjson.dumps(rows).decode()
    return _NUL.sub(r"\1\\ufffd", text) if "\\u0000" in text else text


def _json(value: object) -> Any:
    return json.loads(canonical_json(value))
