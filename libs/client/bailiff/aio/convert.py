"""Converts the rows of the command line's JSON to the client's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter

from bailiff import pool_results as of_pools
from bailiff import results as of_jobs

if TYPE_CHECKING:
    from bailiff.client.job_output import Chunk
    from bailiff.explain.explanations import Explained
    from bailiff.render.events import EventRow
    from bailiff.render.serializers.job_details import TaskRow
    from bailiff.render.serializers.jobs import JobRow
    from bailiff.render.serializers.nodes import DeviceRow, NodeRow
    from bailiff.render.serializers.pools import PoolRow
    from bailiff.render.serializers.projects import ProjectRow
    from bailiff_core.views import Amounts, BudgetView

Result = TypeVar("Result")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _value(kind: type[Result], row: Mapping[str, Any], **more: Any) -> Result:
    """A value whose other fields have the names of the row's: texts become times, lists tuples, rows within it values."""
    found: Result = _adapter(kind).validate_python({**row, **more})  # type: ignore[arg-type]
    return found


def job_status(row: JobRow, pool: str, tasks: Sequence[TaskRow]) -> of_jobs.JobStatus:
    shown = [{**task, "index": task["task"]} for task in tasks]
    return _value(of_jobs.JobStatus, row, name=row["job"], pool=pool, task_count=row["tasks"], tasks=shown)


def event(row: EventRow) -> of_jobs.Event:
    return _value(of_jobs.Event, row)


def log_line(line: Chunk) -> of_jobs.LogLine:
    """A line of output, without colours."""
    from bailiff.render.plain_text import harmless_output

    task, attempt = (int(text) if text.isascii() and text.isdigit() else 0 for text in (line.task, line.attempt))
    time = datetime.fromtimestamp(line.time / 1_000_000, UTC)
    return of_jobs.LogLine(harmless_output(line.text, colours=False), task, attempt, line.node, time)


def explanation(found: Explained) -> of_jobs.Explanation:
    data = found.model_dump(mode="json")
    sections = [
        {**each, "sentences": [{**sentence, "records": sentence["seqs"]} for sentence in each["sentences"]]}
        for each in data["sections"]
    ]
    return _value(of_jobs.Explanation, data, sections=sections, data=data)


def plan(data: Mapping[str, Any], sentences: Sequence[str]) -> of_jobs.Plan:
    decision = data["decision"] or {"action": "", "victims": (), "explanation": None}
    why = decision["explanation"]
    named = {"action": decision["action"], "victims": decision["victims"], "proven": None if why is None else why["proven"]}
    return _value(of_jobs.Plan, data, **named, seq=data["computed_at"], sentences=tuple(sentences), data=data)


def pool(row: PoolRow) -> of_pools.Pool:
    return _value(of_pools.Pool, row, name=row["pool"])


def node(row: NodeRow) -> of_pools.Node:
    """A node with its GPUs."""
    return _value(
        of_pools.Node,
        row,
        name=row["node"],
        cpus=row["cpu_milli"] / 1000,
        cpus_free=row["cpu_milli_free"] / 1000,
        drain_reason=row["drain"]["reason"] if row["drain"] is not None else "",
        devices=tuple(map(_gpu, row["devices"])),
    )


def _gpu(row: DeviceRow) -> of_pools.Gpu:
    return _value(of_pools.Gpu, row, free=row["free_milli"] / 1000, jobs=row["shared_by"])


def project(row: ProjectRow) -> of_pools.Project:
    names = ("used", "quota", "quota_in_force", "limit", "fair_share", "past_use", "borrowed")
    amounts: Mapping[str, Any] = {name: _amounts(row[name]) for name in names}  # type: ignore[literal-required]
    return _value(of_pools.Project, row, name=row["project"], **amounts)


def budget(row: BudgetView) -> of_pools.Budget:
    return _value(of_pools.Budget, row, name=row["budget"])


def _amounts(row: Amounts) -> of_pools.Amounts:
    cpu_milli = row["cpu_milli"]
    return of_pools.Amounts(row["gpus"], None if cpu_milli is None else cpu_milli / 1000, row["memory_bytes"])


def verification(found: Mapping[str, Any]) -> of_pools.Verification:
    """The result of a verification."""
    broken = (
        [] if found["broken"] is None else [f"the chain is broken at #{found['broken']['seq']}: {found['broken']['meaning']}"]
    )
    problems = (*broken, *filter(None, [found["seal_problem"]]), *found["witnesses"]["problems"])
    return _value(of_pools.Verification, found, problems=problems, data=found)


def what_if(pool: str, found: Mapping[str, Any]) -> of_pools.WhatIf:
    """A what-if comparison."""
    runs = {run["label"]: _run(run) for run in found["runs"]}
    changed = {key: tuple(map(_changed, found[key])) for key in ("improved", "worsened")}
    return _value(of_pools.WhatIf, found, **runs, **changed, pool=pool, data=found)


def _run(row: Mapping[str, Any]) -> of_pools.Run:
    waited, hours = row["waiting"].get("all", {}), row["gpu_hours"]
    named = {"mean_wait": waited.get("mean", 0.0), "p95_wait": waited.get("p95", 0.0)}
    return _value(of_pools.Run, row, **named, lost=hours["lost"], work=hours["work"])


def _changed(row: Mapping[str, Any]) -> of_pools.ChangedJob:
    renamed = {"priority_class": row["class"], "waited": row["waited_hours"], "lost": row["gpu_hours_lost"]}
    return _value(of_pools.ChangedJob, row, **renamed)


def accounting(answer: Mapping[str, Any]) -> of_pools.Accounting:
    """GPU-hours, from the answer of the HTTP API."""
    by_time = {each["time"]: each["gpu_hours"] for each in answer["capacity"]}
    renamed = {"since": answer["from"], "until": answer["to"], "capacity": answer["capacity_gpu_hours"]}
    return _value(of_pools.Accounting, answer, **renamed, capacity_by_time=by_time)
