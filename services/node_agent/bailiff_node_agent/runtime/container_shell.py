"""A shell in the container of a running task, for one client: what `docker exec` gives, as the container's user.

The agent starts this program with its end of a connection as standard input, and the container as its argument, as it does with
`supervisor.shell`, whose frames and ends these are. The engine ends no process when its client leaves; this program does.
"""

import json
import os
import signal
import socket
import sys
from typing import Any

from .docker_engine import Engine, EngineError, EngineUnavailable
from .supervisor.processes import read_process, scan, send
from .supervisor.shell import relay

SHELL = ["/bin/sh", "-c", "[ -x /bin/bash ] && exec /bin/bash -i; exec /bin/sh -i"]


def run_shell(engine: Engine, container: str, connection: socket.socket) -> None:
    """Until the shell, the container or the connection ends; then nothing of the shell's session is left."""
    found = engine.inspect(container)
    if found is None or not found["State"]["Pid"]:
        raise OSError("the container does not run")
    task = os.pidfd_open(found["State"]["Pid"])
    shell, terminal = engine.execute(container, SHELL, {"TERM": "xterm"})
    with terminal:
        pid = engine.pid_of(shell)
        if pid is None or (leader := read_process(pid)) is None:
            raise OSError("the image has no /bin/sh")
        try:
            relay(terminal.fileno(), connection, task, os.pidfd_open(pid), lambda *size: engine.resize_execution(shell, *size))
        finally:
            for number in (signal.SIGHUP, signal.SIGKILL):
                for process in scan():
                    if process.session == leader.session:
                        send(process, number)


def main() -> None:
    """Exit code 1, and the reason on standard error, where there is no shell."""
    about: dict[str, Any] = json.loads(sys.argv[1])
    connection = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    engine = Engine(about["engine"])
    try:
        run_shell(engine, about["container"], connection)
    except (EngineError, EngineUnavailable, OSError) as problem:
        sys.exit(str(problem))
    finally:
        engine.close()
