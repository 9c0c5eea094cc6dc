"""What happened to jobs and machines in words that people know from other systems: Scheduled, Preempted, Resumed.

`events_of(record, pool)` gives the events of one record, none for most. The pool is folded to just after the record. Each
word and what it means stands in `WORDS`; the keys of an event are the contract with programs.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO, TypedDict

from bailiff_core.explain import condition_of
from bailiff_core.model.pool import Job, Pool
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.wire import time_text
from bailiff_core.words import count_text

from .eventline.line import plain
from .eventline.lines import lines
from .eventline.of_placing import how_it_ended
from .eventline.words import node_name

WORDS: Mapping[str, str] = {
    "Submitted": "the job was accepted and waits",
    "Rejected": "a request about the job was refused",
    "Pending": "it does not fit now; the reason says why",
    "Scheduled": "it has its place and starts there",
    "Reserved": "room is promised to it and comes free soon",
    "Unreserved": "the promise is off; it waits again",
    "Started": "all of its tasks run, for the first time",
    "Resumed": "all of its tasks run again after it had to leave",
    "Restarted": "all of its tasks run again after a failure or a loss",
    "Preempted": "it was told to leave for a job of higher priority",
    "Reclaimed": "it was told to leave for a project that is due the room",
    "Moved": "it was told to leave for a new place that is kept for it",
    "Resized": "it was told to leave and start again at its place, with another number of tasks",
    "Stopping": "it was told to leave for another reason: cancelled, a broken gang, scaled, the policy, by hand, a drain",
    "Spared": "it was told to leave, and may stay after all",
    "Stuck": "its room did not come free in time",
    "NoPreemption": "nobody could be made to leave for it; the reason says why",
    "Requeued": "it is back in the queue",
    "Grown": "it runs with more of its tasks",
    "Shrunk": "it goes on with fewer of its tasks",
    "Scaled": "its owner asked for another number of tasks",
    "Reclassified": "it waits with another priority class",
    "Aged": "it counts with another priority than its class's",
    "ScheduleTimedOut": "it waits longer than the policy means it to",
    "EvictionAsked": "somebody wants it off its place",
    "Paused": "somebody set it aside: no place until it goes on",
    "Unpaused": "it may go on, and goes back through the queue",
    "MigrationAsked": "somebody wants it on another node",
    "Idle": "its GPUs have done nothing for longer than the policy means them to",
    "Held": "a decision about it failed; it is left alone until it is cancelled",
    "Succeeded": "it ended well",
    "Failed": "it failed, or could not be started again",
    "TimedOut": "it ran for as long as it may, and was stopped",
    "Cancelled": "it was ended by somebody",
    "Evicted": "it had to leave and does not come back, as its owner said",
    "NodeReady": "a machine joined, or speaks again",
    "NodeNotReady": "a machine does not speak; nothing new is placed there",
    "NodeLost": "a machine is gone, and what ran on it has ended",
    "NodeDrained": "a machine is being emptied; nothing new is placed there",
    "NodeUndrained": "it takes work again",
    "DeviceQuarantined": "a GPU was not seen free, and nobody gets it",
    "DeviceCleared": "a quarantined GPU is given out again",
    "DeviceUnhealthy": "a GPU broke, and nobody gets it",
    "DeviceHealthy": "a GPU that was broken is given out again",
    "ShareExceeded": "it uses more of a shared GPU than its share",
    "PolicyApplied": "another policy is in force",
}
VERBS = {"preempt": "Preempted", "reclaim": "Reclaimed", "consolidate": "Moved", "allocate": "Preempted"}


class EventRow(TypedDict):
    """One event. Empty texts where a field does not apply; condition_*: on victims, as Kubernetes has it.

    id: the same whenever and by whomever the log is read.
    """

    id: str
    type: str
    time: str
    pool: str
    seq: int
    job: str
    project: str
    tasks: str
    node: str
    reason: str
    by: str
    condition_type: str
    condition_status: str
    condition_reason: str
    condition_message: str


COLUMNS = tuple(EventRow.__annotations__)


def events_of(record: Record, pool: Pool) -> list[EventRow]:
    """The record's events: one, or one per victim."""
    return [row for row in _events(record, pool) if row["type"]]


