"""Events of jobs and nodes, with Kubernetes-like types: Scheduled, Preempted, Resumed.

`events_of(record, state)` returns the events of one record. The texts are those of `record_text`; the keys of an event are a
stable interface.
"""

import csv
import json
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from typing_extensions import TypedDict

from bailiff.render.plain_text import plain
from bailiff.render.record_text.event_words import WORDS
from bailiff.render.record_text.lines import event_word, lines_about
from bailiff.render.record_text.phrases import joined, node_name
from bailiff.render.record_text.placement import how_it_ended, with_fewer
from bailiff_core.explain import condition_of
from bailiff_core.humanize import count_text
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.state import Job, PoolState
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.payload import Payload
from bailiff_core.records.subjects import jobs_of
from bailiff_core.records.wire import time_text

ACTIONS = {"preempt": "Preempted", "reclaim": "Reclaimed", "consolidate": "Moved", "allocate": "Preempted"}


class EventRow(TypedDict):
    """One event. Fields that do not apply are empty; `condition_*` is the Kubernetes condition of a victim.

    Attributes:
        id: Stable; the same for every reader of the log.
        by: The preemptor.
        user: Who submitted the job.
        user_verified: Whether the user's name was verified.
        actor: Who requested what happened.
        auth: How the actor was verified; `none` if it was not.
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
    """The events of a record: none for most records, one, or one per victim.

    Args:
        state: The state folded up to the record.
    """
    data = record.data
    if isinstance(data, decisions.PreemptionDecided):
        return list(_decided(record, data, state))
    word = event_word(record, state)
    if not word:
        return []
    row = _row(record, state, word, next(iter(jobs_of(record)), ""), node=_node_in(data, state), tasks=_tasks_in(data))
    if isinstance(data, decisions.JobEnded):
        row["reason"] = plain(how_it_ended(data))
    elif isinstance(data, facts.TaskStarted):
        of_tasks = _of_its_tasks(state.jobs[data.job])
        row["reason"] = (of_tasks or "all its tasks") if word == "Grown" else joined(f"attempt {data.attempt}", of_tasks)
    elif isinstance(data, decisions.JobGrown):
        row["reason"] = "more of its tasks: resources are being released"
    elif isinstance(data, decisions.JobShrunk) and state.seq == record.seq:  # a later state does not have the tasks of then
        job = state.jobs[data.job]
        row["tasks"] = ranges(sorted(dict.fromkeys(range(job.size)).keys() - {task.index for task in job.tasks}))
        row["reason"] = f"{with_fewer(job)} with {_of_its_tasks(job)}: {data.cause}"
    elif isinstance(data, decisions.JobRequeued) and data.without:
        row["tasks"], shrunk = data.without, state.jobs.get(data.job)
        kept = len(shrunk.reservation) if shrunk is not None else 0
        row["reason"] = (
            f"restarts with {kept} of {count_text(shrunk.size, 'task')}: {data.cause}" if shrunk is not None and kept else ""
        )
    return [row]


def _of_its_tasks(job: Job) -> str:
    """`5 of 8 tasks`; empty for a job that has all of its tasks."""
    return "" if len(job.tasks) == job.size else f"{len(job.tasks)} of {count_text(job.size, 'task')}"


def _node_in(data: Payload | None, state: PoolState) -> str | None:
    """Nodes named by the record; None for those of the job's tasks."""
    if placement := getattr(data, "placement", ()):
        return _nodes(state, [share.node for share in placement])
    return None if isinstance(data, facts.TaskFact) else getattr(data, "node", None)


def _tasks_in(data: Payload | None) -> str:
    """Tasks named by the record, as in `4-7`; empty for all tasks."""
    tasks = getattr(data, "tasks", "")
    return tasks if isinstance(tasks, str) else ""


def _decided(record: Record, data: decisions.PreemptionDecided, state: PoolState) -> Iterator[EventRow]:
    preemptor = _row(record, state, "Reserved", data.preemptor.job, node=_nodes(state, [share.node for share in data.placement]))
    yield {**preemptor, "reason": f"{data.action}: {count_text(len({choice.job for choice in data.victims}), 'victim')}"}
    for job in dict.fromkeys(choice.job for choice in data.new_victims):
        mine = [choice for choice in data.new_victims if choice.job == job]
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
    return plain(lines_about(record, job, state)[-1].statement.detail)


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
