"""What every supervisor does, whatever its task is: it goes on alone, and writes down who it is and how it ended."""

import os
import time

from .host import boot_id, boottime_us, write_json
from .processes import read_process
from .watch import Watch


def tell_running(control: str, pid: int, started_us: int) -> None:
    """Write down who stands for the task, and who looks after it."""
    me, main = read_process(os.getpid()), read_process(pid)
    running = {
        "pid": pid,
        "started": main.started if main else 0,
        "supervisor_pid": os.getpid(),
        "supervisor_started": me.started if me else 0,
        "started_boottime_us": started_us,
        "boot_id": boot_id(),
    }
    write_json(f"{control}/running.json", running)


def tell_end(control: str, watch: Watch, code: int, leftovers: int, error: str | None) -> None:
    """Write down how it ended, once nothing of it is left."""
    watch.ear.hear_out()
    end = {
        "code": code,
        "at_boottime_us": boottime_us(),
        "boot_id": boot_id(),
        "leftovers": leftovers,
        "error": error,
        "supervisor_lost": False,
        "lease_stages": watch.lease.stages,
        "deadline_stages": watch.deadlines.stages,
    }
    while os.path.isdir(control):
        try:
            write_json(f"{control}/exit.json", end)
        except OSError:
            time.sleep(1)  # a full disk must not turn a finished job into a lost one
        else:
            return


def stand_alone(lock: int) -> int:
    """Go on in a process that belongs to init; the agent waits until the handle that is returned is closed."""
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
