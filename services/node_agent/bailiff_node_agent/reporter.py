"""Reports of one node: numbered, and spooled on disk until the link has sent them in order."""

from collections.abc import Callable
from typing import Any

from bailiff_bus.messages.reports import ReportBody
from bailiff_core.model.message import MESSAGE_TYPES

from .agent_context import AgentContext
from .runtime import TaskKey


class Reporter:
    """Writes reports under the node's incarnation. has_reports: called when there is something to send."""

    def __init__(self, context: AgentContext, has_reports: Callable[[], None]) -> None:
        self._context, self._has_reports = context, has_reports

    def report(self, kind: type[ReportBody], **values: Any) -> int:
        """Spool a report; its number."""
        context = self._context
        number = context.reports.next_number
        body = kind(node=context.node.name, incarnation=context.incarnation.incarnation, number=number, **values)
        context.reports.append(encode_report(body))
        self._has_reports()
        return number

    def report_task(self, key: TaskKey, order: int | None, kind: type[ReportBody], **values: Any) -> int:
        """Report about a task. ordered_by: seq of the record that ordered its start, or of the command that is answered."""
        return self.report(kind, job=key.job, attempt=key.attempt, task=int(key.task), ordered_by=order, **values)


def encode_report(body: ReportBody) -> bytes:
    """A report as it is spooled."""
    return body.TYPE.encode() + b"\n" + body.to_json()


def decode_report(spooled: bytes) -> ReportBody:
    """The report that `encode_report` encoded."""
    kind, _, data = spooled.partition(b"\n")
    body = MESSAGE_TYPES[kind.decode()].model_validate_json(data)
    assert isinstance(body, ReportBody)
    return body
