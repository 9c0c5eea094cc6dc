"""A cgroup v2 for each task, where this host permits it: one write kills all in it.

No process can leave one that its user may not write to: tasks of other users, and those of the agent's user that are isolated
(`supervisor/isolation`). Whatever a task has made below its cgroup is walked without recursion, paths or links.
"""

import contextlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from .port import TaskKey

PERIOD_US = 100_000
CONTROLLERS = ("cpu", "memory", "pids")
MAX_DEPTH, MAX_DESCENDANTS = 16, 1000
MAX_PROCESSES = 32_768
"""Of a task, threads included; a quarter of the host's pids at most, and three quarters for all tasks together."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Cgroups:
    """One cgroup for each task below `base`. Limits apply only where the host delegates its controllers."""

    base: Path

    @classmethod
    def on_this_host(cls, name: str, root: Path | None = None) -> "Cgroups | None":
        """Cgroups below `root`, or else below this process's own cgroup or the host's root. None where none can be made.

        name: unique to this agent on the host. A cgroup that delegates controllers can hold no process itself, so
        below this process's own cgroup they are often missing.
        """
        mount = next(iter(mounts()), None)
        if root is None and mount is None:
            return None
        for parent in [root] if root is not None else [mount / _own(), mount] if mount is not None else []:
            base = parent / f"bailiff-{name}"
            try:
                base.mkdir(exist_ok=True)
                is_v2 = (base / "cgroup.kill").exists()  # cgroup v2 since Linux 5.14
                with contextlib.suppress(OSError):  # not empty: an earlier agent has tasks there
                    base.rmdir()
            except OSError:
                continue
            if is_v2:
                _delegate(parent)
                return cls(base)
        return None

    def make(self, key: TaskKey, cpu_milli: int, memory_bytes: int) -> Path | None:
        """Make the task's cgroup with its limits (0: none). None where it could not be made."""
        folder = self.folder(key)
        try:
            self.base.mkdir(exist_ok=True)
            _delegate(self.base)
            folder.mkdir(exist_ok=True)
        except OSError:
            return None
        pids = _pids_of_host()
        _write(self.base / "pids.max", str(pids * 3 // 4))
        _write(folder / "pids.max", str(min(MAX_PROCESSES, pids // 4)))
        _write(folder / "cgroup.max.depth", str(MAX_DEPTH))
        _write(folder / "cgroup.max.descendants", str(MAX_DESCENDANTS))
        if cpu_milli:
            _write(folder / "cpu.max", f"{max(1000, cpu_milli * PERIOD_US // 1000)} {PERIOD_US}")
        if memory_bytes:
            _write(folder / "memory.max", str(memory_bytes))
            _write(folder / "memory.oom.group", "1")  # a task cannot continue without a process that the OOM killer killed
        return folder

    def pids(self, key: TaskKey | str) -> tuple[int, ...]:
        """All processes in it and below it."""
        return pids_below(self.folder(key))

    def kill(self, key: TaskKey | str) -> None:
        """Kill every process in it, also one that is just being forked."""
        _write(self.folder(key) / "cgroup.kill", "1")

    def memory(self, key: TaskKey) -> int:
        """Host memory charged to it, bytes; 0 where the host does not count it."""
        try:
            return int((self.folder(key) / "memory.current").read_text())
        except (OSError, ValueError):
            return 0

    def remove(self, key: TaskKey | str) -> None:
        """Remove it, and what the task made below it. One that is not empty stays."""
        folder = self.folder(key)
        for above, name in groups_below(folder):
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=above)
        for outer in (folder, self.base):
            with contextlib.suppress(OSError):
                outer.rmdir()

    def others(self, names: Collection[str]) -> list[str]:
        """Cgroups of none of these tasks: an earlier agent has removed the folders of theirs and not their cgroups."""
        try:
            return [name for name in os.listdir(self.base) if name not in names and (self.base / name).is_dir()]  # noqa: PTH208
        except OSError:
            return []

    def folder(self, key: TaskKey | str) -> Path:
        """Where it is, if it was made."""
        return self.base / str(key)


def groups_below(folder: Path) -> Iterator[tuple[int, str]]:
    """Each cgroup below this one, the innermost first: the open folder above it, and its name there; at the end `.`, itself.

    However deep they are nested, one folder is open at a time. No cgroup is ever moved, so `..` leads back.
    """
    try:
        here = os.open(folder, FOLDER)
    except OSError:
        return
    try:
        unvisited = [(".", _groups_in(here))]
        while unvisited:
            name, inner = unvisited[-1]
            if not inner:
                unvisited.pop()
                if unvisited:
                    here = _move(here, "..")
                yield here, name
                continue
            deeper = inner.pop()
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                here = _move(here, deeper)
                unvisited.append((deeper, _groups_in(here)))
    finally:
        os.close(here)


def pids_below(folder: Path) -> tuple[int, ...]:
    """All processes in this cgroup and below it, ascending."""
    found = set[int]()
    for above, name in groups_below(folder):
        with contextlib.suppress(OSError):  # removed meanwhile, or its processes are listed above, as those of a threaded one
            handle = os.open(f"{name}/cgroup.procs", os.O_RDONLY | os.O_CLOEXEC, dir_fd=above)
            with os.fdopen(handle) as file:
                found.update(map(int, file))
    return tuple(sorted(found))


def _groups_in(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _move(here: int, name: str) -> int:
    there = os.open(name, FOLDER, dir_fd=here)
    os.close(here)
    return there


def mounts() -> list[Path]:
    """Where cgroup v2 is mounted."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    return [Path(line.split()[4]) for line in lines if line.partition(" - ")[2].startswith("cgroup2 ")]


def _pids_of_host() -> int:
    try:
        return int(Path("/proc/sys/kernel/pid_max").read_text())
    except (OSError, ValueError):
        return 32_768


def _own() -> str:
    lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("0::").lstrip("/") for line in lines if line.startswith("0::")), "")


def _delegate(folder: Path) -> None:
    for controller in CONTROLLERS:
        _write(folder / "cgroup.subtree_control", f"+{controller}")


def _write(file: Path, text: str) -> None:
    with contextlib.suppress(OSError):
        file.write_text(text)
