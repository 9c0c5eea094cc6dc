"""Finds tasks that sent a message or confirmed a step, by polling their journals and steps."""

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from . import control_dir
from .port import JobMessage, TaskKey

FAST_POLL_S, POLL_S = 0.05, 1.0


class MessageWatcher:
    """Polls tasks that have a notice every 50 ms, the others every second.

    task_folder, control_folder: where a task's journal is, and where its steps are.
    """

    def __init__(self, task_folder: Callable[[TaskKey], Path], control_folder: Callable[[TaskKey], Path]) -> None:
        self._task_folder, self._control_folder = task_folder, control_folder
        self._journals: dict[TaskKey, control_dir.JournalReader] = {}
        self._fast: dict[TaskKey, None] = {}
        self._confirmed: dict[TaskKey, int | None] = {}
        self._new: dict[TaskKey, None] = {}
        self._polled_at = time.monotonic()

    def poll_fast(self, key: TaskKey) -> None:
        """The task has a notice, and its answer is awaited."""
        self._fast[key] = None

    def poll_slowly(self, key: TaskKey) -> None:
        """The notice was withdrawn, or the task has exited."""
        self._fast.pop(key, None)

    def forget(self, key: TaskKey) -> None:
        """The task is gone."""
        for by_task in (self._journals, self._fast, self._confirmed, self._new):
            by_task.pop(key, None)

    def messages(self, key: TaskKey, after: int) -> list[JobMessage]:
        """The task's messages with a number above `after`."""
        return self._journal(key).after(after)

    async def wait(self, watched: Iterable[TaskKey]) -> TaskKey:
        """Wait until one of these tasks sends a message or confirms a step. `watched` may change meanwhile."""
        while True:
            if self._new:
                key = next(iter(self._new))
                del self._new[key]
                return key
            await asyncio.sleep(FAST_POLL_S if self._fast else POLL_S)
            self._poll(watched, poll_all=not self._fast)

    def _poll(self, watched: Iterable[TaskKey], *, poll_all: bool) -> None:
        now = time.monotonic()
        poll_all = poll_all or now - self._polled_at >= POLL_S
        self._polled_at = now if poll_all else self._polled_at
        for key in [*(watched if poll_all else self._fast)]:
            confirmed = control_dir.read_steps(self._control_folder(key)).confirmed if key in self._fast else None
            if self._journal(key).has_grown() or confirmed != self._confirmed.get(key):
                self._confirmed[key] = confirmed
                self._new[key] = None

    def _journal(self, key: TaskKey) -> control_dir.JournalReader:
        if key not in self._journals:
            self._journals[key] = control_dir.JournalReader(self._task_folder(key))
        return self._journals[key]
