"""Serializers of one job in detail, with its tasks: `bailiff describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from bailiff.render.record_text.phrases import node_name
from bailiff_core.model.placement_ranges import bits

from .jobs import JobRow, job_row
from .times import moment

if TYPE_CHECKING:
    from bailiff_core.model.state import Job, PoolState, Task
    from bailiff_core.records import Record

    from .attachments import AttachmentRow
    from .moves import MoveRow

WHY = ("JobPending", "PreemptionRequested", "PreemptionRefused", "ReservationDropped")


class TaskRow(TypedDict):
    """One task of a job's current attempt. stage: of its eviction; step, checkpoint: as last reported."""

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
    """`bailiff describe`. owner: who submitted the job. signed_by: the key that signed its submission. events: lines for people.

    pending_reason: the newest recorded reason, true at `pending_reason_at`.
    """

    summary: JobRow
    demand: str
    request: dict[str, Any]
    labels: dict[str, str]
    spec_digest: str
    submitted_seq: int
    owner: str
    owner_verified: bool
    signed_by: str
    eviction: dict[str, Any] | None
    reserved_until: str | None
    victims: list[str]
    task_list: list[TaskRow]
    pending_reason: str
    pending_reason_at: str | None
    moves: list[MoveRow]
    attachments: list[AttachmentRow]
    events: list[str]


def job_details(state: PoolState, job: Job, now: int, history: list[Record], events: list[str]) -> JobDetails:
    """One job in detail. history: its records."""
    from bailiff.render.record_text.phrases import demand_text

    from .attachments import attachments_of
    from .moves import moves_of

    waits = [name for name in state.queue if name not in state.active]
    ahead = waits.index(job.id) if job.id in waits else None
    plan = state.preemptions.get(job.preemption) if job.preemption is not None else None
    eviction = job.eviction
    reason, reason_at = _why(history) if job.phase == "pending" else ("", None)
    return {
        "summary": job_row(state, job, now, ahead),
        "demand": demand_text(job.demand),
        "request": job.demand.to_data(),
        "labels": dict(job.demand.labels),
        "spec_digest": job.spec_digest,
        "submitted_seq": job.seq,
        "owner": job.user,
        "owner_verified": job.user_verified,
        "signed_by": _signed_by(job, history),
        "eviction": None
        if eviction is None
        else {
            "decided_seq": eviction.decided_seq,
            "cause": eviction.cause,
            "for_job": eviction.for_job,
            "grace_s": eviction.grace // 1_000_000,
            "started_seq": eviction.started_seq,
            "stuck": eviction.stuck,
        },
        "reserved_until": moment(job.reserved_until),
        "victims": list(plan.victims) if plan is not None else [],
        "task_list": [task_row(state, task) for task in job.tasks],
        "pending_reason": reason,
        "pending_reason_at": reason_at,
        "moves": list(moves_of(state, history)),
        "attachments": attachments_of(history),
        "events": events,
    }


def _signed_by(job: Job, history: list[Record]) -> str:
    """The key that signed the submission; empty if none did, or its record is not in the history."""
    from bailiff_log.signed_requests import signing_key

    return next((signing_key(record) for record in history if record.seq == job.seq and record.request), "")


def task_row(state: PoolState, task: Task) -> TaskRow:
    """The row of one task."""
    return {
        "task": task.index,
        "node": node_name(state, task.node),
        "devices": bits(task.devices),
        "state": task.state,
        "exit_code": task.exit_code,
        "started_at": moment(task.started_at),
        "stage": next(reversed(task.stage_times), ""),
        "step": task.step,
        "checkpoint_step": task.checkpoint_step,
        "checkpoint_at": moment(task.checkpoint_at),
    }


def _why(history: list[Record]) -> tuple[str, str | None]:
    """The newest recorded reason why the job is pending, with its seq, and its time."""
    from bailiff.render.record_text.lines import lines

    for record in reversed(history):
        if record.data is not None and record.data.NAME in WHY:
            return f"{lines(record)[0].statement.detail} (#{record.seq})", moment(record.time)
    return "", None
