"""The eviction notice in the control directory: published, or withdrawn."""

import contextlib
import os
from typing import Any

from .host import boottime_us, write_json
from .steps import INITIAL_STEPS, STEP_WORDS, write_step


def write_notice(task_dir: str, folder: str, payload: dict[str, Any], soft_at: int, kill_at: int, *, is_only_task: bool) -> None:
    """Write `notice.json` to the control directory `folder`, then set the notice in `steps`. Times are boot-time µs.

    The file is written in the task folder, where no other process writes, and then moved: the user's folder may contain anything.
    """
    now = boottime_us()
    notice = {
        "v": 1,
        **payload,
        "soft_s": max(0, soft_at - now) // 1_000_000,
        "hard_s": max(0, kill_at - now) // 1_000_000,
        "soft_deadline_boottime_ns": soft_at * 1000,
        "hard_deadline_boottime_ns": kill_at * 1000,
    }
    write_json(f"{task_dir}/notice.json", notice)
    if folder != task_dir:
        with contextlib.suppress(OSError):  # if the user blocks the path, the task gets TERM at the deadline
            owner = os.stat(folder)
            os.chown(f"{task_dir}/notice.json", owner.st_uid, owner.st_gid)
            os.rename(f"{task_dir}/notice.json", f"{folder}/notice.json")
    write_step(folder, "deadline", soft_at * 1000)
    if is_only_task:
        write_step(folder, "agreed", 0)
    write_step(folder, "noticed", 1)


def withdraw_notice(task_dir: str, folder: str) -> None:
    """Remove notice and deadlines."""
    for path in (f"{task_dir}/deadlines.json", f"{task_dir}/notice.json", f"{folder}/notice.json"):
        with contextlib.suppress(OSError):  # not there, or replaced by the task's user
            os.unlink(path)
    for name in ("noticed", "agreed", "proposed", "deadline"):
        write_step(folder, name, INITIAL_STEPS[STEP_WORDS.index(name)])
