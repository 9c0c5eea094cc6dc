"""The supervisor of a task that is a process."""

import ctypes
import os
import signal
from contextlib import suppress
from typing import Any

from .daemon import await_task, write_exit, write_running
from .host import boottime_us, write_json
from .init import Saves, needs_init, start_init
from .job import kill_leftovers, reap, start_job, wait_for_exec, wait_for_main
from .lease import LEASE_EXPIRED, Lease
from .socket_server import ControlDir
from .stopping import Processes
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
    run = _run_below_init if needs_init(launch) else _run
    code, leftovers, error = run(task_dir, launch, watchdog, ready, terminal.slave if terminal is not None else None)
    write_exit(task_dir, watchdog, code, leftovers, error)


def _run(task_dir: str, launch: dict[str, Any], watchdog: Watchdog, ready: int, tty: int | None) -> tuple[int, int, str | None]:
    """The exit code, how many processes outlived the main one, and why it could not be started."""
    lease, started = watchdog.lease, boottime_us()
    pid, why_not = start_job(launch, lease, lambda pid: write_running(task_dir, pid, started), tty)
    error = wait_for_exec(pid, why_not, watchdog, ready)
    lease.killed_at_start = error == LEASE_EXPIRED
    code = wait_for_main(pid, watchdog)
    return code, kill_leftovers(task_dir, pid, watchdog), error


def _run_below_init(
    task_dir: str, launch: dict[str, Any], watchdog: Watchdog, ready: int, tty: int | None
) -> tuple[int, int, str | None]:
    """The same for a task in a PID namespace of its own, which may be restored instead of started."""
    lease, started = watchdog.lease, boottime_us()
    init = start_init(launch, lease, lambda pid: write_running(task_dir, pid, started), task_dir, tty)

    def begun() -> None:
        init.read()
        if init.main is not None:
            write_running(task_dir, init.main, started)
        if init.restored is not None:
            write_json(f"{task_dir}/restored.json", init.restored)

    error = wait_for_exec(init.pid, init.why_not, watchdog, ready, begun)
    lease.killed_at_start = error == LEASE_EXPIRED
    main, saves = init.main or init.pid, Saves(task_dir, init)
    task, exited = Processes(main), dict[int, int]()
    watchdog.server.watch(init.reports)
    while init.pid not in exited and init.code is None:
        watchdog.enforce(task)
        watchdog.wait()
        exited = reap()
        init.read()
        if init.main is not None and init.main != main:
            main, task = init.main, Processes(init.main)
            write_running(task_dir, main, started)
        saves.step(exited)
    watchdog.server.unwatch(init.reports)
    code = exited[init.pid] if init.code is None else init.code
    leftovers = kill_leftovers(task_dir, main, watchdog, init.pid)
    with suppress(ChildProcessError):  # it was reaped
        os.waitpid(init.pid, 0)
    return code, leftovers, error


def main() -> None:
    task_dir, lease, launch, ready = await_task()
    supervise(task_dir, launch, lease, ready)