def _events(record: Record, pool: Pool) -> Iterator[EventRow]:
    data = record.data
    match data:
        case decisions.PreemptionDecided():
            yield from _decided(record, data, pool)
        case decisions.JobPlaced() | decisions.JobGrown() if data.reserved:
            yield _row(record, pool, "Reserved", data.job, node=_nodes(pool, [share.node for share in data.placement]))
        case decisions.JobPlaced():
            yield _row(record, pool, "Scheduled", data.job, node=_nodes(pool, [share.node for share in data.placement]))
        case decisions.JobGrown():
            yield _row(record, pool, "Grown", data.job, node=_nodes(pool, [share.node for share in data.placement]))
        case decisions.JobStartOrdered():
            yield _row(record, pool, "Grown" if data.tasks else "Scheduled", data.job, tasks=data.tasks)
        case facts.TaskStarted():
            job = pool.jobs.get(data.job)
            if job is not None and job.phase == "running" and job.last_start == record.time and _was_last(job, data.task, record):
                yield {**_row(record, pool, _start_word(job), job.id), "reason": f"attempt {job.attempt}"}
        case decisions.JobEnded():
            word = data.outcome.title().replace("-", "")
            yield {**_row(record, pool, word, data.job), "reason": plain(how_it_ended(data))}
        case decisions.EvictionDecided() | decisions.JobShrunk() | decisions.EvictionStuck() | decisions.EvictionWithdrawn():
            yield _row(record, pool, SIMPLE[type(data)], data.job, tasks=data.tasks)
        case (
            facts.NodeJoined() | facts.NodeReachable() | facts.NodeUnreachable() | facts.NodeLost()
            | facts.NodeDrained() | facts.NodeUndrained()
        ):  # fmt: skip
            yield _row(record, pool, SIMPLE[type(data)], node=data.node)
        case facts.DeviceQuarantined() | facts.DeviceCleared() | facts.DeviceUnhealthy() | facts.DeviceHealthy():
            yield _row(record, pool, SIMPLE[type(data)], str(getattr(data, "job", None) or ""), node=data.node)
        case facts.InputRejected() if data.job is not None:
            yield _row(record, pool, "Rejected", data.job)
        case facts.JobSubmitted():
            yield _row(record, pool, "Submitted", data.demand.job)
        case decisions.MigrationDecided():
            word = "Moved" if data.cause == "migration" else "Resized"
            yield _row(record, pool, word, data.job, node=_nodes(pool, [share.node for share in data.placement]))
        case decisions.PreemptionRefused() if data.reason in ("impossible", "gave-up"):
            yield _row(record, pool, "NoPreemption", data.asker.job)
        case facts.PolicyApplied():
            yield _row(record, pool, "PolicyApplied")
        case _ if type(data) in SIMPLE:
            yield _row(record, pool, SIMPLE[type(data)], str(getattr(data, "job", "")))


SIMPLE: dict[Any, str] = {
    decisions.JobWaits: "Pending",
    decisions.ReservationDropped: "Unreserved",
    decisions.EvictionDecided: "Stopping",
    decisions.EvictionWithdrawn: "Spared",
    decisions.EvictionStuck: "Stuck",
    decisions.JobRequeued: "Requeued",
    decisions.JobShrunk: "Shrunk",
    decisions.JobAged: "Aged",
    decisions.ScheduleTimedOut: "ScheduleTimedOut",
    facts.JobScaled: "Scaled",
    facts.JobReclassified: "Reclassified",
    facts.DecisionFailed: "Held",
    facts.NodeJoined: "NodeReady",
    facts.NodeReachable: "NodeReady",
    facts.NodeUnreachable: "NodeNotReady",
    facts.NodeLost: "NodeLost",
    facts.NodeDrained: "NodeDrained",
    facts.NodeUndrained: "NodeUndrained",
    facts.JobEvictionAsked: "EvictionAsked",
    facts.JobPaused: "Paused",
    decisions.JobIdle: "Idle",
    facts.JobUnpaused: "Unpaused",
    facts.JobMigrationAsked: "MigrationAsked",
    facts.DeviceQuarantined: "DeviceQuarantined",
    facts.DeviceCleared: "DeviceCleared",
    facts.DeviceUnhealthy: "DeviceUnhealthy",
    facts.DeviceHealthy: "DeviceHealthy",
    facts.ShareExceeded: "ShareExceeded",
}


