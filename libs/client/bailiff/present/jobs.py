"""Jobs and their tasks."""

from collections.abc import Iterable
from typing import Any, TypedDict

from bailiff.eventline.lines import lines
from bailiff.eventline.words import demand_text, node_name
from bailiff.projects import below
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.places import bits
from bailiff_core.model.pool import ENDED, Job, Pool, Task
from bailiff_core.queue.order import queue_key
from bailiff_core.records import Record
from bailiff_core.words import memory_text, thousandths_text

from .moves import MoveRow, moves_of
from .times import moment


class JobRow(TypedDict):
    """One job in `bailiff list`. ahead: jobs before it in the queue, null unless it waits. state: the phase,

    or `held` (a decision about it failed), `cancelling` or `pausing`. waiting_s counts since it was submitted or last evicted,
    running_s since all its tasks run. priority: as it counts now, base_priority: its class's. gpus: whole ones of the
    gang; gpus_text also says parts, and placed_gpus_text those of placed_tasks, which hold room. reserved_nodes is where
    the job is promised some.
    """

    job: str
    project: str
    priority_class: str
    priority: int
    base_priority: int
    preemptible: bool
    state: str
    ahead: int | None
    gpus: int
    gpus_text: str
    placed_gpus_text: str
    tasks: int
    min_tasks: int
    placed_tasks: int
    nodes: list[str]
    reserved_nodes: list[str]
    attempt: int
    evictions: int
    failures: int
    submitted_at: str | None
    started_at: str | None
    ended_at: str | None
    waiting_s: int | None
    running_s: int | None
    note: str


class TaskRow(TypedDict):
    """One task of a job's present attempt. stage: how far its eviction has come; step, checkpoint: what it last said of both."""

    task: int
    node: str
    devices: list[int]
    state: str
    exit_code: int | None
    started_at: str | None
    stage: str
    step: int | None
    checkpoint_step: int | None
    checkpoint_at: str | None


class JobDetails(TypedDict):
    """`bailiff describe`. events: lines for people; why: the newest reason on record why it waits."""

    summary: JobRow
    demand: str
    request: dict[str, Any]
    labels: dict[str, str]
    spec_digest: str
    submitted_seq: int
    eviction: dict[str, Any] | None
    reserved_until: str | None
    preempts: list[str]
    task_list: list[TaskRow]
    why: str
    moves: list["MoveRow"]
    events: list[str]


def job_rows(pool: Pool, now: int, *, ended: bool = False, project: str | None = None) -> list[JobRow]:
    """Jobs with room by queue order, the queue in its order, those that are paused, (with `ended`) ended ones, newest first.

    project: only jobs of it and of those below it.
    """
    mine = None if project is None else dict.fromkeys(below(pool.rules, project))
    active = sorted(pool.active_jobs(), key=queue_key)
    waits = [name for name in pool.queue if name not in pool.active]  # who runs with fewer tasks than it wants waits, too
    waiting = [pool.jobs[name] for name in waits]
    paused = sorted((job for job in pool.jobs.values() if job.phase == "paused"), key=queue_key)
    over = [pool.jobs[name] for name in reversed(pool.ended)] if ended else []
    ahead = {name: at for at, name in enumerate(waits)}
    found = [job for job in [*active, *waiting, *paused, *over] if mine is None or job.project in mine]
    return [job_row(pool, job, now, ahead.get(job.id)) for job in found]


def job_row(pool: Pool, job: Job, now: int, ahead: int | None = None) -> JobRow:
    """One job's row."""
    end = job.ended_at or now
    running = job.phase in ("running", "evicting") or (job.phase in ENDED and job.last_start is not None)
    waits = job.phase in ("pending", "reserved", "starting")
    since = max(job.submitted_at, job.last_eviction or 0)
    placed = [task for task in job.tasks if task.state in ("starting", "running", "exited")]
    return {
        "job": job.id,
        "project": job.project,
        "priority_class": job.class_name,
        "priority": job.priority,
        "base_priority": job.base_priority,
        "preemptible": job.preemptible,
        "state": job_state(job),
        "ahead": ahead,
        "gpus": job.gpus,
        "gpus_text": gpus_of_tasks(group for group in job.demand.tasks for _ in range(group.count)),
        "placed_gpus_text": gpus_of_tasks(job.group(task.index) for task in placed),
        "tasks": job.size,
        "min_tasks": job.minimum,
        "placed_tasks": len(placed),
        "nodes": node_names(pool, job.tasks),
        "reserved_nodes": node_names(pool, [*(task for task in job.tasks if task.state == "reserved"), *job.promise]),
        "attempt": job.attempt,
        "evictions": job.evictions,
        "failures": job.failures,
        "submitted_at": moment(job.submitted_at),
        "started_at": moment(job.last_start),
        "ended_at": moment(job.ended_at),
        "waiting_s": max(0, end - since) // 1_000_000 if waits else None,
        "running_s": max(0, end - job.last_start) // 1_000_000 if running and job.last_start is not None else None,
        "note": job_note(pool, job),
    }


