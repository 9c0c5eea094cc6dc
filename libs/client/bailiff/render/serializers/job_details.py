"""Serializers of one job in detail, with its tasks: `bailiff describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from bailiff.render.plain_text import plain
from bailiff.render.record_text.phrases import demand_text, node_name
from bailiff_core.model.placement_ranges import bits
from bailiff_core.views import Moment, PendingReason

from .attachments import AttachmentRow, attachments_of
from .jobs import JobRow, job_row
from .moves import MoveRow, moves_of
from .times import moment

if TYPE_CHECKING:
    from bailiff_core.model.state import Job, PoolState, Task
    from bailiff_core.records import Record

NO_REASON: PendingReason = {"pending_reason": None, "pending_reason_seq": None, "pending_reason_at": None}


class TaskRow(TypedDict):
    """One task of a job's current attempt.

    Attributes:
        stage: Stage of its eviction.
        step: The last reported step.
        checkpoint_step: Step of the last reported checkpoint.
        checkpoint_at: Time of the last reported checkpoint.
        resumed_step: The saved step from which this attempt resumed.
    """

    task: int
    node: str
    devices: list[int]
    state: str
    exit_code: int | None
    started_at: Moment | None
    stage: str
    step: int | None
    checkpoint_step: int | None
    checkpoint_at: Moment | None
    resumed_step: int | None


class ClaimRow(TypedDict):
    """A field that makes the job harder to evict: what the job says, and what holds by the policy."""

    field: str
    claimed: str
    granted: str


class JobDetails(PendingReason):
    """The output of `bailiff describe`.

    Attributes:
        signed_by: The key that signed its submission.
        claims: What it claims that makes it harder to evict, and what of it is granted.
        believed: How far it is believed less than others; empty: it is not.
        victims: The victims of its preemption.
        events: Lines for people.
        end_reason: Why it ended; empty if it succeeded.
        attempt_end: Why the attempt before ended; empty if there was none.
    """

    summary: JobRow
    demand: str
    request: dict[str, Any]
    claims: list[ClaimRow]
    believed: str
    end_reason: str
    attempt_end: str
    spec_digest: str
    signed_by: str
    reserved_until: Moment | None
    victims: list[str]
    task_list: list[TaskRow]
    moves: list[MoveRow]
    attachments: list[AttachmentRow]
    events: list[str]


def job_details(state: PoolState, job: Job, now: int, history: list[Record], events: list[str]) -> JobDetails:
    """One job in detail."""
    from bailiff_core.explain.claims import belief_text, claims_of  # as in `_why`
    from bailiff_core.explain.evictions import attempt_end
    from bailiff_core.explain.job_state import end_reason

    waits = [name for name in state.queue if name not in state.active]
    ahead = waits.index(job.id) if job.id in waits else None
    plan = state.preemptions.get(job.preemption) if job.preemption is not None else None
    return {
        **(_why(history) if job.phase == "pending" else NO_REASON),
        "summary": job_row(state, job, now, ahead),
        "end_reason": plain(end_reason(job, history)),
        "attempt_end": plain(ended.text) if (ended := attempt_end(job, history)) is not None else "",
        "demand": demand_text(job.demand),
        "request": job.demand.to_data(),
        "claims": [{"field": each.field, "claimed": each.claimed, "granted": each.granted} for each in claims_of(state, job)],
        "believed": belief_text(job),
        "spec_digest": job.spec_digest,
        "signed_by": _signed_by(job, history),
        "reserved_until": moment(job.reserved_until),
        "victims": list(plan.victims) if plan is not None else [],
        "task_list": [task_row(state, task) for task in job.tasks],
        "moves": list(moves_of(state, history)),
        "attachments": attachments_of(history),
        "events": events,
    }


def _signed_by(job: Job, history: list[Record]) -> str:
    """The key that signed the submission; empty if none did, or its record is not in the history."""
    from bailiff_log.signed_requests import signing_key

    return next((signing_key(record) for record in history if record.seq == job.seq and record.request), "")


def task_row(state: PoolState, task: Task) -> TaskRow:
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
        "resumed_step": task.resumed_step,
    }


def _why(history: list[Record]) -> PendingReason:
    """The newest recorded reason why the job is pending."""
    from bailiff_core.explain import pending_reason_in  # loads the scheduling rules, which a list seldom needs

    for record in reversed(history):
        found = pending_reason_in(record.data)
        if found is not None:
            reason = plain(found[1])
            return {"pending_reason": reason, "pending_reason_seq": record.seq, "pending_reason_at": moment(record.time)}
    return NO_REASON
