"""Disk space of a task on its node: made before it starts, removed before its release is reported."""

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from .runtime import TaskKey, User
from .runtime.job_files import UNFINISHED, Unfinished, Usage, disk_usage, reading
from .users import allow_traversal


@dataclass
class Scratch:
    """One folder for each attempt of a task, below `<node's folder>/scratch`."""

    folder: Path
    unfinished: Unfinished = field(init=False)

    def __post_init__(self) -> None:
        self.unfinished = Unfinished(self.folder / UNFINISHED)

    async def make(self, key: TaskKey, user: User | None = None) -> Path:
        """A new, empty folder, closed to all but its owner: this user, or the agent's."""
        own = self._of(key)
        await self.unfinished.discard(own)
        own.mkdir(mode=0o700, parents=True)
        if user is not None:
            allow_traversal(own.parent)
            os.chown(own, user.uid, user.gid)
        return own

    async def used(self, key: TaskKey) -> Usage:
        """Its disk usage."""
        return await reading(disk_usage, self._of(key))

    async def remove(self, key: TaskKey) -> None:
        await self.unfinished.discard(self._of(key))

    def abandoned(self, keys: Collection[TaskKey]) -> list[Path]:
        """Those of other tasks, which an earlier agent could not rename away: to be removed."""
        names = {str(key) for key in keys}
        try:
            found = sorted((self.folder / "scratch").iterdir())
        except OSError:
            return []
        return [held for each in found if each.name not in names and (held := self.unfinished.take(each)) is not None]

    def _of(self, key: TaskKey) -> Path:
        return self.folder / "scratch" / str(key)
