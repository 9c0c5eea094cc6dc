"""Processes and supervisors of jobs on this machine, found by their folder."""

import contextlib
import os
import signal
import time
from pathlib import Path

from bailiff_node_agent.runtime.process import cgroups_of
from bailiff_node_agent.runtime.supervisor.init import inner_pid

PATIENCE_S = 60.0


def end_jobs(folder: Path) -> None:
    """Kill every process of a job, and every supervisor, that belongs below this folder, until none is found."""
    deadline = time.monotonic() + PATIENCE_S
    while found := processes_of(folder):
        if time.monotonic() > deadline:
            raise AssertionError(f"jobs of {folder} do not exit: {found}")
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)  # the kernel ends them meanwhile


def cgroups_left(folder: Path) -> list[Path]:
    """Cgroups of the nodes with a state folder below this one."""
    nodes = map(cgroups_of, folder.glob("node-agent/*/*"))
    return [groups.base for groups in nodes if groups is not None and groups.base.exists()]


def processes_of(folder: Path) -> list[int]:
    """Living job processes and supervisors whose control directory lies below this folder."""
    expected = f"{folder}/".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                environment = (entry / "environ").read_bytes().split(b"\0")
                control = b"".join(item for item in environment if item.startswith(b"BAILIFF_CONTROL_DIR="))
                command = (entry / "cmdline").read_bytes() if is_supervisor(int(entry.name)) else b""
                zombie = b") Z " in (entry / "stat").read_bytes()
                if not zombie and expected in control + b"\0" + command + b"/":
                    found.append(int(entry.name))
    return found


def process_of(folder: Path, task: str, inner: int) -> int:
    """The pid of the task's process that has this one for itself: a root task is in a PID namespace of its own."""
    mark = f"BAILIFF_TASK={task}".encode()
    for pid in processes_of(folder):
        with contextlib.suppress(OSError):
            if inner_pid(pid) == inner and mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return pid
    raise ProcessLookupError(f"{task} has no process {inner}")


def is_supervisor(pid: int) -> bool:
    """Whether this process is a task's supervisor; not the init of its PID namespace, which is forked from it."""
    if inner_pid(pid) != pid:
        return False
    with contextlib.suppress(OSError):
        command = (Path("/proc") / str(pid) / "cmdline").read_bytes()
        return b"from supervisor.main import main" in command or b"bailiff_node_agent.runtime.container" in command
    return False
