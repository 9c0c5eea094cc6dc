"""Starts supervisors, wakes them, and writes the lease that they enforce while the agent is away."""

import contextlib
import json
import os
import secrets
import select
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from bailiff_node_agent.runtime.supervisor.host import boot_id
from bailiff_node_agent.runtime.supervisor.processes import read_process, send
from bailiff_service.logs import logger

from .fork_server import ForkServer, ForkServerDied, shared_fork_server
from .task_record import read_json

START_WITHIN_S = 8.0
"""A supervisor says within 5 s that its task runs or is about to, unless the machine is overloaded or the task has stopped it."""


class Supervisors:
    """The supervisors of one node.

    program: Python's arguments to run one. inherited: variables of the agent's environment that it needs. lease: boot-time µs
    until which tasks may run without the agent, and their grace in µs after that; None: no limit.
    """

    def __init__(self, program: tuple[str, ...], inherited: tuple[str, ...], lease_file: Path) -> None:
        self._program, self._inherited, self._lease_file = program, inherited, lease_file
        self.lease: tuple[int, int] | None = None

    def start(self, launch_input: bytes, task: Path, lock: int) -> None:
        """Have a supervisor forked, and wait until the task runs. Without one the lock is free, and the task counts as lost."""
        self.write_lease()
        launch, writer = os.pipe()
        waiting, ready = os.pipe()
        handles = (launch, os.open(task / "supervisor.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), lock, ready)
        try:
            self._fork({"task_dir": str(task), "lease": str(self._lease_file)}, handles)
        except ForkServerDied as error:
            logger().error("no supervisor could be started", task=task.name, reason=str(error))
        finally:
            for handle in handles:
                if handle != lock:
                    os.close(handle)
        with contextlib.suppress(BrokenPipeError), os.fdopen(writer, "wb") as file:
            file.write(launch_input)
        select.select([waiting], [], [], START_WITHIN_S)
        os.close(waiting)

    def wake(self, task: Path) -> None:
        """Notify the supervisor of changed files: it reads them again."""
        running = read_json(task / "running.json")
        process = read_process(running["supervisor_pid"]) if running is not None else None
        if running is not None and process is not None and process.started == running["supervisor_started"]:
            send(process, signal.SIGCONT)  # a task of the agent's user may have stopped it
            send(process, signal.SIGCHLD)  # wakes a supervisor; it has no other effect

    def write_lease(self) -> None:
        """Not durably: after a power loss no task is left to which it applies."""
        if self.lease is None:
            return
        until_us, grace_us = self.lease
        lease = {"until_boottime_us": until_us, "grace_us": grace_us, "boot_id": boot_id()}
        new = self._lease_file.with_name(f"lease.json.{secrets.token_hex(4)}")  # two threads may write at once
        new.write_text(json.dumps(lease))
        new.replace(self._lease_file)

    def _fork(self, request: Mapping[str, str], handles: Sequence[int]) -> None:
        """Once more with another fork server where the first was killed."""
        for attempt in range(2):
            try:
                _, _, status = self._fork_server().fork(request, handles)
            except ForkServerDied:
                if attempt:
                    raise
            else:
                os.close(status)
                return

    def _fork_server(self) -> ForkServer:
        """One for all nodes of this agent; it is started with the first task, and imports all that supervisors need."""
        env = {name: os.environ[name] for name in self._inherited if name in os.environ}
        return shared_fork_server(("-I", *self._program), env=env)
