"""The folders of a node's tasks: made as a whole or not at all, and removed so that no half of one is ever found.

One folder `<state>/tasks/<key>` per task, the task folder, holds what agent and supervisor keep, and the log unless the launch
named another folder for it. The job sees its control directory: steps, notice and socket. It is the task folder, or, for
a task that runs as another user or in a container, `<state>/control/<key>`, which is that user's.
"""

import fcntl
import json
import os
import secrets
from dataclasses import asdict
from pathlib import Path

from bailiff_node_agent.disk.storage import sync_folder, write_durably

from . import control_dir
from .job_files import UNFINISHED, Unfinished, reading, remove_tree
from .port import Launch, TaskKey, UnknownTask, User


class TaskFolders:
    """The task folders and control directories below `state`."""

    def __init__(self, state: Path) -> None:
        self._tasks, self._controls = state / "tasks", state / "control"
        self.unfinished = Unfinished(state / UNFINISHED)
        self._tasks.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.unfinished.folder.mkdir(mode=0o700, exist_ok=True)

    @property
    def parents(self) -> tuple[Path, Path]:
        """The folder of all task folders, and that of all separate control directories."""
        return self._tasks, self._controls

    def tasks(self) -> list[Path]:
        """Every task folder."""
        return sorted(self._tasks.iterdir())

    def task(self, key: TaskKey) -> Path:
        """The task folder, whether it exists or not."""
        return self._tasks / str(key)

    def known(self, key: TaskKey) -> Path:
        """The task folder. Raises `UnknownTask`."""
        task = self.task(key)
        if not task.exists():
            raise UnknownTask(f"there is no task {key} here")
        return task

    def control(self, key: TaskKey) -> Path:
        """The control directory that the job sees: `steps`, `notice.json`, `socket`."""
        own = self._controls / str(key)
        return own if own.exists() else self.task(key)

    def control_of(self, key: TaskKey, *, apart: bool) -> Path:
        """The control directory of a task to be started: apart from the task folder, or the same."""
        return self._controls / str(key) if apart else self.task(key)

    def make(self, launch: Launch, control: Path, log: Path) -> int | None:
        """Makes the folders of a new task. Returns its lock, held, for the supervisor to inherit; None if the task exists."""
        task = self.task(launch.key)
        new = self.unfinished.folder / f"{launch.key}-{secrets.token_hex(4)}"
        new.mkdir(mode=0o700)
        if control == task:
            control_dir.prepare(new)
        record = {
            **asdict(launch.key),
            "device_ids": launch.device_ids,
            "log": str(log),
            "is_only_task": launch.is_only_task,
            "ordered_by": launch.ordered_by,
            "saves": launch.saves,
            "restores": None if launch.restore is None else dict(launch.restore.about),
        }
        write_durably(new / "task.json", json.dumps(record).encode())
        lock = os.open(new / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # Locked before the rename, and inherited by the supervisor: as soon as others can see the folder, a free
            # lock means that the task has no supervisor.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self._publish(new, task):
                os.close(lock)
                return None
            if control != task:
                self._make_control_dir(control, launch.user)
        except BaseException:
            os.close(lock)
            raise
        return lock

    async def remove(self, task: Path) -> None:
        """Removes the task's folders, the task folder first and in one step."""
        held = await reading(self.unfinished.take, task)
        await reading(sync_folder, self._tasks)
        await self.unfinished.discard(self._controls / task.name)
        if held is not None:
            await self.unfinished.remove(held)

    def abandoned(self) -> list[Path]:
        """What an earlier agent had begun to make or to remove when it ended, or could not remove: to be removed.

        A task folder that lacks its record or its lock is one whose removal somebody has begun.
        """
        for folder in self.tasks():
            if not all((folder / name).exists() for name in ("task.json", "lock")):
                self.unfinished.take(folder)
        controls = sorted(self._controls.iterdir()) if self._controls.exists() else ()
        for folder in controls:
            if not (self._tasks / folder.name).exists():
                self.unfinished.take(folder)
        return self.unfinished.found()

    def _publish(self, new: Path, task: Path) -> bool:
        """Gives a finished folder its name; False if the task exists already."""
        try:
            new.rename(task)
        except OSError:
            remove_tree(new)
            if task.exists():
                return False
            raise
        sync_folder(self._tasks)
        return True

    def _make_control_dir(self, folder: Path, user: User | None) -> None:
        """Owned by the user and closed to all others; the parent can be passed through but not listed."""
        self._controls.mkdir(exist_ok=True)
        self._controls.chmod(0o711)
        folder.mkdir(mode=0o700)
        control_dir.prepare(folder, user)
        if user is not None:
            os.chown(folder, user.uid, user.gid)
