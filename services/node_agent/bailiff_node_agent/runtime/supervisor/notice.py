"""The notice that a task is to leave: put where the job looks for it, or taken back."""

import contextlib
import os
from typing import Any

from .host import boottime_us, write_json
from .steps import FIRST_STEPS, STEPS, write_step


def write_notice(control: str, wall: str, about: dict[str, Any], soft_at: int, kill_at: int, *, alone: bool) -> None:
    """`notice.json`, and then the word in shared memory that says that it is there. Times are boot-time µs.

    Written in the control directory, where nobody else writes, and then moved: another user's folder holds what that one likes.
    """
    now = boottime_us()
    notice = {
        "v": 1,
        **about,
        "soft_s": max(0, soft_at - now) // 1_000_000,
        "hard_s": max(0, kill_at - now) // 1_000_000,
        "soft_deadline_boottime_ns": soft_at * 1000,
        "hard_deadline_boottime_ns": kill_at * 1000,
    }
    write_json(f"{control}/notice.json", notice)
    if wall != control:
        with contextlib.suppress(OSError):  # whoever puts something in its place has only TERM and the deadlines
            about_wall = os.stat(wall)
            os.chown(f"{control}/notice.json", about_wall.st_uid, about_wall.st_gid)
            os.rename(f"{control}/notice.json", f"{wall}/notice.json")
    write_step(wall, "deadline", soft_at * 1000)
    if alone:
        write_step(wall, "agreed", 0)
    write_step(wall, "noticed", 1)


def take_back(control: str, wall: str) -> None:
    """No notice is out any more, and no deadline runs."""
    for path in (f"{control}/deadlines.json", f"{control}/notice.json", f"{wall}/notice.json"):
        with contextlib.suppress(OSError):  # not there, or something of the task's in its place
            os.unlink(path)
    for name in ("noticed", "agreed", "proposed", "deadline"):
        write_step(wall, name, FIRST_STEPS[STEPS.index(name)])
