"""Processes of this machine, identified by pid and start time, so that a signal never reaches a process with a reused pid."""

import os
import signal
from typing import NamedTuple


class Process(NamedTuple):
    """One living process. Its pid may be reused; pid and start time together identify it."""

    pid: int
    started: int  # clock ticks since boot
    parent: int
    group: int
    session: int


def read_process(pid: int, zombies: bool = False) -> Process | None:
    """None if it has exited. zombies: also one that its parent has not reaped yet."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The program's name is in parentheses and may contain spaces and parentheses.
    state, parent, group, session, *rest = line[line.rindex(b")") + 2 :].split()
    threads, started = int(rest[13]), int(rest[15])
    # A main thread that has exited looks like a zombie while other threads still run.
    if state in (b"Z", b"X") and threads <= 1 and not zombies:
        return None
    return Process(pid, started, int(parent), int(group), int(session))


def scan() -> list[Process]:
    found = (read_process(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return [process for process in found if process]


def descendants(ancestors: set[int], processes: list[Process]) -> list[Process]:
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    seen, todo = set(ancestors), list(ancestors)
    while todo:
        for child in children.get(todo.pop(), []):
            if child.pid not in seen:
                seen.add(child.pid)
                found.append(child)
                todo.append(child.pid)
    return sorted(found)


def send(process: Process, signum: int) -> None:
    """Signal this process, never another one that has reused its pid."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        now = read_process(process.pid)
        if now and now.started == process.started:
            signal.pidfd_send_signal(handle, signum)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)
