"""Reports of one node on their way to the spool, numbered; the link sends them in order."""

from collections.abc import Callable
from typing import Any

from bailiff_bus.messages import MESSAGE_TYPES, ReportBody

from .machine import Machine
from .runtime import TaskKey


class Reporter:
    """Says what happens on this node, in the name of its incarnation. has_reports: called when there is something to send."""

    def __init__(self, machine: Machine, has_reports: Callable[[], None]) -> None:
        self._machine, self._has_reports = machine, has_reports

    def tell(self, kind: type[ReportBody], **values: Any) -> int:
        """The report's number."""
        machine = self._machine
        number = machine.reports.next_number
        body = kind(node=machine.node.name, incarnation=machine.incarnation.incarnation, number=number, **values)
        machine.reports.append(kept_report(body))
        self._has_reports()
        return number

    def tell_of(self, key: TaskKey, order: int | None, kind: type[ReportBody], **values: Any) -> int:
        """About a task. order: which one it was started by, or which one is answered."""
        return self.tell(kind, job=key.job, attempt=key.attempt, task=int(key.task), order=order, **values)


def kept_report(body: ReportBody) -> bytes:
    """A report as it is kept in the spool."""
    return body.TYPE.encode() + b"\n" + body.to_json()


def read_report(kept: bytes) -> ReportBody:
    """The report that `kept_report` wrote."""
    kind, _, data = kept.partition(b"\n")
    body = MESSAGE_TYPES[kind.decode()].model_validate_json(data)
    assert isinstance(body, ReportBody)
    return body
