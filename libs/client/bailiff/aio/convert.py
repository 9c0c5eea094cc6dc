"""Converts the rows of the command line's JSON to the client's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from bailiff import pool_results as of_pools
from bailiff import results as of_jobs

if TYPE_CHECKING:
    from bailiff.client.job_output import Chunk
    from bailiff.client.projects import AmountsRow, ProjectRow
    from bailiff.explain.explanations import Explained
    from bailiff.render.events import EventRow
    from bailiff.render.serializers.job_details import TaskRow
    from bailiff.render.serializers.jobs import JobRow
    from bailiff.render.serializers.nodes import DeviceRow, NodeRow
    from bailiff.render.serializers.pools import PoolRow

Result = TypeVar("Result")


def time_of(text: str | None) -> datetime | None:
    """The time of an RFC 3339 text."""
    return None if text is None else datetime.fromisoformat(text)


def _same(kind: type[Result], row: Mapping[str, Any], **more: Any) -> Result:
    """A value whose other fields have the names of the row's; lists become tuples."""
    names = [field.name for field in fields(kind) if field.name not in more]  # type: ignore[arg-type]
    return kind(**{name: tuple(row[name]) if isinstance(row[name], list) else row[name] for name in names}, **more)


def job_status(row: JobRow, pool: str, gpus: float, tasks: Sequence[TaskRow]) -> of_jobs.JobStatus:
    """A job. gpus: of the gang."""
    return _same(
        of_jobs.JobStatus, row, name=row["job"], pool=pool, gpus=gpus, task_count=row["tasks"], tasks=tuple(map(_task, tasks)),
        submitted_at=time_of(row["submitted_at"]), started_at=time_of(row["started_at"]), ended_at=time_of(row["ended_at"]),
    )  # fmt: skip


def _task(row: TaskRow) -> of_jobs.Task:
    return _same(
        of_jobs.Task, row, index=row["task"], gpus=tuple(row["devices"]), started_at=time_of(row["started_at"]),
        checkpoint_at=time_of(row["checkpoint_at"]),
    )  # fmt: skip


def event(row: EventRow) -> of_jobs.Event:
    """An event."""
    return _same(of_jobs.Event, row, time=datetime.fromisoformat(row["time"]))


def log_line(line: Chunk) -> of_jobs.LogLine:
    """A line of output, without colours."""
    from bailiff.render.plain_text import harmless_output

    task, attempt = (int(text) if text.isascii() and text.isdigit() else 0 for text in (line.task, line.attempt))
    time = datetime.fromtimestamp(line.time / 1_000_000, UTC)
    return of_jobs.LogLine(harmless_output(line.text, colours=False), task, attempt, line.node, time)


def explanation(found: Explained) -> of_jobs.Explanation:
    """An explanation."""
    sections = tuple(
        of_jobs.Section(
            each.question, tuple(of_jobs.Sentence(sentence.text, tuple(sentence.seqs)) for sentence in each.sentences)
        )
        for each in found.sections
    )
    return of_jobs.Explanation(found.about, found.pool, found.head_seq, sections, found.reproduced, found.model_dump(mode="json"))


def plan(data: Mapping[str, Any], sentences: Sequence[str]) -> of_jobs.Plan:
    """A plan for one job."""
    decision = data["decision"] or {}
    victims = tuple(_same(of_jobs.Victim, victim) for victim in decision.get("victims", ()))
    return of_jobs.Plan(
        data["job"], data["pool"], data["outcome"], data["reason"], tuple(data["nodes"]), data["jobs_ahead"],
        decision.get("action", ""), victims, decision.get("proven"), data["computed_at"], tuple(sentences), data,
    )  # fmt: skip


def pool(row: PoolRow) -> of_pools.Pool:
    """A pool."""
    return _same(of_pools.Pool, row, name=row["pool"], head_time=time_of(row["head_time"]))


def node(row: NodeRow) -> of_pools.Node:
    """A node with its GPUs."""
    return _same(
        of_pools.Node, row, name=row["node"], cpus=row["cpu_milli"] / 1000, cpus_free=row["cpu_milli_free"] / 1000,
        drain_reason=row["drain"]["reason"] if row["drain"] is not None else "", gpus=tuple(map(_gpu, row["devices"])),
    )  # fmt: skip


def _gpu(row: DeviceRow) -> of_pools.Gpu:
    return _same(of_pools.Gpu, row, free=row["free_milli"] / 1000, jobs=tuple(row["shared_by"]))


def project(row: ProjectRow) -> of_pools.Project:
    """A project."""
    names = ("used", "quota", "limit", "fair_share", "borrowed")
    amounts: Mapping[str, Any] = {name: _amounts(row[name]) for name in names}  # type: ignore[literal-required]
    return _same(of_pools.Project, row, name=row["project"], **amounts)


def _amounts(row: AmountsRow) -> of_pools.Amounts:
    return of_pools.Amounts(_whole(row["gpu_milli"]), _whole(row["cpu_milli"]), row["memory_bytes"])


def _whole(milli: int | None) -> float | None:
    return None if milli is None else milli / 1000


def verification(found: Mapping[str, Any]) -> of_pools.Verification:
    """The result of a verification."""
    broken = (
        [] if found["broken"] is None else [f"the chain is broken at #{found['broken']['seq']}: {found['broken']['meaning']}"]
    )
    problems = (*broken, *filter(None, [found["seal_problem"]]), *found["witnesses"]["problems"])
    return _same(of_pools.Verification, found, problems=problems, data=found)


def what_if(pool: str, found: Mapping[str, Any]) -> of_pools.WhatIf:
    """A what-if comparison."""
    runs = {run["label"]: _run(run) for run in found["runs"]}
    changed = {key: tuple(map(_changed, found[key])) for key in ("improved", "worsened")}
    return of_pools.WhatIf(
        pool, runs["recorded"], runs["simulated"], runs["other"], changed["improved"], changed["worsened"], found["confidence"],
        tuple(found["assumptions"]), found,
    )  # fmt: skip


def _run(row: Mapping[str, Any]) -> of_pools.Run:
    waited = row["waiting"].get("all", {})
    return _same(
        of_pools.Run, row, mean_wait=waited.get("mean", 0.0), p95_wait=waited.get("p95", 0.0), lost=row["gpu_hours"]["lost"],
        work=row["gpu_hours"]["work"],
    )  # fmt: skip


def _changed(row: Mapping[str, Any]) -> of_pools.ChangedJob:
    return _same(
        of_pools.ChangedJob,
        row,
        priority_class=row["class"],
        waited=tuple(row["waited_hours"]),
        lost=tuple(row["gpu_hours_lost"]),
    )


def accounting(answer: Mapping[str, Any]) -> of_pools.Accounting:
    """GPU-hours, from the answer of the query interface."""
    rows = tuple(of_pools.GpuHours(**row | {"time": time_of(row["time"])}) for row in answer["rows"])
    by_time = {datetime.fromisoformat(each["time"]): each["gpu_hours"] for each in answer["capacity"]}
    return of_pools.Accounting(
        answer["pool"], datetime.fromisoformat(answer["from"]), datetime.fromisoformat(answer["to"]),
        time_of(answer["known_until"]), rows, of_pools.GpuHours(**answer["totals"]), answer["capacity_gpu_hours"], by_time,
    )  # fmt: skip