def node_names(pool: Pool, tasks: list[Task]) -> list[str]:
    return list(dict.fromkeys(node_name(pool, task.node) for task in tasks))


def gpus_of_tasks(groups: Iterable[TaskGroup]) -> str:
    """`4` for whole GPUs, `2.5` with parts of some, `2 × 4GiB` beside them for memory of some. groups: one per task."""
    milli, bytes_of = 0, dict[int, int]()
    for group in groups:
        devices = group.gpu_devices or 1
        milli += group.gpu_milli + devices * (group.gpu_share_milli or 0)
        if group.gpu_share_bytes is not None:
            bytes_of[group.gpu_share_bytes] = bytes_of.get(group.gpu_share_bytes, 0) + devices
    parts = [thousandths_text(milli)] if milli or not bytes_of else []
    parts += [f"{f'{count} × ' if count > 1 else ''}{memory_text(size)}" for size, count in bytes_of.items()]
    return " + ".join(parts)


def job_state(job: Job) -> str:
    """One word."""
    if job.phase in ENDED:
        return job.phase
    if job.held_because is not None:
        return "held"
    if job.cancelled:
        return "cancelling"
    return "pausing" if job.paused_seq is not None and job.phase != "paused" else job.phase


def job_note(pool: Pool, job: Job) -> str:
    """What a person would want to know beside the state, in a few words."""
    if job.held_because is not None and job.phase not in ENDED:
        return f"a decision about it failed: {job.held_because}"
    if job.phase == "paused":
        return f"since #{job.paused_seq}" + (f": {job.pause_reason}" if job.pause_reason else "")
    if job.eviction is not None:
        leaving = f"leaves for {job.eviction.for_job}" if job.eviction.for_job else f"leaves {job.eviction.cause}"
        if job.eviction.cause == "migration" and job.promise:
            leaving = f"moves to {', '.join(node_names(pool, job.promise)[:3])}"
        return leaving + (", stuck" if job.eviction.stuck else "")
    if job.phase == "reserved":
        plan = pool.plans.get(job.plan) if job.plan is not None else None
        return f"waits for {', '.join(plan.victims[:3])} to leave" if plan and plan.victims else "waits for its room"
    if job.phase == "pending" and any(request.job == job.id for request in (pool.selection.requests if pool.selection else [])):
        return "victims are being selected"
    return ""


def job_details(pool: Pool, job: Job, now: int, history: list[Record], events: list[str]) -> JobDetails:
    """All about one job. history: the records that are about it."""
    waits = [name for name in pool.queue if name not in pool.active]
    ahead = waits.index(job.id) if job.id in waits else None
    plan = pool.plans.get(job.plan) if job.plan is not None else None
    eviction = job.eviction
    return {
        "summary": job_row(pool, job, now, ahead),
        "demand": demand_text(job.demand),
        "request": job.demand.to_data(),
        "labels": dict(job.demand.labels),
        "spec_digest": job.spec_digest,
        "submitted_seq": job.seq,
        "eviction": None
        if eviction is None
        else {
            "decided_seq": eviction.decided_seq,
            "cause": eviction.cause,
            "for_job": eviction.for_job,
            "grace_s": eviction.grace // 1_000_000,
            "begun_seq": eviction.begun_seq,
            "stuck": eviction.stuck,
        },
        "reserved_until": moment(job.reserved_until),
        "preempts": list(plan.victims) if plan is not None else [],
        "task_list": [task_row(pool, task) for task in job.tasks],
        "why": _why(history) if job.phase == "pending" else "",
        "moves": list(moves_of(pool, history)),
        "events": events,
    }


def task_row(pool: Pool, task: Task) -> TaskRow:
    """One task's row."""
    return {
        "task": task.index,
        "node": node_name(pool, task.node),
        "devices": bits(task.devices),
        "state": task.state,
        "exit_code": task.exit_code,
        "started_at": moment(task.started_at),
        "stage": next(reversed(task.reached), ""),
        "step": task.step,
        "checkpoint_step": task.checkpoint_step,
        "checkpoint_at": moment(task.checkpoint_at),
    }


WHY = ("JobWaits", "PreemptionRequested", "PreemptionRefused", "ReservationDropped")


def _why(history: list[Record]) -> str:
    for record in reversed(history):
        if record.data is not None and record.data.NAME in WHY:
            return f"{lines(record)[0].said.more} (#{record.seq})"
    return ""
