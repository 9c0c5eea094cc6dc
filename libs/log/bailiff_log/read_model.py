"""What records say, as rows for people: jobs, attempts, evictions, nodes.

Changes of a batch are merged by row first, so that the database is asked once per table. A column keeps the first or the
last of several values; which one is said here once. Nothing is counted up, so that noting a record again changes nothing.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from bailiff_core.canonical import canonical_json
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.policy import Policy
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.payload import Payload
from bailiff_core.records.wire import time_text

Row = dict[str, Any]
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


@dataclass(frozen=True, slots=True)
class Table:
    """Key, and columns of which the last value counts, and the first."""

    key: tuple[str, ...]
    last: tuple[str, ...]
    first: tuple[str, ...] = ()

    def upsert(self, name: str, into: str = "") -> str:
        """One statement for many rows, given as JSON. into: another table of the same columns."""
        columns = [*self.key, *self.last, *self.first]
        sets = [f"{column} = coalesce(excluded.{column}, t.{column})" for column in self.last]
        sets += [f"{column} = coalesce(t.{column}, excluded.{column})" for column in self.first]
        listed = ", ".join(columns)
        return (
            f"INSERT INTO {into or name} AS t ({listed}) SELECT {listed} FROM jsonb_populate_recordset(NULL::{name}, $1::jsonb) "  # noqa: S608 - our own names
            f"ON CONFLICT ({', '.join(self.key)}) DO UPDATE SET {', '.join(sets)}"
        )


STAGES: tuple[facts.EvictionStage, ...] = (
    "noticed", "acknowledged", "checkpoint_started", "checkpoint_committed", "yielding", "term_sent", "kill_sent",
)  # fmt: skip
TABLES = {
    "jobs": Table(
        ("pool", "job", "submitted_seq"),
        ("priority_class", "state", "attempt", "ended_seq", "ended_at", "outcome", "reason"),
        ("submitted_at", "actor", "user_name", "project", "tasks", "gpu_milli", "first_placed_at", "first_started_at"),
    ),
    "attempts": Table(
        ("pool", "job", "submitted_seq", "attempt"),
        ("ended_seq", "ended_at", "outcome", "cause", "lost_gpu_ms"),
        ("action", "placed_seq", "placed_at", "nodes", "started_at"),
    ),
    "evictions": Table(
        ("pool", "decided_seq", "job"),
        (
            *(f"{stage}_at" for stage in STAGES), "exited_at", "released_at", "stuck_at", "cancelled_at", "ended_at",
            "outcome", "lost_gpu_ms",
        ),
        (
            "submitted_seq", "attempt", "tasks", "cause", "action", "for_job", "for_class", "for_priority", "reason",
            "explanation", "gpus", "cost", "decided_at", "started_at", "resumed_at",
        ),
    ),
    "nodes": Table(
        ("pool", "node"),
        ("number", "state", "since", "joined_at", "machine_id", "gpus", "gpu_model", "cpu_milli", "memory_bytes", "drained"),
    ),
}  # fmt: skip
UPSERTS = {name: table.upsert(name) for name, table in TABLES.items()}
FIRST = {name: frozenset(table.first) for name, table in TABLES.items()}


@dataclass(slots=True)
class _Live:
    """A job that has not ended: where it was submitted, its attempt, and its latest eviction with the attempt of that."""

    submitted: int
    attempt: int = 0
    eviction: int | None = None
    evicted_attempt: int = 0


@dataclass
class People:
    """Rows of one pool that are due. jobs: those that have not ended; nodes: names by number; policy: in force."""

    pool: int
    jobs: dict[str, _Live] = field(default_factory=dict)
    nodes: dict[int, str] = field(default_factory=dict)
    policy: Policy | None = None
    _due: dict[str, dict[tuple[Any, ...], Row]] = field(default_factory=lambda: {name: {} for name in TABLES})
    at: str = ""
    _time: int = -1

    async def load(self, connection: Any) -> None:
        """What of it is known in the database."""
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
        """What the archive knows that is kept elsewhere, before this record; None: all that is known."""
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
        """What this record changes."""
        teller = TELLERS.get(type(record.data))
        if teller is not None:
            if record.time != self._time:  # the records of a turn have one time
                self._time, self.at = record.time, time_text(record.time)
            teller(self, record, record.data)

    def take(self) -> dict[str, str]:
        """The rows that are due as JSON, by table, in the order of their keys; none are due any more."""
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
        """Values of a job that has not ended."""
        live = self.jobs.get(name)
        if live is not None:
            self._merge("jobs", (self.pool, name, live.submitted), values)

    def attempt(self, name: str, attempt: int, **values: Any) -> None:
        """Values of one of its attempts."""
        live = self.jobs.get(name)
        if live is not None:
            self._merge("attempts", (self.pool, name, live.submitted, attempt), values)

    def leaving(self, name: str, attempt: int, **values: Any) -> None:
        """Values of the eviction of this attempt, if there is one."""
        live = self.jobs.get(name)
        if live is not None and live.eviction is not None and live.evicted_attempt == attempt:
            self._merge("evictions", (self.pool, live.eviction, name), values)

    def placed(self, name: str, attempt: int, action: str, placement: Sequence[NodeShare], seq: int, state: str) -> None:
        """The job has a place for a new attempt."""
        live = self.jobs.get(name)
        if live is None:
            return
        live.attempt = attempt
        nodes = ", ".join(self.nodes.get(share.node, f"node {share.node}") for share in placement)
        self.job(name, state=state, attempt=attempt, first_placed_at=self.at)
        self.attempt(name, attempt, action=action, placed_seq=seq, placed_at=self.at, nodes=nodes)

    def evicted(self, name: str, attempt: int, seq: int, cause: str, tasks: str, **values: Any) -> None:
        """It was decided that the job, or these tasks of it, leave."""
        live = self.jobs.get(name)
        if live is not None:
            live.eviction, live.evicted_attempt = seq, attempt
            self.row(
                "evictions", seq, name, submitted_seq=live.submitted, attempt=attempt, tasks=tasks, cause=cause,
                decided_at=self.at, **values,
            )  # fmt: skip
            if not tasks:
                self.job(name, state="evicting")


Teller = Callable[[People, Record, Any], None]
TELLERS: dict[type[Payload] | type[None], Teller] = {}


def tells(*kinds: type[Payload]) -> Callable[[Teller], Teller]:
    """Marks what notes records of these types."""

    def register(teller: Teller) -> Teller:
        TELLERS.update(dict.fromkeys(kinds, teller))
        return teller

    return register


@tells(facts.PolicyApplied)
def _policy(people: People, _: Record, data: facts.PolicyApplied) -> None:
    people.policy = data.policy


@tells(facts.JobSubmitted)
def _submitted(people: People, record: Record, data: facts.JobSubmitted) -> None:
    demand = data.demand
    entry = people.policy.find_class(demand.priority_class) if people.policy is not None else None
    people.jobs[demand.job] = _Live(record.seq)
    people.row(
        "jobs", demand.job, record.seq, submitted_at=people.at, actor=record.actor or None,
        user_name=demand.user or data.user or None, project=demand.project,
        priority_class=entry.name if entry is not None else demand.priority_class,
        tasks=sum(group.count for group in demand.tasks),
        gpu_milli=sum(
            group.count * (group.gpu_milli or (group.gpu_share_milli or 0) * (group.gpu_devices or 1)) for group in demand.tasks
        ),
        state="pending",
    )  # fmt: skip


@tells(facts.JobPriorityClassChanged)
def _reclassified(people: People, _: Record, data: facts.JobPriorityClassChanged) -> None:
    people.job(data.job, priority_class=data.priority_class)


@tells(facts.JobPaused)
def _paused(people: People, _: Record, data: facts.JobPaused) -> None:
    people.job(data.job, state="paused")


@tells(facts.JobResumed)
def _unpaused(people: People, _: Record, data: facts.JobResumed) -> None:
    people.job(data.job, state="pending")


@tells(decisions.JobPlaced)
def _placed(people: People, record: Record, data: decisions.JobPlaced) -> None:
    state = "reserved" if data.reserved else "starting"
    people.placed(data.job, data.attempt, data.action, data.placement, record.seq, state)


@tells(decisions.JobStarting)
def _start_ordered(people: People, _: Record, data: decisions.JobStarting) -> None:
    if not data.tasks:
        people.job(data.job, state="starting")


@tells(decisions.ReservationDropped)
def _dropped(people: People, record: Record, data: decisions.ReservationDropped) -> None:
    live = people.jobs.get(data.job)
    if live is not None and not data.tasks:
        people.job(data.job, state="pending")
        people.attempt(data.job, live.attempt, ended_seq=record.seq, ended_at=people.at, outcome="not-started", cause=data.reason)


@tells(facts.TaskStarted)
def _started(people: People, _: Record, data: facts.TaskStarted) -> None:
    people.job(data.job, state="running", first_started_at=people.at)
    people.attempt(data.job, data.attempt, started_at=people.at)
    live = people.jobs.get(data.job)
    if live is not None and live.eviction is not None and live.evicted_attempt < data.attempt:
        people.row("evictions", live.eviction, data.job, resumed_at=people.at)


@tells(decisions.PreemptionDecided)
def _preemption(people: People, record: Record, data: decisions.PreemptionDecided) -> None:
    preemptor, explanation = data.preemptor, data.explanation
    why = f"{preemptor.job} ({preemptor.class_name} {preemptor.priority}) needs the room"
    if explanation.proven:
        why += "; nobody cheaper would do"
    for victim in data.victims:
        people.evicted(
            victim.job, victim.attempt, record.seq, "preemption", victim.tasks, action=data.action, for_job=preemptor.job,
            for_class=preemptor.class_name, for_priority=preemptor.priority, reason=why, gpus=victim.gpus,
            lost_gpu_ms=victim.lost_gpu_ms, explanation=_json(explanation.to_data()),
            cost=_json(explanation.cost.to_data()) if explanation.cost is not None else None,
        )  # fmt: skip
    if not data.tasks:
        people.placed(preemptor.job, data.attempt, data.action, data.placement, record.seq, "reserved")


@tells(decisions.EvictionDecided)
def _eviction(people: People, record: Record, data: decisions.EvictionDecided) -> None:
    people.evicted(data.job, data.attempt, record.seq, data.cause, data.tasks, reason=data.reason)


@tells(decisions.MigrationDecided)
def _migration(people: People, record: Record, data: decisions.MigrationDecided) -> None:
    people.evicted(data.job, data.attempt, record.seq, data.cause, "", reason=data.reason)


@tells(facts.EvictionStarted)
def _begun(people: People, _: Record, data: facts.EvictionStarted) -> None:
    people.leaving(data.job, data.attempt, started_at=people.at)


@tells(facts.EvictionStageReached)
def _staged(people: People, _: Record, data: facts.EvictionStageReached) -> None:
    if data.stage in STAGES:
        people.leaving(data.job, data.attempt, **{f"{data.stage}_at": people.at})


@tells(facts.TaskExited, facts.TaskVanished)
def _exited(people: People, _: Record, data: facts.TaskFact) -> None:
    people.leaving(data.job, data.attempt, exited_at=people.at)


@tells(facts.TaskReleased)
def _released(people: People, _: Record, data: facts.TaskReleased) -> None:
    people.leaving(data.job, data.attempt, released_at=people.at)


@tells(decisions.EvictionStuck)
def _stuck(people: People, _: Record, data: decisions.EvictionStuck) -> None:
    people.leaving(data.job, data.attempt, stuck_at=people.at)


@tells(decisions.EvictionCancelled)
def _withdrawn(people: People, _: Record, data: decisions.EvictionCancelled) -> None:
    ended = {} if data.notified else {"ended_at": people.at, "outcome": "eviction-cancelled"}
    people.leaving(data.job, data.attempt, cancelled_at=people.at, **ended)
    if not data.notified and not data.tasks:
        people.job(data.job, state="running")


@tells(facts.TaskEvictionCancelled)
def _eviction_cancelled(people: People, _: Record, data: facts.TaskEvictionCancelled) -> None:
    people.leaving(data.job, data.attempt, ended_at=people.at, outcome="eviction-cancelled")
    people.job(data.job, state="running")


@tells(facts.TaskCancelEvictionRefused)
def _cancel_eviction_refused(people: People, _: Record, data: facts.TaskCancelEvictionRefused) -> None:
    people.job(data.job, state="evicting")


@tells(decisions.JobRequeued)
def _requeued(people: People, record: Record, data: decisions.JobRequeued) -> None:
    ending = {"ended_at": people.at, "outcome": data.outcome, "lost_gpu_ms": data.lost_gpu_ms}
    people.job(data.job, state="paused" if data.cause == "paused" else "pending")
    people.attempt(data.job, data.attempt, ended_seq=record.seq, cause=data.cause, **ending)
    people.leaving(data.job, data.attempt, **ending)


@tells(decisions.JobShrunk)
def _shrunk(people: People, _: Record, data: decisions.JobShrunk) -> None:
    people.leaving(data.job, data.attempt, ended_at=people.at, outcome=data.outcome, lost_gpu_ms=data.lost_gpu_ms)


@tells(decisions.JobEnded)
def _ended(people: People, record: Record, data: decisions.JobEnded) -> None:
    ending = {"ended_at": people.at, "outcome": data.outcome}
    people.job(data.job, state=data.outcome, ended_seq=record.seq, reason=data.reason or None, **ending)
    if data.attempt:
        people.attempt(data.job, data.attempt, ended_seq=record.seq, **ending)
    people.leaving(data.job, data.attempt, **ending)
    people.jobs.pop(data.job, None)


@tells(facts.NodeJoined)
def _joined(people: People, _: Record, data: facts.NodeJoined) -> None:
    people.nodes[data.number] = data.node
    people.row(
        "nodes", data.node, number=data.number, state="ready", since=people.at, joined_at=people.at,
        machine_id=data.machine_id, gpus=len(data.devices), gpu_model=data.devices[0].model if data.devices else None,
        cpu_milli=data.cpu_milli, memory_bytes=data.memory_bytes,
    )  # fmt: skip


@tells(facts.NodeUnreachable, facts.NodeReachable, facts.NodeLost)
def _node_state(people: People, _: Record, data: Any) -> None:
    state: Mapping[str, str] = {"NodeUnreachable": "unreachable", "NodeReachable": "ready", "NodeLost": "lost"}
    people.row("nodes", data.node, state=state[data.NAME], since=people.at)


@tells(facts.NodeDrained)
def _drained(people: People, _: Record, data: facts.NodeDrained) -> None:
    people.row("nodes", data.node, drained=data.mode)


@tells(facts.NodeUndrained)
def _undrained(people: People, _: Record, data: facts.NodeUndrained) -> None:
    people.row("nodes", data.node, drained="")


def _text(rows: list[Row]) -> str:
    """As JSON, with what `without_nul` puts in the place of each NUL."""
    text = orjson.dumps(rows).decode()
    return _NUL.sub(r"\1\\ufffd", text) if "\\u0000" in text else text  # to look for it costs nothing beside this


def _json(value: object) -> Any:
    return json.loads(canonical_json(value))
