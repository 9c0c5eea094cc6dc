"""Identifies processes even if their pid is reused, and records started processes on disk.

A pid is reused once its process has exited; a pid together with its start time and the machine's boot id is not. Every
signal of the devstack goes through here, so that `make down` can stop what an earlier `make up` started. Linux only: it reads
/proc.
"""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bailiff_node_agent.runtime.supervisor.host import boot_id
from bailiff_node_agent.runtime.supervisor.processes import read_process, scan

_RECORD_SUFFIX = ".pid.json"
_POLL_S = 0.02


@dataclass(frozen=True)
class Identity:
    """One process: its pid, start time and boot id."""

    pid: int
    started: int  # in clock ticks since boot, from /proc
    boot: str

    @classmethod
    def of(cls, pid: int) -> "Identity":
        """The process that has this pid now."""
        process = read_process(pid, zombies=True)
        if process is None:
            raise ProcessLookupError(pid)
        return cls(pid, process.started, boot_id())

    @classmethod
    def started_at(cls, pid: int, started: int) -> "Identity":
        """The process that had this pid and start time, since this boot."""
        return cls(pid, started, boot_id())

    def alive(self) -> bool:
        """Whether it is running; a zombie is not."""
        process = read_process(self.pid)
        return process is not None and process.started == self.started and self.boot == boot_id()

    def session(self) -> list["Identity"]:
        """The running processes of its session. Empty once the pid was reused."""
        leader = read_process(self.pid)
        if self.boot != boot_id() or (leader is not None and leader.started != self.started):
            return []
        return [Identity(each.pid, each.started, self.boot) for each in scan() if each.session == self.pid]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has exited."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def end(self, grace_s: float) -> bool:
        """TERM to its whole session, wait, KILL to the rest. Returns False if a process had to be killed."""
        # CONT, because a stopped process handles TERM only once it runs again.
        for member in self.session():
            member.signal(signal.SIGTERM)
            member.signal(signal.SIGCONT)
        if wait_until(lambda: not self.session(), grace_s):
            return True
        for member in self.session():
            member.signal(signal.SIGKILL)
        wait_until(lambda: not self.session(), 5.0)
        return False


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Poll until the condition holds. Returns False on timeout."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def write_record(folder: Path, name: str, identity: Identity) -> None:
    """Record a started process, so that another process can stop it (`stop_recorded`)."""
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / f"{name}{_RECORD_SUFFIX}"
    part = record.with_suffix(".part")
    part.write_text(json.dumps({"pid": identity.pid, "started": identity.started, "boot": identity.boot}))
    part.replace(record)


def read_record(folder: Path, name: str) -> Identity | None:
    """The process recorded under this name, running or not; None without a valid record."""
    try:
        content = json.loads((folder / f"{name}{_RECORD_SUFFIX}").read_text())
        return Identity(pid=int(content["pid"]), started=int(content["started"]), boot=str(content["boot"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def drop_record(folder: Path, name: str) -> None:
    """Remove the record."""
    (folder / f"{name}{_RECORD_SUFFIX}").unlink(missing_ok=True)


def recorded(folder: Path) -> dict[str, Identity]:
    """Processes recorded in this folder that are running."""
    names = sorted(path.name.removesuffix(_RECORD_SUFFIX) for path in folder.glob(f"*{_RECORD_SUFFIX}"))
    found = {name: read_record(folder, name) for name in names}
    return {name: identity for name, identity in found.items() if identity is not None and identity.session()}


def stop_recorded(folder: Path, grace_s: float = 15.0) -> list[str]:
    """Stop all processes recorded in this folder, concurrently; the names of those that were running."""
    running = recorded(folder)
    threads = [threading.Thread(target=identity.end, args=(grace_s,)) for identity in running.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for record in folder.glob(f"*{_RECORD_SUFFIX}"):
        record.unlink(missing_ok=True)
    return list(running)
