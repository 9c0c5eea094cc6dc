"""The files of a task folder: the record of its start and of its exit, and whether its supervisor is alive."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from bailiff_node_agent.disk.storage import DamagedFile
from bailiff_node_agent.runtime.supervisor import safe_open
from bailiff_node_agent.runtime.supervisor.host import boot_id, boottime_us

from .port import Exit, Running, TaskKey

MAX_JSON_BYTES = 16 << 20


class TaskRecord:
    """The content of `task.json`."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.key = TaskKey(content["job"], content["attempt"], content["task"])
        self.device_ids: tuple[str, ...] = tuple(content["device_ids"])
        self.log = Path(content["log"])
        self.is_only_task: bool = content["is_only_task"]
        self.ordered_by: int | None = content["ordered_by"]


def read_task_record(folder: Path) -> TaskRecord:
    """The task of this folder. Raises `DamagedFile`."""
    content = read_json(folder / "task.json")
    if content is None:
        raise DamagedFile(str(folder / "task.json"), "it is missing")
    return TaskRecord(content)


def read_running(folder: Path, key: TaskKey) -> Running | None:
    """The task's start; None until it has been started."""
    running = read_json(folder / "running.json")
    if running is None:
        return None
    task = read_task_record(folder)
    begun = running.get("begun", True)
    return Running(key, str(running["pid"]), running["started_boottime_us"], task.device_ids, task.ordered_by, begun=begun)


def exit_of(task: TaskRecord, end: dict[str, Any]) -> Exit:
    """The task's exit. end: the content of `exit.json`."""
    same_boot = end["boot_id"] == boot_id()
    return Exit(
        task.key,
        end["code"],
        end["at_boottime_us"] if same_boot else boottime_us(),
        task.device_ids,
        end["leftovers"],
        end["error"],
        end["supervisor_lost"],
        tuple(end.get("lease_stages", ())),
        tuple(end.get("deadline_stages", ())),
        task.ordered_by,
        end.get("begun", True),
    )


def is_supervised(folder: Path) -> bool:
    """Whether a supervisor holds the task's lock."""
    lock = os.open(folder / "lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(lock)


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in the file; None where there is no file. Raises `DamagedFile`."""
    try:
        content = json.loads(safe_open.read(str(path.parent), path.name, MAX_JSON_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as problem:
        raise DamagedFile(str(path), str(problem)) from None
    if not isinstance(content, dict):
        raise DamagedFile(str(path), "it holds no JSON object")
    return content
