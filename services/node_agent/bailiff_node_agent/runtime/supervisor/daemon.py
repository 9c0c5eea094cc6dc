"""What every supervisor does: it detaches from the agent, and records its task's start and exit."""

import os
import time

from .host import boot_id, boottime_us, write_json
from .processes import read_process
from .watchdog import Watchdog


def write_running(task_dir: str, pid: int, started_us: int) -> None:
    """Write `running.json`: the task's main process and its supervisor."""
    me, main = read_process(os.getpid()), read_process(pid)
    running = {
        "pid": pid,
        "started": main.started if main else 0,
        "supervisor_pid": os.getpid(),
        "supervisor_started": me.started if me else 0,
        "started_boottime_us": started_us,
        "boot_id": boot_id(),
    }
    write_json(f"{task_dir}/running.json", running)


def write_exit(task_dir: str, watchdog: Watchdog, code: int, leftovers: int, error: str | None) -> None:
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
    }
    while os.path.isdir(task_dir):
        try:
            write_json(f"{task_dir}/exit.json", end)
        except OSError:
            time.sleep(1)  # a full disk must not turn a finished job into a lost one
        else:
            return


def daemonize(lock: int) -> int:
    """Continue in a child that belongs to init. The agent waits until the handle that is returned is closed."""
    os.set_inheritable(lock, False)
    os.chdir("/")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    waiting, ready = os.pipe()
    if os.fork():
        os.close(ready)
        os.read(waiting, 1)
        os._exit(0)
    os.close(waiting)
    return ready
