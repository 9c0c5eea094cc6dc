"""Which processes of this machine belong to a task, also after its supervisor was lost."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from bailiff_node_agent.runtime.supervisor.host import boot_id
from bailiff_node_agent.runtime.supervisor.processes import Process, descendants, read_process, scan

from .port import TaskKey
from .task_record import is_supervised, read_json

MAX_ARGUMENTS = 8 << 20
"""More than Linux gives to the arguments and environment of a new process."""


def task_environment(key: TaskKey, control_dir: Path) -> dict[str, str]:
    """Variables that identify the task's processes. The key alone is not enough: another agent here may use the same one."""
    return {"BAILIFF_TASK": str(key), "BAILIFF_CONTROL_DIR": str(control_dir)}


def task_processes(key: TaskKey, task_dir: Path, control_dir: Path, in_cgroup: Callable[[], Iterable[int]]) -> list[Process]:
    """All living processes of the task. in_cgroup: called after the scan, so that forks during the scan are included."""
    if not task_dir.exists():
        return []
    processes = scan()
    running, exited = read_json(task_dir / "running.json"), (task_dir / "exit.json").exists()
    pids = dict.fromkeys(in_cgroup())
    in_group = [process for process in processes if process.pid in pids]
    if running and not exited and is_supervised(task_dir):
        return sorted({*descendants({running["supervisor_pid"]}, processes), *in_group})
    marks = {f"{name}={value}".encode() for name, value in task_environment(key, control_dir).items()}
    elsewhere = _supervised(task_dir.parent, processes, but=task_dir)  # it may claim to be anything: it is another task's
    this_boot = running is not None and running["boot_id"] == boot_id()
    oldest = running["supervisor_started"] if running and this_boot else 0
    roots = [
        process
        for process in processes
        if process.started >= oldest and process.pid not in elsewhere and marks <= _environment_of(process.pid)
    ] + in_group
    if running and not exited and this_boot:
        # The main process is killed with its supervisor. While its session has processes, its pid is not reused.
        pid, started = running["pid"], running["started"]
        if not any(process.pid == pid and process.started != started for process in processes):
            roots += [process for process in processes if process.session == pid and process.started >= started]
    children = descendants({process.pid for process in roots}, processes)
    return sorted({*roots, *children})


def stray_processes(tasks: Path, control_dirs: Path, program: str) -> list[Process]:
    """Processes of tasks that were started below these folders and have no folder there any more.

    program: the last argument of Python that identifies a supervisor.
    """
    prefixes = (f"{tasks}/".encode(), f"{control_dirs}/".encode())
    processes = scan()
    roots, supervisors = set(), set()
    elsewhere = _supervised(tasks, processes)
    for process in processes:
        if process.pid in elsewhere:
            continue
        marks = [item.partition(b"=")[2] for item in _environment_of(process.pid) if item.startswith(b"BAILIFF_CONTROL_DIR=")]
        command = _command_of(process.pid)
        if program.encode() in command:
            marks = [item for item in command if item.startswith(prefixes)][:1]
            supervisors.update([process.pid] if marks else [])
        if any(mark.startswith(prefixes) and not Path(os.fsdecode(mark)).exists() for mark in marks):
            roots.add(process.pid)
    children = descendants(roots, processes)
    found = {process for process in processes if process.pid in roots - supervisors} | set(children)
    # Supervisors are killed last, because their tasks are found as their descendants; without a folder they exit by themselves.
    return sorted(found) or sorted(process for process in processes if process.pid in roots)


def _supervised(tasks: Path, processes: list[Process], but: Path | None = None) -> set[int]:
    """Pids of the processes of tasks that have a supervisor, and of these supervisors. but: the folder of a task left out."""
    supervisors = set[int]()
    for folder in tasks.iterdir():
        with suppress(FileNotFoundError):  # removed meanwhile
            if folder != but and (running := read_json(folder / "running.json")) and is_supervised(folder):
                supervisors.add(running["supervisor_pid"])
    return supervisors | {process.pid for process in descendants(supervisors, processes)}


def is_alive(process: Process) -> bool:
    """Whether it still runs: the pid with the same start time."""
    now = read_process(process.pid)
    return now is not None and now.started == process.started


def _command_of(pid: int) -> list[bytes]:
    return _proc(pid, "cmdline").split(b"\0")


def _environment_of(pid: int) -> set[bytes]:
    return set(_proc(pid, "environ").split(b"\0"))


def _proc(pid: int, name: str) -> bytes:
    """What a process has in its memory; empty where it has exited, or is of another user. It may claim that it is gigabytes."""
    try:
        with Path(f"/proc/{pid}/{name}").open("rb") as file:
            return file.read(MAX_ARGUMENTS)
    except OSError:
        return b""


def resident_bytes(pid: int) -> int:
    """Resident memory; 0 once the process has exited."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0