def _decided(record: Record, data: decisions.PreemptionDecided, pool: Pool) -> Iterator[EventRow]:
    asker = _row(record, pool, "Reserved", data.asker.job, node=_nodes(pool, [share.node for share in data.placement]))
    yield {
        **asker,
        "reason": f"{data.verb}: {count_text(len({choice.job for choice in data.victims}), 'job')} leaves room for it",
    }
    for job in dict.fromkeys(choice.job for choice in data.victims):
        mine = [choice for choice in data.victims if choice.job == job]
        choice = mine[0]
        word = "Unreserved" if choice.reserved else "Moved" if choice.goes_on else VERBS[data.verb]
        tasks = ",".join(each.tasks for each in mine if each.tasks)
        row = _row(record, pool, word, job, tasks=tasks, by=data.asker.job)
        condition = condition_of(data, choice)
        row["condition_type"], row["condition_status"] = condition.type, condition.status
        row["condition_reason"], row["condition_message"] = condition.reason, plain(condition.message)
        yield row


def _row(
    record: Record, pool: Pool, word: str, job: str = "", *, node: str | None = None, tasks: str = "", by: str = ""
) -> EventRow:
    assert word in WORDS, word
    known = pool.jobs.get(job)
    if node is None:
        node = _nodes(pool, [task.node for task in known.tasks]) if known is not None else ""
    return {
        "id": f"{record.domain}:{record.seq}:{word}" + (f":{job}" if job else ""),
        "type": word,
        "time": time_text(record.time),
        "pool": record.domain,
        "seq": record.seq,
        "job": job,
        "project": known.project if known is not None else "",
        "tasks": tasks,
        "node": node,
        "reason": _reason(record, pool, job),
        "by": by,
        "condition_type": "",
        "condition_status": "",
        "condition_reason": "",
        "condition_message": "",
    }


def _reason(record: Record, pool: Pool, job: str) -> str:
    """What the record's line says beside whom it is about."""
    told = lines(record, pool)
    mine = [line for line in told if line.said.who.startswith((f"{job} →", f"{job}/")) and "→" in line.said.who]
    return plain((mine or told)[-1].said.more)


def _nodes(pool: Pool, numbers: Iterable[int]) -> str:
    return ",".join(node_name(pool, number) for number in dict.fromkeys(numbers))


def _start_word(job: Job) -> str:
    if job.attempt <= 1:
        return "Started"
    had_to_leave = job.last_eviction is not None and job.last_eviction >= job.waiting_since
    return "Resumed" if had_to_leave else "Restarted"


def _was_last(job: Job, task: int, record: Record) -> bool:
    """Whether it was this task's start that made the whole job run: others of it may have started before."""
    started = job.task(task)
    return started is not None and started.started_at == record.time


# --- files


def write_jsonl(out: TextIO, rows: Iterable[EventRow]) -> None:
    """One JSON object per line."""
    out.writelines(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)


def write_csv(out: TextIO, rows: Iterable[EventRow]) -> None:
    """A heading, and one line per event. Texts that a spreadsheet would take for a formula are quoted by an apostrophe."""
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        cells: dict[str, Any] = dict(row)
        writer.writerow(
            {
                name: f"'{value}" if isinstance(value, str) and value[:1] in "=+-@" and value else value
                for name, value in cells.items()
            }
        )
