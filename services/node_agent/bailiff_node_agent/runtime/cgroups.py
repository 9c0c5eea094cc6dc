"""A cgroup v2 for each task, where this host permits it: no process can leave one, and one write kills all in it."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from .port import TaskKey

PERIOD_US = 100_000
CONTROLLERS = ("cpu", "memory", "pids")


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
        mount = _mount()
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
        folder = self._folder(key)
        try:
            self.base.mkdir(exist_ok=True)
            _delegate(self.base)
            folder.mkdir(exist_ok=True)
        except OSError:
            return None
        if cpu_milli:
            _write(folder / "cpu.max", f"{max(1000, cpu_milli * PERIOD_US // 1000)} {PERIOD_US}")
        if memory_bytes:
            _write(folder / "memory.max", str(memory_bytes))
            _write(folder / "memory.oom.group", "1")  # a task cannot continue without a process that the OOM killer killed
        return folder

    def pids(self, key: TaskKey) -> tuple[int, ...]:
        """All processes in it and below it."""
        found = set[int]()
        for file in self._folder(key).rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                found.update(int(pid) for pid in file.read_text().split())
        return tuple(sorted(found))

    def kill(self, key: TaskKey) -> None:
        """Kill every process in it, also one that is just being forked."""
        _write(self._folder(key) / "cgroup.kill", "1")

    def memory(self, key: TaskKey) -> int:
        """Host memory charged to it, bytes; 0 where the host does not count it."""
        try:
            return int((self._folder(key) / "memory.current").read_text())
        except (OSError, ValueError):
            return 0

    def remove(self, key: TaskKey) -> None:
        """Remove it, and what the task made below it. One that is not empty stays."""
        folder = self._folder(key)
        for inner in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
            with contextlib.suppress(OSError):
                inner.rmdir()
        for outer in (folder, self.base):
            with contextlib.suppress(OSError):
                outer.rmdir()

    def _folder(self, key: TaskKey) -> Path:
        return self.base / str(key)


def _mount() -> Path | None:
    """Where cgroup v2 is mounted."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((Path(line.split()[4]) for line in lines if line.partition(" - ")[2].startswith("cgroup2 ")), None)


def _own() -> str:
    lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("0::").lstrip("/") for line in lines if line.startswith("0::")), "")


def _delegate(folder: Path) -> None:
    for controller in CONTROLLERS:
        _write(folder / "cgroup.subtree_control", f"+{controller}")


def _write(file: Path, text: str) -> None:
    with contextlib.suppress(OSError):
        file.write_text(text)
