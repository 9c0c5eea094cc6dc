"""What a task's control directory says of it: the facts of its start and of its end, and whether its supervisor lives."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from bailiff_node_agent.disk.storage import DamagedFile
from bailiff_node_agent.runtime.contract import Exit, Running, TaskKey
from bailiff_node_agent.runtime.supervisor.host import boot_id, boottime_us


class TaskFile:
    """What `task.json` says."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.key = TaskKey(content["job"], content["attempt"], content["task"])
        self.device_ids: tuple[str, ...] = tuple(content["device_ids"])
        self.log = Path(content["log"])
        self.alone: bool = content.get("alone", True)
        self.order: int | None = content.get("order")


def read_task(control: Path) -> TaskFile:
    content = read_json(control / "task.json")
    if content is None:
        raise DamagedFile(str(control / "task.json"), "it is missing")
    return TaskFile(content)


def read_running(control: Path, key: TaskKey) -> Running | None:
    """How it was started; None as long as it has not been."""
    running = read_json(control / "running.json")
    if running is None:
        return None
    task = read_task(control)
    return Running(key, running["pid"], running["started_boottime_us"], task.device_ids, task.order)


def exit_of(task: TaskFile, end: dict[str, Any]) -> Exit:
    same_boot = end["boot_id"] == boot_id()
    return Exit(
        task.key,
        end["code"],
        end["at_boottime_us"] if same_boot else boottime_us(),
        task.device_ids,
        end["leftovers"],
        end["error"],
        end["supervisor_lost"],
        tuple(end.get("lease_stages", ())),  # an agent of an earlier release wrote none
        tuple(end.get("deadline_stages", ())),
        task.order,
    )


def is_supervised(control: Path) -> bool:
    lock = os.open(control / "lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(lock)


def read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise DamagedFile(str(path), "it holds no JSON object")
    return content
