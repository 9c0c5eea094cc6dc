"""Grants for the tasks of one node, as admission's commands bring them, and what is reported about them."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bailiff_bus.messages.commands import AttachTask
from bailiff_bus.messages.reports import AttachEndedReport, AttachReadyReport, AttachStartedReport
from bailiff_core.records.facts import AttachEnd
from bailiff_node_agent.agent_context import AgentContext
from bailiff_node_agent.reporter import Reporter
from bailiff_node_agent.runtime import TaskKey, UnknownTask
from bailiff_node_agent.tasks.task_table import TaskTable
from bailiff_service.tunnel_tls import certificate_bytes

from .listeners import connect_to_listener
from .server import CHUNK, AttachServer, Grant, Streams, TaskGone

FILE = "attachments"
MAX_PORT_CONNECTIONS = 64


@dataclass(slots=True)
class Attachments:
    """Of one node. On disk is which are open, so that the next agent can report their end."""

    context: AgentContext
    tasks: TaskTable
    reporter: Reporter
    server: AttachServer
    _open: dict[int, TaskKey] = field(default_factory=dict)
    _ends: dict[int, int] = field(default_factory=dict)
    """By the number of the report of its end, each grant whose end has not reached Kafka."""
    _newest: tuple[int, int] = (0, 0)

    def adopt(self) -> None:
        """Report the end of those that an earlier agent had."""
        for entry in json.loads(self.context.storage.read(FILE) or b"[]"):
            self._open[entry["grant"]] = TaskKey(entry["job"], entry["attempt"], entry["task"])
        for number in [*self._open]:
            self._ended(number, "agent-restarted")

    def received(self, number: int) -> None:
        """Kafka has this report and all before it."""
        sent = [report for report in self._ends if report <= number]
        for report in sent:
            self._open.pop(self._ends.pop(report), None)
        if sent:
            self._store()

    async def grant(self, command: AttachTask) -> None:
        """Expect the client of this command, or report why not. A repeated or older command has no effect."""
        at = command.ordered_by.epoch, command.ordered_by.seq
        if at <= self._newest:
            return
        self._newest = at
        key, number = TaskKey(command.job, command.attempt, str(command.task)), command.ordered_by.seq
        self._open[number] = key
        self._store()
        opened = self._opener_of(key, command.port, shell=command.shell)
        if isinstance(opened, str):
            self._ended(number, opened)
            return
        self.context.log().info("attach granted", job=command.job, task=command.task, requester=command.requester, grant=number)
        try:
            expected = Grant(
                certificate_bytes(command.client_certificate),
                open=opened,
                started=lambda: self._report(number, AttachStartedReport),
                ended=lambda reason: self._ended(number, self._reason(reason, key, shell=command.shell)),
                connections=1 if command.port is None else MAX_PORT_CONNECTIONS,
            )
            address = await self.server.expect(expected, command.valid_for / 1_000_000)
        except (OSError, ValueError) as error:
            self.context.log().warning("a grant cannot be used", grant=number, reason=str(error)[:200])
            self._ended(number, "failed")
            return
        self._report(number, AttachReadyReport, {"address": address, "fingerprint": self.server.fingerprint})

    def _reason(self, reason: AttachEnd, key: TaskKey, *, shell: bool) -> AttachEnd:
        """That a shell has ended is not the task's end."""
        task = self.tasks.get(key)
        return "detached" if shell and reason == "task-ended" and task is not None and task.state == "running" else reason

    def _opener_of(self, key: TaskKey, port: int | None, *, shell: bool) -> Callable[[], Awaitable[Streams]] | AttachEnd:
        """What connects to the task's terminal or port, or to a shell beside it, or why nobody can attach."""
        task = self.tasks.get(key)
        if task is None or task.state != "running":
            return "not-running"
        if not self.server.is_offered:
            return "not-offered"
        if port is not None:
            return lambda: self._connect_to_port(key, port)
        if shell:
            runtime = self.context.runtimes[task.runtime]
            return (lambda: runtime.open_shell(task.key)) if runtime.has_shell(task.key) else "no-shell"
        path = self.context.runtimes[task.runtime].terminal_path(task.key)
        return (lambda: _connect(path)) if path is not None else "no-terminal"

    async def _connect_to_port(self, key: TaskKey, port: int) -> Streams:
        """To whoever listens on the port of this machine, if that is the task. Raises `OSError`."""
        task = self.tasks.get(key)
        if task is None or task.state != "running":
            raise TaskGone(f"{key} does not run any more")
        runtime = self.context.runtimes[task.runtime]
        try:
            return await connect_to_listener(port, lambda: runtime.pids(task.key))
        except UnknownTask:
            raise TaskGone(f"{key} does not run any more") from None

    def _report(self, number: int, kind: type[Any], values: Mapping[str, Any] | None = None) -> int:
        return self.reporter.report_task(self._open[number], number, kind, grant=number, **(values or {}))

    def _ended(self, number: int, reason: AttachEnd) -> None:
        self._ends[self._report(number, AttachEndedReport, {"reason": reason})] = number

    def _store(self) -> None:
        entries = [
            {"grant": number, "job": key.job, "attempt": key.attempt, "task": key.task} for number, key in self._open.items()
        ]
        self.context.storage.replace(FILE, json.dumps(entries).encode())


async def _connect(path: Path) -> Streams:
    """The path may be too long for an address."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        return await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{path.name}", limit=CHUNK)
    finally:
        os.close(folder)
