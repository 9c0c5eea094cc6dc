"""Disk space of a task on its node: made before it starts, removed before its release is reported."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from .runtime import TaskKey, User
from .users import allow_traversal


@dataclass(frozen=True)
class Scratch:
    """One folder for each attempt of a task, below `<node's folder>/scratch`."""

    folder: Path

    def make(self, key: TaskKey, user: User | None = None) -> Path:
        """A new, empty folder, closed to all but its owner: this user, or the agent's."""
        own = self._of(key)
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(mode=0o700, parents=True)
        if user is not None:
            allow_traversal(own.parent)
            os.chown(own, user.uid, user.gid)
        return own

    def used(self, key: TaskKey) -> int:
        """Its disk usage, bytes."""
        total = 0
        for folder, _, files in os.walk(self._of(key)):
            for name in files:
                try:
                    total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118 - a task may have many
                except OSError:  # removed meanwhile
                    continue
        return total

    def remove(self, key: TaskKey) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self._of(key), ignore_errors=True)

    def _of(self, key: TaskKey) -> Path:
        return self.folder / "scratch" / str(key)
