"""Serializers of jobs as rows: `bailiff list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from typing_extensions import TypedDict

from bailiff.render.record_text.phrases import node_name, with_reason
from bailiff_core.humanize import count_text, memory_text, thousandths_text, user_text
from bailiff_core.model.state import ENDED
from bailiff_core.model.undecoded import shared_of
from bailiff_core.records.wire import time_text
from bailiff_core.views import JobState, JobView, Moment, requested_gpu_milli

from .times import moment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bailiff_core.model.demand import TaskGroup
    from bailiff_core.model.state import Eviction, Job, PoolState, Task

REQUESTS = {"requested": "evicted", "cancelled": "cancelled", "paused": "paused"}
"""What the requester did, by the cause of an eviction."""
STATES: tuple[JobState, ...] = get_args(JobState)
"""The states of a job, one word each, on the command line, in the console and in the Python client."""


class EvictionView(TypedDict):
    """An eviction in progress.

    Attributes:
        for_job: The preemptor.
        stage: The newest stage of its tasks, else `started` or `decided`.
        started_at: Null until a notice was sent.
        deadline: The end of its grace.
        stuck: Its resources were not released in time.
    """

    decided_seq: int
    cause: str
    for_job: str | None
    stage: str
    started_at: Moment | None
    deadline: Moment | None
    grace_s: int
    stuck: bool


class CurrentJob(JobView):
    """A job in the state of its pool: a function of the log, independent of the clock.

    Attributes:
        priority: The effective priority.
        base_priority: The priority of its class.
        gpus_text: The requested GPUs, including GPU memory.
        placed_gpus_text: The GPUs of its placed tasks.
        reserved_nodes: Nodes on which resources are reserved for it.
        started_at: Start of the last attempt.
        step: The last reported step.
        checkpoint_step: Step of the last reported checkpoint.
        checkpoint_at: Time of the last reported checkpoint.
        believed: `less`: it ignored its grace, or its checkpoints could not be read; empty: as others.
    """

    labels: dict[str, str]
    priority: int
    base_priority: int
    preemptible: bool
    gpus_text: str
    placed_gpus_text: str
    min_tasks: int
    placed_tasks: int
    nodes: list[str]
    reserved_nodes: list[str]
    evictions: int
    failures: int
    started_at: Moment | None
    pending_since: Moment | None
    step: int | None
    checkpoint_step: int | None
    checkpoint_at: Moment | None
    eviction: EvictionView | None
    believed: Literal["", "less"]
    note: str


class JobRow(CurrentJob):
    """One job in `bailiff list`.

    Attributes:
        jobs_ahead: Number of pending jobs ahead of it in the queue; null unless it is pending.
        pending_s: Seconds since its submission or last eviction.
        running_s: Seconds since all its tasks run.
    """

    jobs_ahead: int | None
    pending_s: int | None
    running_s: int | None


def job_order(state: PoolState, *, ended: bool = False) -> list[str]:
    """The names of active jobs in queue order, pending, waiting and paused jobs, and with `ended` ended jobs, newest first.

    None of them is decoded.
    """
    waits, phases, queued = pending(state), dict[str, list[str]](), state.indices.queued
    for name in state.jobs:
        if name not in queued and name not in state.active and name not in state.ended:
            phases.setdefault(shared_of(state.jobs, name).phase, []).append(name)
    ranked = [list(state.active), phases.get("waiting", []), phases.get("paused", [])]
    few = {name for names in ranked for name in names}
    submitted = {name: at for at, name in enumerate(state.jobs) if name in few}
    for names in ranked:
        names.sort(key=lambda name: (-shared_of(state.jobs, name).priority, submitted[name]))
    active, behind, paused = ranked
    return [*active, *waits, *behind, *paused, *(reversed(state.ended) if ended else ())]


def pending(state: PoolState) -> list[str]:
    """The names of pending jobs, in queue order."""
    return [
        name for name in state.queue if name not in state.active
    ]  # a job that runs with fewer tasks than requested is in the queue, too


def job_rows(state: PoolState, now: int, names: Iterable[str] | None = None) -> list[JobRow]:
    """The rows of these jobs; of all that have not ended, in their order, if none are named."""
    chosen = dict.fromkeys(job_order(state) if names is None else names)
    ahead = {name: at for at, name in enumerate(pending(state)) if name in chosen}
    return [job_row(state, state.jobs[name], now, ahead.get(name)) for name in chosen]


def job_row(state: PoolState, job: Job, now: int, ahead: int | None = None) -> JobRow:
    """The row of one job.

    Args:
        now: µs UTC.
    """
    end, since = job.ended_at or now, _pending_since(job)
    running = job.last_start is not None and (job.phase in ("running", "evicting") or job.phase in ENDED)
    return {
        **current_job(state, job),
        "jobs_ahead": ahead,
        "pending_s": max(0, end - since) // 1_000_000 if since is not None else None,
        "running_s": max(0, end - (job.last_start or 0)) // 1_000_000 if running else None,
    }


def current_job(state: PoolState, job: Job) -> CurrentJob:
    placed = [task for task in job.tasks if task.state in ("starting", "running", "exited")]
    steps = [task.step for task in job.tasks if task.step is not None]
    checkpoints = [task.checkpoint_step for task in job.tasks if task.checkpoint_step is not None]
    return {
        "job": job.id,
        "submitted_seq": job.seq,
        "user": user_of(job),
        "user_verified": job.user_verified,
        "project": job.project,
        "priority_class": job.class_name,
        "state": job_state(job),
        "gpus": requested_gpu_milli(job.demand, state.policy) / 1000,
        "tasks": job.size,
        "attempt": job.attempt,
        "submitted_at": moment(job.submitted_at) or "",
        "ended_at": moment(job.ended_at),
        "labels": dict(job.demand.labels),
        "priority": job.priority,
        "base_priority": job.base_priority,
        "preemptible": job.preemptible,
        "gpus_text": gpus_of_tasks(group for group in job.demand.tasks for _ in range(group.count)),
        "placed_gpus_text": gpus_of_tasks(job.group(task.index) for task in placed),
        "min_tasks": job.minimum,
        "placed_tasks": len(placed),
        "nodes": node_names(state, job.tasks),
        "reserved_nodes": node_names(state, [*(task for task in job.tasks if task.state == "reserved"), *job.reservation]),
        "evictions": job.evictions,
        "failures": job.failures,
        "started_at": moment(job.last_start),
        "pending_since": moment(_pending_since(job)),
        "step": max(steps, default=job.step),
        "checkpoint_step": max(checkpoints, default=None),
        "checkpoint_at": moment(job.last_checkpoint),
        "eviction": _eviction(job, job.eviction) if job.eviction is not None else None,
        "believed": "less" if job.unkept else "",
        "note": job_note(state, job),
    }


def _pending_since(job: Job) -> int | None:
    """Since when it waits for resources, µs; `None` if it does not."""
    return job.queued_since if job.phase in ("pending", "reserved", "starting") else None


def _eviction(job: Job, eviction: Eviction) -> EvictionView:
    reached = [(at, stage) for task in job.tasks for stage, at in task.stage_times.items()]
    begun = eviction.started_at
    return {
        "decided_seq": eviction.decided_seq,
        "cause": eviction.cause,
        "for_job": eviction.for_job,
        "stage": max(reached)[1] if reached else ("started" if eviction.started_seq is not None else "decided"),
        "started_at": moment(begun),
        "deadline": moment(begun + eviction.grace) if begun is not None else None,
        "grace_s": eviction.grace // 1_000_000,
        "stuck": eviction.stuck,
    }


def user_of(job: Job) -> str:
    """Whose job it is: who submitted it, or for whom an unnamed sender did."""
    return job.user or job.demand.user or ""


def node_names(state: PoolState, tasks: list[Task]) -> list[str]:
    return list(dict.fromkeys(node_name(state, task.node) for task in tasks))


def gpus_of_tasks(groups: Iterable[TaskGroup]) -> str:
    """`4` for whole GPUs, `2.5` with fractions, `4 + 2 × 4GiB` with GPU memory, `3g.40gb` for MIG.

    Args:
        groups: One per task.
    """
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


def job_state(job: Job) -> JobState:
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

        return waits_for_text(state, job)
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
    if job.phase == "pending" and job.not_before:
        failed = f"failed {count_text(job.failures, 'time')}, " if job.failures else ""
        return f"{failed}not started again before {time_text(job.not_before)[11:19]}"
    if job.phase == "pending" and any(request.job == job.id for request in (state.selection.requests if state.selection else [])):
        return "victims are being selected"
    return ""


def waits_text(state: PoolState, job: Job) -> str:
    """The state of a job that has not started, with its note."""
    note = job_note(state, job)
    return job_state(job) + (f", {note}" if note else "")


def _eviction_note(state: PoolState, job: Job, eviction: Eviction) -> str:
    """Which job preempted it, and whose that is; or who requested the eviction, and why."""
    if eviction.for_job:
        preemptor = state.jobs.get(eviction.for_job)
        user = user_text(user_of(preemptor), preemptor.user_verified) if preemptor is not None else ""
        whose = f" of {user}" if user else ""
        return f"preempted by {eviction.for_job}{whose}"
    if eviction.cause not in REQUESTS or not job.requester:
        return "cancelled" if eviction.cause == "cancelled" else f"evicting: {eviction.cause}"
    requester = user_text(job.requester, job.requester_verified)
    return with_reason(f"{REQUESTS[eviction.cause]} by {requester}", job.request_reason)
