"""Events of jobs and nodes, with Kubernetes-like types: Scheduled, Preempted, Resumed.

`events_of(record, state)` returns the events of one record. The texts are those of `record_text`; the keys of an event are a
stable interface.
"""

import csv
import json
from collections.abc import Iterable, Iterator
from typing import Any, TextIO, TypedDict

from bailiff.render.plain_text import plain
from bailiff.render.record_text.event_words import WORDS
from bailiff.render.record_text.lines import event_word, lines
from bailiff.render.record_text.phrases import node_name
from bailiff.render.record_text.placement import how_it_ended
from bailiff_core.explain import condition_of
from bailiff_core.humanize import count_text
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.payload import Payload
from bailiff_core.records.wire import time_text

ACTIONS = {"preempt": "Preempted", "reclaim": "Reclaimed", "consolidate": "Moved", "allocate": "Preempted"}


class EventRow(TypedDict):
    """One event. Fields that do not apply are empty. by: the preemptor. user: who submitted the job; user_verified: whether that
    is known. actor: who requested what happened; auth: how that was verified, `none`: not. condition_*: Kubernetes condition of
    a victim.

    id: stable, the same for every reader of the log.
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
    user: str
    user_verified: bool
    actor: str
    auth: str
    condition_type: str
    condition_status: str
    condition_reason: str
    condition_message: str


COLUMNS = tuple(EventRow.__annotations__)


def events_of(record: Record, state: PoolState) -> list[EventRow]:
    """Events of a record: none for most records, one, or one per victim. state: folded up to the record."""
    data = record.data
    if isinstance(data, decisions.PreemptionDecided):
        return list(_decided(record, data, state))
    word = event_word(record, state)
    if not word:
        return []
    row = _row(record, state, word, _job_in(data), node=_node_in(data, state), tasks=_tasks_in(data))
    if isinstance(data, decisions.JobEnded):
        row["reason"] = plain(how_it_ended(data))
    elif isinstance(data, facts.TaskStarted):
        row["reason"] = f"attempt {data.attempt}"
    return [row]


def _job_in(data: Payload | None) -> str:
    """The job that the record is about; empty for one about a node or the pool."""
    if isinstance(data, facts.JobSubmitted):
        return data.demand.job
    preemptor = getattr(data, "preemptor", None)
    return str(getattr(data, "job", None) or "") if preemptor is None else str(preemptor.job)


def _node_in(data: Payload | None, state: PoolState) -> str | None:
    """Nodes named by the record; None for those of the job's tasks."""
    match data:
        case decisions.JobPlaced() | decisions.JobGrown() | decisions.MigrationDecided():
            return _nodes(state, [share.node for share in data.placement])
        case (
            facts.NodeJoined() | facts.NodeReachable() | facts.NodeUnreachable() | facts.NodeLost()
            | facts.NodeDrained() | facts.NodeUndrained()
            | facts.DeviceQuarantined() | facts.DeviceCleared() | facts.DeviceUnhealthy() | facts.DeviceHealthy()
        ):  # fmt: skip
            return data.node
        case _:
            return None


def _tasks_in(data: Payload | None) -> str:
    """Tasks named by the record, as in `4-7`; empty for all tasks."""
    match data:
        case (
            decisions.JobStarting() | decisions.EvictionDecided() | decisions.JobShrunk() | decisions.EvictionStuck()
            | decisions.EvictionCancelled()
        ):  # fmt: skip
            return data.tasks
        case _:
            return ""


def _decided(record: Record, data: decisions.PreemptionDecided, state: PoolState) -> Iterator[EventRow]:
    preemptor = _row(record, state, "Reserved", data.preemptor.job, node=_nodes(state, [share.node for share in data.placement]))
    yield {
        **preemptor,
        "reason": f"{data.action}: {count_text(len({choice.job for choice in data.victims}), 'victim')}",
    }
    for job in dict.fromkeys(choice.job for choice in data.victims):
        mine = [choice for choice in data.victims if choice.job == job]
        choice = mine[0]
        word = "Unreserved" if choice.reserved else "Moved" if choice.relocated else ACTIONS[data.action]
        tasks = ",".join(each.tasks for each in mine if each.tasks)
        row = _row(record, state, word, job, tasks=tasks, by=data.preemptor.job)
        condition = condition_of(data, choice)
        row["condition_type"], row["condition_status"] = condition.type, condition.status
        row["condition_reason"], row["condition_message"] = condition.reason, plain(condition.message)
        yield row


def _row(
    record: Record, state: PoolState, word: str, job: str = "", *, node: str | None = None, tasks: str = "", by: str = ""
) -> EventRow:
    assert word in WORDS, word
    known = state.jobs.get(job)
    if node is None:
        node = _nodes(state, [task.node for task in known.tasks]) if known is not None else ""
    return {
        "id": f"{record.pool}:{record.seq}:{word}" + (f":{job}" if job else ""),
        "type": word,
        "time": time_text(record.time),
        "pool": record.pool,
        "seq": record.seq,
        "job": job,
        "project": known.project if known is not None else "",
        "tasks": tasks,
        "node": node,
        "reason": _reason(record, state, job),
        "by": by,
        "user": known.user if known is not None else "",
        "user_verified": known is not None and known.user_verified,
        "actor": record.actor,
        "auth": record.auth,
        "condition_type": "",
        "condition_status": "",
        "condition_reason": "",
        "condition_message": "",
    }


def _reason(record: Record, state: PoolState, job: str) -> str:
    """The detail of the record's line; for a preemption, of the line about this job."""
    found = lines(record, state)
    mine = [
        line for line in found if line.statement.subject.startswith((f"{job} →", f"{job}/")) and "→" in line.statement.subject
    ]
    return plain((mine or found)[-1].statement.detail)


def _nodes(state: PoolState, numbers: Iterable[int]) -> str:
    return ",".join(node_name(state, number) for number in dict.fromkeys(numbers))


# --- files


def write_jsonl(out: TextIO, rows: Iterable[EventRow]) -> None:
    """Writes one JSON object per line."""
    out.writelines(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)


def write_csv(out: TextIO, rows: Iterable[EventRow]) -> None:
    """Writes a header and one line per event. An apostrophe quotes texts that a spreadsheet would evaluate as a formula."""
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
