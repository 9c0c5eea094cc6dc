"""The supervisor of a task that is a process."""

import ctypes
import json
import os
import signal
import sys
from typing import Any

from .ear import Wall
from .host import boottime_us
from .job import end_leftovers, start_job, wait_for_main
from .lease import LEASE_OVER, Lease
from .life import stand_alone, tell_end, tell_running
from .watch import Watch

PR_SET_CHILD_SUBREAPER = 36


def supervise(control: str, launch: dict[str, Any], lease: Lease, ready: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot become the reaper of the task's processes")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wall = Wall(control, launch.get("wall", control), launch.get("user"))
    watch = Watch(wall, lease, launch["alone"])
    launch["env"]["BAILIFF_SOCKET"] = watch.ear.path()
    started = boottime_us()
    pid, error = start_job(launch, lease)
    lease.killed_at_start = error == LEASE_OVER
    tell_running(control, pid, started)
    os.close(ready)
    code = wait_for_main(pid, watch)
    leftovers = end_leftovers(control, pid, watch)
    tell_end(control, watch, code, leftovers, error)


def main() -> None:
    control, lock, lease = sys.argv[1], int(sys.argv[2]), Lease(sys.argv[3], sys.argv[1])
    launch = json.load(sys.stdin)
    supervise(control, launch, lease, stand_alone(lock))
