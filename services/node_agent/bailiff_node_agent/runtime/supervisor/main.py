"""The supervisor of a task that is a process."""

import ctypes
import signal
from typing import Any

from .daemon import await_task, write_exit, write_running
from .host import boottime_us
from .job import kill_leftovers, start_job, wait_for_exec, wait_for_main
from .lease import LEASE_EXPIRED, Lease
from .socket_server import ControlDir
from .watchdog import Watchdog

PR_SET_CHILD_SUBREAPER = 36


def supervise(task_dir: str, launch: dict[str, Any], lease: Lease, ready: int) -> None:
    """Run the task from its start to its exit. ready: closed once the task runs, or does not within 5 s."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot become the reaper of the task's processes")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    control_dir = ControlDir(task_dir, launch["control_dir"], launch["user"])
    watchdog = Watchdog(control_dir, lease, launch["is_only_task"])
    launch["env"]["BAILIFF_SOCKET"] = watchdog.server.path()
    terminal = watchdog.server.open_terminal(launch["log"]) if launch["tty"] else None
    started = boottime_us()
    tty = terminal.slave if terminal is not None else None
    pid, why_not = start_job(launch, lease, lambda pid: write_running(task_dir, pid, started), tty)
    error = wait_for_exec(pid, why_not, watchdog, ready)
    lease.killed_at_start = error == LEASE_EXPIRED
    code = wait_for_main(pid, watchdog)
    leftovers = kill_leftovers(task_dir, pid, watchdog)
    write_exit(task_dir, watchdog, code, leftovers, error)


def main() -> None:
    task_dir, lease, launch, ready = await_task()
    supervise(task_dir, launch, lease, ready)
