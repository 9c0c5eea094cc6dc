"""Serializers of jobs as rows: `bailiff list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from bailiff.client.projects import below
from bailiff.render.record_text.phrases import node_name, with_reason
from bailiff_core.fold.pending_queue import queue_key
from bailiff_core.humanize import memory_text, thousandths_text, user_text
from bailiff_core.model.state import ENDED

from .times import moment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bailiff_core.model.demand import TaskGroup
    from bailiff_core.model.state import Eviction, Job, PoolState, Task

REQUESTS = {"requested": "evicted", "cancelled": "cancelled", "paused": "paused"}
"""What the requester did, by the cause of an eviction."""
STATES = (
    "running", "starting", "reserved", "evicting", "pausing", "cancelling", "suspended", "pending", "waiting", "paused",
    "succeeded", "failed", "cancelled",
)  # fmt: skip
"""The states of a job, one word each, on the command line, in the console and in the Python client."""


class JobRow(TypedDict):
    """One job in `bailiff list`.

    user: who submitted it; user_verified: whether that is known. state: one of `STATES`: the phase, or `suspended` (a decision
    about it failed), `cancelling` or `pausing`. jobs_ahead: pending jobs ahead of it in the queue, null unless it is pending.
    pending_s counts from its submission or last eviction, running_s since all its tasks run. priority: the effective one;
    base_priority: that of its class. gpus: whole GPUs of the gang; gpus_text includes parts of GPUs, placed_gpus_text those of
    placed_tasks. reserved_nodes: where resources are reserved for it.
    """

    job: str
    user: str
    user_verified: bool
    project: str
    labels: dict[str, str]
    priority_class: str
    priority: int
    base_priority: int
    preemptible: bool
    state: str
    jobs_ahead: int | None
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
    pending_s: int | None
    running_s: int | None
    note: str


def job_rows(state: PoolState, now: int, *, ended: bool = False, project: str | None = None) -> list[JobRow]:
    """Active jobs in queue order, pending, waiting and paused jobs, and with `ended` ended jobs, newest first.

    project: only its jobs and those of subprojects.
    """
    mine = None if project is None else dict.fromkeys(below(state.rules, project))
    active = sorted(state.active_jobs(), key=queue_key)
    waits = [
        name for name in state.queue if name not in state.active
    ]  # a job that runs with fewer tasks than requested is in the queue, too
    waiting = [state.jobs[name] for name in waits]
    paused = sorted((job for job in state.jobs.values() if job.phase == "paused"), key=queue_key)
    over = [state.jobs[name] for name in reversed(state.ended)] if ended else []
    ahead = {name: at for at, name in enumerate(waits)}
    behind = sorted((job for job in state.jobs.values() if job.phase == "waiting"), key=queue_key)
    found = [job for job in [*active, *waiting, *behind, *paused, *over] if mine is None or job.project in mine]
    return [job_row(state, job, now, ahead.get(job.id)) for job in found]


def job_row(state: PoolState, job: Job, now: int, ahead: int | None = None) -> JobRow:
    """The row of one job. now: µs UTC."""
    end = job.ended_at or now
    running = job.phase in ("running", "evicting") or (job.phase in ENDED and job.last_start is not None)
    waits = job.phase in ("pending", "reserved", "starting")
    since = max(job.submitted_at, job.last_eviction or 0, job.pending_since if job.demand.after else 0)
    placed = [task for task in job.tasks if task.state in ("starting", "running", "exited")]
    return {
        "job": job.id,
        "user": user_of(job),
        "user_verified": job.user_verified,
        "project": job.project,
        "labels": dict(job.demand.labels),
        "priority_class": job.class_name,
        "priority": job.priority,
        "base_priority": job.base_priority,
        "preemptible": job.preemptible,
        "state": job_state(job),
        "jobs_ahead": ahead,
        "gpus": job.gpus,
        "gpus_text": gpus_of_tasks(group for group in job.demand.tasks for _ in range(group.count)),
        "placed_gpus_text": gpus_of_tasks(job.group(task.index) for task in placed),
        "tasks": job.size,
        "min_tasks": job.minimum,
        "placed_tasks": len(placed),
        "nodes": node_names(state, job.tasks),
        "reserved_nodes": node_names(state, [*(task for task in job.tasks if task.state == "reserved"), *job.reservation]),
        "attempt": job.attempt,
        "evictions": job.evictions,
        "failures": job.failures,
        "submitted_at": moment(job.submitted_at),
        "started_at": moment(job.last_start),
        "ended_at": moment(job.ended_at),
        "pending_s": max(0, end - since) // 1_000_000 if waits else None,
        "running_s": max(0, end - job.last_start) // 1_000_000 if running and job.last_start is not None else None,
        "note": job_note(state, job),
    }


def user_of(job: Job) -> str:
    """Whose job it is: who submitted it, or for whom an unnamed sender did."""
    return job.user or job.demand.user or ""


def node_names(state: PoolState, tasks: list[Task]) -> list[str]:
    return list(dict.fromkeys(node_name(state, task.node) for task in tasks))


def gpus_of_tasks(groups: Iterable[TaskGroup]) -> str:
    """`4` for whole GPUs, `2.5` with fractions, `4 + 2 × 4GiB` with GPU memory, `3g.40gb` for MIG. groups: one per task."""
    milli, bytes_of, mig = 0, dict[int, int](), dict[str, int]()
    for group in groups:
        devices = group.gpu_devices or 1
        milli += group.gpu_milli + devices * (group.gpu_share_milli or 0)
        if group.gpu_share_bytes is not None:
            bytes_of[group.gpu_share_bytes] = bytes_of.get(group.gpu_share_bytes, 0) + devices
        if group.mig_profile is not None:
            mig[group.mig_profile] = mig.get(group.mig_profile, 0) + devices
    parts = [thousandths_text(milli)] if milli or not (bytes_of or mig) else []
    counted = [*((memory_text(size), count) for size, count in bytes_of.items()), *mig.items()]
    parts += [f"{f'{count} × ' if count > 1 else ''}{what}" for what, count in counted]
    return " + ".join(parts)


def job_state(job: Job) -> str:
    """State of the job in one word."""
    if job.phase in ENDED:
        return job.phase
    if job.suspended_reason is not None:
        return "suspended"
    if job.cancelled:
        return "cancelling"
    return "pausing" if job.paused_seq is not None and job.phase not in ("paused", "waiting") else job.phase


def job_note(state: PoolState, job: Job) -> str:
    """A short note beside the state."""
    if job.suspended_reason is not None and job.phase not in ENDED:
        return f"decision failed: {job.suspended_reason}"
    requester = user_text(job.requester, job.requester_verified)
    by = f" by {requester}" if requester else ""
    if job.phase == "waiting":
        from bailiff_core.explain.dependencies import waits_for_text  # loads the scheduling rules, which a list seldom needs

        return waits_for_text(job)
    if job.phase == "cancelled" and job.failed_dependency:
        return f"{job.failed_dependency} did not succeed"
    if job.phase == "paused":
        return with_reason(f"since #{job.paused_seq}{by}", job.pause_reason)
    if job.phase == "cancelled":
        return with_reason(by.strip(), job.request_reason) if by else ""
    if job.eviction is not None:
        note = _eviction_note(state, job, job.eviction)
        if job.eviction.cause == "migration" and job.reservation:
            note = f"migrating to {', '.join(node_names(state, job.reservation)[:3])}"
        return note + (", stuck" if job.eviction.stuck else "")
    if job.phase == "reserved":
        plan = state.preemptions.get(job.preemption) if job.preemption is not None else None
        return f"waiting for {', '.join(plan.victims[:3])}" if plan and plan.victims else "waiting for reserved resources"
    if job.phase == "pending" and any(request.job == job.id for request in (state.selection.requests if state.selection else [])):
        return "victims are being selected"
    return ""


def _eviction_note(state: PoolState, job: Job, eviction: Eviction) -> str:
    """Which job preempted it, and whose that is; or who requested the eviction, and why."""
    if eviction.for_job:
        preemptor = state.jobs.get(eviction.for_job)
        user = user_text(user_of(preemptor), preemptor.user_verified) if preemptor is not None else ""
        whose = f" of {user}" if user else ""
        return f"preempted by {eviction.for_job}{whose}"
    if eviction.cause not in REQUESTS or not job.requester:
        return f"evicting: {eviction.cause}"
    requester = user_text(job.requester, job.requester_verified)
    return with_reason(f"{REQUESTS[eviction.cause]} by {requester}", job.request_reason)
