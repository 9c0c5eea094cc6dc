"""A pod's processes and memory, from the cgroups that the kubelet made for it. Version 1 and 2; cgroupfs and systemd drivers."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from bailiff_node_agent.runtime.cgroups import pids_below
from bailiff_node_agent.runtime.supervisor.processes import Process, read_process

MOUNT = Path("/sys/fs/cgroup")
DEPTH = 5
"""A pod's cgroup is at most this deep: a root of the kubelet's, `kubepods`, a class of service, the pod."""


IS_POD = re.compile(r"(^|-)pod[0-9a-f]{8}[-_]")
"""The name of a pod's cgroup. What is below it the pod may have made itself, with the name of another's."""


class PodProcesses:
    """Finds the cgroup of a pod once; it stays in its place."""

    def __init__(self, mount: Path = MOUNT) -> None:
        self._root = mount if (mount / "cgroup.controllers").exists() else mount / "memory"
        self._found: dict[str, Path] = {}
        self._pauses: dict[str, Process] = {}

    def pids(self, uid: str) -> tuple[int, ...]:
        """All living processes of its containers, ascending. The pod's own `pause` process is none of them."""
        group = self._group(uid)
        if group is None:
            return ()
        processes = [process for pid in pids_below(group) if (process := read_process(pid)) is not None]
        pause = self._pause_of(uid, processes)
        return tuple(process.pid for process in processes if process != pause)

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
        self._pauses.pop(uid, None)

    def _pause_of(self, uid: str, processes: Sequence[Process]) -> Process | None:
        """The pod's own process, which is its first. A job can give its processes the same name, but starts none before it."""
        if uid not in self._pauses and processes:
            first = min(processes, key=lambda process: process.started)
            if _is_pause(first.pid):
                self._pauses[uid] = first
        return self._pauses.get(uid)

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
    """Folders below the root, at most so deep; below the first level only those of kubelets, and none below a pod's."""
    try:
        with os.scandir(root) as entries:
            folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for folder in folders:
        yield folder
        if depth > 1 and (depth == DEPTH or "kubepods" in str(folder)) and not IS_POD.search(folder.name):
            yield from _folders(folder, depth - 1)


def _is_pause(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_bytes().strip() == b"pause"
    except OSError:
        return False
