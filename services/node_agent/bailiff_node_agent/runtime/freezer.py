"""Stops all processes of a task at once, without their notice, by the freezer of its cgroup: of cgroup v2, or else of v1.

A stopped process keeps its memory, and uses no CPU. In v2 it can be killed; in v1 it ends when it is thawed.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .cgroups import Cgroups
from .port import TaskKey

POLL_S = 0.005
WITHIN_S = 10.0
Pids = Callable[[], Sequence[int]]


class Freezer(Protocol):
    """Blocks until it is done. Raises `OSError`."""

    def freeze(self, key: TaskKey, pids: Pids) -> None:
        """Stop all of the task. pids: lists its processes."""
        ...

    def thaw(self, key: TaskKey) -> None:
        """Let it go on; nothing where it was not stopped."""
        ...

    def remove(self, key: TaskKey) -> None:
        """It has ended."""
        ...


@dataclass(frozen=True)
class GroupFreezer:
    """Of cgroup v2, where each task has a cgroup of its own."""

    cgroups: Cgroups

    def freeze(self, key: TaskKey, pids: Pids) -> None:  # noqa: ARG002 - they are in it
        folder = self.cgroups.folder(key)
        (folder / "cgroup.freeze").write_text("1")
        _wait(lambda: "frozen 1" in (folder / "cgroup.events").read_text())

    def thaw(self, key: TaskKey) -> None:
        with suppress(FileNotFoundError):
            (self.cgroups.folder(key) / "cgroup.freeze").write_text("0")

    def remove(self, key: TaskKey) -> None:
        """With the cgroup."""


@dataclass(frozen=True)
class OldFreezer:
    """The freezer of cgroup v1. base: a cgroup of this node's own there. home: where tasks are before and after."""

    base: Path
    home: Path

    @classmethod
    def on_this_host(cls, name: str) -> "OldFreezer | None":
        """name: unique to this agent on the host. None where there is none, or it cannot be used."""
        for mount in _mounts():
            base = mount / f"bailiff-{name}"
            with suppress(OSError):
                base.mkdir(exist_ok=True)
                if (base / "freezer.state").exists():
                    return cls(base, mount / _own())
                base.rmdir()
        return None

    def freeze(self, key: TaskKey, pids: Pids) -> None:
        folder = self.base / str(key)
        folder.mkdir(exist_ok=True)
        members, until = folder / "cgroup.procs", time.monotonic() + WITHIN_S
        while outside := set(pids()) - set(map(int, members.read_text().split())):  # again: one that was outside may have forked
            if time.monotonic() > until:
                raise TimeoutError(0, f"its processes start others faster than they are stopped, for {WITHIN_S:.0f} s")
            for pid in sorted(outside):
                with suppress(ProcessLookupError):
                    members.write_text(str(pid))
        (folder / "freezer.state").write_text("FROZEN")
        _wait(lambda: (folder / "freezer.state").read_text().strip() == "FROZEN")

    def thaw(self, key: TaskKey) -> None:
        """And put it back: CRIU restores nothing that was in another cgroup than itself."""
        folder = self.base / str(key)
        with suppress(FileNotFoundError):
            (folder / "freezer.state").write_text("THAWED")
            until = time.monotonic() + WITHIN_S
            while (pids := (folder / "cgroup.procs").read_text().split()) and time.monotonic() < until:
                for pid in pids:
                    with suppress(OSError):  # it has ended, or ends
                        (self.home / "cgroup.procs").write_text(pid)
                time.sleep(0)

    def remove(self, key: TaskKey) -> None:
        for folder in (self.base / str(key), self.base):
            with suppress(OSError):
                folder.rmdir()


def _wait(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + WITHIN_S
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(0, f"its processes do not stop within {WITHIN_S:.0f} s")
        time.sleep(POLL_S)


def _own() -> str:
    """The cgroup of the freezer that this process is in."""
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if "freezer" in controllers.split(","):
            return path.lstrip("/")
    return ""


def _mounts() -> list[Path]:
    """Where the freezer of cgroup v1 is mounted."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        before, _, after = line.partition(" - ")
        kind, _, options = after.partition(" ")
        if kind == "cgroup" and "freezer" in options.split(" ")[-1].split(","):
            found.append(Path(before.split()[4]))
    return [each for each in found if os.access(each, os.W_OK)]
