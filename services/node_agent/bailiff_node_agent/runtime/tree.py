"""Which processes of this machine belong to a task, also where nobody looks after it any more."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from bailiff_node_agent.runtime.contract import TaskKey
from bailiff_node_agent.runtime.folder import is_supervised, read_json
from bailiff_node_agent.runtime.supervisor.host import boot_id
from bailiff_node_agent.runtime.supervisor.processes import Process, descendants, read_process, scan


def marks_of(key: TaskKey, own_wall: Path) -> dict[str, str]:
    """What each process of the task carries in its environment. The key alone may be in use by another agent here."""
    return {"BAILIFF_TASK": str(key), "BAILIFF_CONTROL_DIR": str(own_wall)}


def tree_of(key: TaskKey, control: Path, own_wall: Path, grouped: Callable[[], Iterable[int]]) -> list[Process]:
    """All living processes of the task. grouped: those of its control group, asked after the others: what is born is in it."""
    if not control.exists():
        return []
    processes = scan()
    running, ended = read_json(control / "running.json"), (control / "exit.json").exists()
    pids = dict.fromkeys(grouped())
    in_group = [process for process in processes if process.pid in pids]
    if running and not ended and is_supervised(control):
        return sorted({*descendants({running["supervisor_pid"]}, processes), *in_group})
    marks = {f"{name}={value}".encode() for name, value in marks_of(key, own_wall).items()}
    this_boot = running is not None and running["boot_id"] == boot_id()
    oldest = running["supervisor_started"] if running and this_boot else 0
    roots = [process for process in processes if process.started >= oldest and marks <= _environment_of(process.pid)] + in_group
    if running and not ended and this_boot:
        # The main process dies with its supervisor. As long as its session lives, nobody else gets its pid.
        pid, started = running["pid"], running["started"]
        if not any(process.pid == pid and process.started != started for process in processes):
            roots += [process for process in processes if process.session == pid and process.started >= started]
    children = descendants({process.pid for process in roots}, processes)
    return sorted({*roots, *children})


def without_folder(tasks: Path, walls: Path, program: str) -> list[Process]:
    """Processes of tasks that were started in this folder and have no control directory there any more."""
    wanted = (f"{tasks}/".encode(), f"{walls}/".encode())
    processes = scan()
    roots, supervisors = set(), set()
    for process in processes:
        marks = [item.partition(b"=")[2] for item in _environment_of(process.pid) if item.startswith(b"BAILIFF_CONTROL_DIR=")]
        command = _command_of(process.pid)
        if program.encode() in command:
            marks = [item for item in command if item.startswith(wanted)][:1]
            supervisors.update([process.pid] if marks else [])
        if any(mark.startswith(wanted) and not Path(os.fsdecode(mark)).exists() for mark in marks):
            roots.add(process.pid)
    children = descendants(roots, processes)
    found = {process for process in processes if process.pid in roots - supervisors} | set(children)
    # A supervisor goes last, since it holds the tree together; without a folder it ends by itself.
    return sorted(found) or sorted(process for process in processes if process.pid in roots)


def lives(process: Process) -> bool:
    now = read_process(process.pid)
    return now is not None and now.started == process.started


def _command_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:  # gone
        return []


def _environment_of(pid: int) -> set[bytes]:
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:  # gone, or somebody else's
        return set()


def resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):  # gone
        return 0
