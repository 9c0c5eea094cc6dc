"""A pod's processes and memory, from the cgroups that the kubelet made for it. Version 1 and 2; cgroupfs and systemd drivers."""

import os
from collections.abc import Iterator
from pathlib import Path

from bailiff_node_agent.runtime.supervisor.processes import read_process

MOUNT = Path("/sys/fs/cgroup")
DEPTH = 5
"""A pod's cgroup is at most this deep: a root of the kubelet's, `kubepods`, a class of service, the pod."""


class PodProcesses:
    """Finds the cgroup of a pod once; it stays in its place."""

    def __init__(self, mount: Path = MOUNT) -> None:
        self._root = mount if (mount / "cgroup.controllers").exists() else mount / "memory"
        self._found: dict[str, Path] = {}

    def pids(self, uid: str) -> tuple[int, ...]:
        """All living processes of its containers, ascending. The pod's own `pause` process is none of them."""
        group = self._group(uid)
        if group is None:
            return ()
        pids = {pid for folder in _below(group) for pid in _procs(folder)}
        processes = [process for pid in pids if (process := read_process(pid)) is not None]
        return tuple(sorted(process.pid for process in processes if not _is_pause(process.pid)))

    def memory(self, uid: str) -> int:
        """Bytes in use."""
        group = self._group(uid)
        for name in ("memory.current", "memory.usage_in_bytes"):
            if group is not None and (group / name).exists():
                try:
                    return int((group / name).read_text())
                except (OSError, ValueError):
                    return 0
        return 0

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._found.pop(uid, None)

    def _group(self, uid: str) -> Path | None:
        known = self._found.get(uid)
        if known is not None and known.exists():
            return known
        names = (f"pod{uid}", f"-pod{uid.replace('-', '_')}.slice")
        found = next((path for path in _folders(self._root, DEPTH) if path.name.endswith(names)), None)
        if found is not None:
            self._found[uid] = found
        return found


def _folders(root: Path, depth: int) -> Iterator[Path]:
    """Folders below the root, at most so deep; below the first level only those of kubelets."""
    try:
        with os.scandir(root) as entries:
            folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for folder in folders:
        yield folder
        if depth > 1 and (depth == DEPTH or "kubepods" in str(folder)):
            yield from _folders(folder, depth - 1)


def _below(group: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(group):
        yield Path(folder)


def _procs(folder: Path) -> list[int]:
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except (OSError, ValueError):
        return []


def _is_pause(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "pause"
    except OSError:
        return False
