"""What a task's agent reports about attachments to it, as facts."""

from bailiff_bus.messages.reports import AttachEndedReport, AttachReadyReport, AttachStartedReport, TaskReport
from bailiff_core.admission.reported import granted
from bailiff_core.model.state import Node, PoolState
from bailiff_core.records.facts import AttachEnded, AttachReady, AttachStarted
from bailiff_core.records.payload import Fact


def facts_of_attachment(state: PoolState, node: Node, report: TaskReport) -> list[Fact] | None:
    """New facts of a node's report about a grant for one of its tasks; None for reports about other things."""
    if not isinstance(report, AttachReadyReport | AttachStartedReport | AttachEndedReport):
        return None
    found = granted(state, node.name, report.job, report.attempt, report.task, report.grant)
    if found is None:
        return []
    match report:
        case AttachReadyReport() if not found.ready:
            return [AttachReady.saying(report)]
        case AttachStartedReport() if found.started_at is None:
            return [AttachStarted.saying(report)]
        case AttachEndedReport():
            return [AttachEnded.saying(report)]
    return []
