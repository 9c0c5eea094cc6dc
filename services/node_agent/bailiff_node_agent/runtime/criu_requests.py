"""What the agent asks the supervisor of a task that CRIU can save, and the answers: files of the task folder."""

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bailiff_node_agent.disk.storage import write_durably
from bailiff_node_agent.runtime.supervisor.criu import DUMP_LOG, KILLED, RESTORE_LOG
from bailiff_node_agent.runtime.supervisor.host import boot_id

from .gangs import FROZEN, TOLD, stopped_before
from .job_files import reading
from .port import Dumped, Image, Restored
from .supervisor import safe_open
from .task_record import read_json

POLL_S = 0.02
PROBE = f"import sys; sys.path.append({str(Path(__file__).parent)!r}); from supervisor.criu_probe import main; main()"
MAX_LOG_BYTES = 4 << 20
OLDEST = (4, 0)
VERSION = re.compile(r"^Version: (\d{1,4})\.(\d{1,4})(\S{0,40})", re.MULTILINE)
WITHIN_S = 10.0
RESTORED_WITHIN_S, SLOWEST_BYTES_PER_S = 60, 16 << 20
"""How long a restore may take: so long, and as long as its bytes take at this rate."""
ERROR = re.compile(r"Error \([^()\n]*\): (.+)")
HARMLESS = ("rlimit:", "Can't setup RLIMIT", "Dumping FAILED", "Restoring FAILED")
REASONS = (
    (r"TCP connection|[Cc]onnected TCP|In-flight connection", "it has an open TCP connection"),
    (r"external (stream )?(unix )?socket|ext-unix|unix socket|Unix .*peer", "it has a socket to another process"),
    (r"io_uring|send_fds failed \(-22\)", "it uses io_uring"),
    (r"Can't dump file .* of that type|unsupported.*(device|chr)|chrdev|char dev", "it has a device open"),
    (r"SysV|sysvipc|IPC", "it has System V shared memory, semaphores or queues"),
    (r"bad (size|build-?ID|mode)|File .* has bad", "a file that it had open has changed"),
    (r"Can't open file|No such file|ghost", "a file that it had open is not there"),
    (r"Address already in use|Can't bind", "a port that it listens on is taken"),
    (r"Can't get rlimit", "the agent lacks CAP_SYS_RESOURCE, without which only tasks of its own user can be saved"),
    (r"No space left", "the disk is full"),
    (r"terminal|tty|pty", "it has a terminal open"),
)


@dataclass(frozen=True)
class Criu:
    """The program, and its version; why_not: why it cannot be used here."""

    program: str
    version: str = ""
    why_not: str = ""


@cache
def find_criu(setting: str) -> Criu | None:
    """The program that is named so, or has this path; None where there is none, or the setting is empty."""
    program = shutil.which(setting) if setting else None
    if program is None:
        return None
    if os.geteuid() != 0:
        return Criu(program, why_not="the agent is not root")
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=WITHIN_S).stdout
    except (OSError, subprocess.TimeoutExpired) as problem:
        return Criu(program, why_not=f"it cannot be run: {problem}"[:200])
    found = VERSION.search(said)
    if found is None:
        return Criu(program, why_not="it does not say its version")
    version = f"{found[1]}.{found[2]}{found[3]}"
    if (int(found[1]), int(found[2])) < OLDEST:
        return Criu(program, version, f"it is {version}, and {'.'.join(map(str, OLDEST))} is the oldest that works here")
    return Criu(program, version)


async def dumped(task: Path, control: Path, image: Image, asked: dict[str, Any], wake: Callable[[Path], None]) -> Dumped:
    """Ask the supervisor to save its task, and wait for the answer, without end: a deadline is the caller's.

    control: the task's control directory. asked: its `id`, the program `criu`, whether the task `goes_on`, and the `connections`
    that `connections.among` has found.
    """
    request = asked["id"]
    record = read_json(task / "task.json") or {}
    if not record.get("saves"):
        return Dumped(why_not="it was not started so that it can be saved")
    if (read_json(task / "saved.json") or {}).get("id") != request and (read_json(task / "save.json") or {}).get("id") != request:
        await asyncio.to_thread(write_durably, task / "save.json", json.dumps({**asked, **_place(image)}).encode())
    wake(task)
    while (answer := read_json(task / "saved.json") or {}).get("id") != request:
        if _has_ended(task):
            return Dumped(why_not="it has ended")
        await asyncio.sleep(POLL_S)
    if answer["code"] == 0:
        facts = {"main": answer["main"], "log": record["log"], "control": str(control), "stopped": stopped_before(task)}
        facts |= {"frozen": True} if (task / FROZEN).exists() else {}  # it is restored as it was
        saved = answer.get("connections")
        facts |= {"connections": saved, "boot_id": boot_id()} if saved else {}
        return Dumped(answer["us"], facts=facts)
    if answer["code"] > KILLED:
        return Dumped(answer["us"], "the program that saved it was killed", is_whole=False)
    return Dumped(answer["us"], answer["why"] or await reading(reason, image.folder / image.name / DUMP_LOG))


async def restored(task: Path) -> Restored | None:
    """Wait for the end of the restoring."""
    about = (read_json(task / "task.json") or {}).get("restores")
    if about is None:
        return None
    while (answer := read_json(task / "restored.json")) is None:
        if _has_ended(task):
            return None
        await asyncio.sleep(POLL_S)
    why_not = answer["why"] or await reading(reason, task / RESTORE_LOG) if answer["code"] else ""
    told = read_json(task / TOLD)
    waits = bool(about.get("waits")) and not why_not
    return Restored(answer["us"], why_not, about, waits=waits and told is None, anew=waits and bool((told or {}).get("anew")))


def _has_ended(task: Path) -> bool:
    return (task / "exit.json").exists() or not task.exists()


def restore_input(image: Image, criu: str) -> dict[str, Any]:
    """What the supervisor reads."""
    within_s = RESTORED_WITHIN_S + image.about.get("bytes", 0) // SLOWEST_BYTES_PER_S
    return {"criu": criu, "waits": image.about.get("waits", False), "within_s": within_s, **image.facts, **_place(image)}


def reason(log: Path) -> str:
    """Why CRIU could not do it, in words, and what it says itself."""
    try:
        text = safe_open.read(str(log.parent), log.name, MAX_LOG_BYTES).decode("utf-8", "replace")
    except OSError as problem:
        return f"CRIU failed, and its log cannot be read: {problem.strerror}"
    errors = [each for each in ERROR.findall(text) if not any(part in each for part in HARMLESS)]
    if not errors:
        return "the disk is full" if os.statvfs(log.parent).f_bavail == 0 else "CRIU failed without a reason"
    for pattern, words in REASONS:
        if found := next((each for each in errors if re.search(pattern, each)), None):
            return f"{words} (CRIU: {found[:200]})"
    return f"CRIU: {errors[0][:300]}"


def _place(image: Image) -> dict[str, Any]:
    return {"folder": os.fspath(image.folder), "name": image.name, "identity": list(image.identity)}
