"""What every supervisor does: it is forked for a task, and records the task's start and exit."""

import json
import os
import sys
import time
from typing import Any, NamedTuple

from .forking import requests_socket, serve, set_command
from .host import boot_id, boottime_us, write_json
from .lease import Lease
from .processes import read_process
from .watchdog import Watchdog


def write_running(task_dir: str, pid: int, started_us: int, *, begun: bool = True) -> None:
    """Write `running.json`: the task's main process, or this one where it has not begun, and its supervisor."""
    me, main = read_process(os.getpid()), read_process(pid)
    running = {
        "pid": pid,
        "started": main.started if main else 0,
        "supervisor_pid": os.getpid(),
        "supervisor_started": me.started if me else 0,
        "started_boottime_us": started_us,
        "boot_id": boot_id(),
        "begun": begun,
    }
    write_json(f"{task_dir}/running.json", running)


def write_exit(task_dir: str, watchdog: Watchdog, code: int, leftovers: int, error: str | None, *, begun: bool = True) -> None:
    """Write `exit.json`, once nothing of the task is left."""
    watchdog.server.drain()
    end = {
        "code": code,
        "at_boottime_us": boottime_us(),
        "boot_id": boot_id(),
        "leftovers": leftovers,
        "error": error,
        "supervisor_lost": False,
        "lease_stages": watchdog.lease.stages,
        "deadline_stages": watchdog.deadlines.stages,
        "begun": begun,
    }
    while os.path.isdir(task_dir):
        try:
            write_json(f"{task_dir}/exit.json", end)
        except OSError:
            time.sleep(1)  # a full disk must not turn a finished job into a lost one
        else:
            return


class Start(NamedTuple):
    """A task to supervise. launch: what the agent wrote. ready: the agent waits until it is closed."""

    task_dir: str
    lease: Lease
    launch: dict[str, Any]
    ready: int


def await_task() -> Start:
    """Serve the agent's requests to supervise a task. Returns in a child for each of them."""
    set_command(*sys.orig_argv[:-2], "forks supervisors")
    request, (launch, errors, _lock, ready) = serve(requests_socket())  # the lock is held until this process has exited
    set_command(*sys.orig_argv[:-2], request["task_dir"], request["lease"])
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    os.close(errors)
    with os.fdopen(launch) as file:
        content = json.load(file)
    return Start(request["task_dir"], Lease(request["lease"], request["task_dir"]), content, ready)
