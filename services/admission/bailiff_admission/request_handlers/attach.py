"""Handlers of requests to attach to a task, and of what its agent reports about that."""

from bailiff_bus.messages import AttachEndedReport, AttachJob, AttachReadyReport, AttachStartedReport
from bailiff_bus.messages.reports import TaskReport
from bailiff_core.fold.attachments import live_attachments
from bailiff_core.model.state import Node, PoolState
from bailiff_core.permissions import Requester
from bailiff_core.records.facts import AttachEnded, AttachGranted, AttachReady, AttachStarted, RequestId
from bailiff_core.records.payload import Fact

from .job_changes import permitted
from .rejected import Rejected

MAX_PER_JOB = 16


def attach_granted(
    state: PoolState, request: RequestId, requester: Requester, attach: AttachJob
) -> list[Fact] | Rejected:  # fmt: skip
    """A grant for one connection to the task, if the requester may attach to the job and the task runs."""
    job = permitted(state, requester, "attach", attach.job)
    if isinstance(job, Rejected):
        return job
    task = job.task(attach.task)
    if task is None or task.state != "running":
        what = f"task {attach.task} of {job.id}" if job.phase == "running" and job.size > 1 else job.id
        phase = job.phase if job.phase != "running" else task.state if task is not None else "not there"
        return Rejected("not-running", f"{what} is {phase}: you can attach only to a running task", job.id)
    if attach.port is not None and attach.port not in job.demand.ports:
        known = ", ".join(map(str, job.demand.ports)) or "none"
        return Rejected("no-such-port", f"{job.id} does not declare port {attach.port}; it declares {known}", job.id)
    count = len(live_attachments(state, job.id))
    if count >= MAX_PER_JOB:
        return Rejected("too-many-attachments", f"{job.id} has {count} attachments, the most there may be: end one", job.id)
    return [
        AttachGranted(
            request=request, job=job.id, attempt=job.attempt, task=task.index, node=state.nodes[task.node].name,
            client_certificate=attach.client_certificate, port=attach.port,
        )
    ]  # fmt: skip


def facts_of_attachment(state: PoolState, node: Node, report: TaskReport) -> list[Fact] | None:
    """New facts of a node's report about a grant for one of its tasks; None for reports about other things."""
    if not isinstance(report, AttachReadyReport | AttachStartedReport | AttachEndedReport):
        return None
    found = state.attachments.get(report.grant)
    if found is None or found.node != node.name:
        return []
    if (report.job, report.attempt, report.task) != (found.job, found.attempt, found.task):
        return []
    at = {"job": found.job, "attempt": found.attempt, "task": found.task, "node": node.name, "grant": report.grant}
    match report:
        case AttachReadyReport() if not found.ready:
            return [AttachReady.model_validate({**at, "address": report.address, "fingerprint": report.fingerprint})]
        case AttachStartedReport() if found.started_at is None:
            return [AttachStarted.model_validate(at)]
        case AttachEndedReport():
            return [AttachEnded.model_validate({**at, "reason": report.reason})]
    return []
