"""Which tasks have said something to their node."""

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from bailiff_node_agent.runtime import wall
from bailiff_node_agent.runtime.contract import Said, TaskKey

QUICK_LOOK_S, LOOK_S = 0.05, 1.0


class Words:
    """Looks at the journals that supervisors write: often at those of tasks that have a notice, once in a while at the others.

    control, own_wall: where a task's journal is, and where its steps are.
    """

    def __init__(self, control: Callable[[TaskKey], Path], own_wall: Callable[[TaskKey], Path]) -> None:
        self._control, self._wall = control, own_wall
        self._ledgers: dict[TaskKey, wall.Ledger] = {}
        self._quick: dict[TaskKey, None] = {}
        self._confirmed: dict[TaskKey, int | None] = {}
        self._new: dict[TaskKey, None] = {}
        self._looked_at = time.monotonic()

    def expect(self, key: TaskKey) -> None:
        """It has a notice: what it says is waited for."""
        self._quick[key] = None

    def expect_no_more(self, key: TaskKey) -> None:
        """It stays, or has ended."""
        self._quick.pop(key, None)

    def forget(self, key: TaskKey) -> None:
        """It is no more."""
        for kept in (self._ledgers, self._quick, self._confirmed, self._new):
            kept.pop(key, None)

    def said(self, key: TaskKey, after: int) -> list[Said]:
        """By this task, since the line of this number."""
        return self._ledger(key).after(after)

    async def wait(self, watched: Iterable[TaskKey]) -> TaskKey:
        """Until one of these, which may change meanwhile, has said something or confirmed a step."""
        while True:
            if self._new:
                key = next(iter(self._new))
                del self._new[key]
                return key
            await asyncio.sleep(QUICK_LOOK_S if self._quick else LOOK_S)
            self._look(watched, all_of_them=not self._quick)

    def _look(self, watched: Iterable[TaskKey], *, all_of_them: bool) -> None:
        now = time.monotonic()
        all_of_them = all_of_them or now - self._looked_at >= LOOK_S
        self._looked_at = now if all_of_them else self._looked_at
        for key in [*(watched if all_of_them else self._quick)]:
            confirmed = wall.read_steps(self._wall(key)).confirmed if key in self._quick else None
            if self._ledger(key).grew() or confirmed != self._confirmed.get(key):
                self._confirmed[key] = confirmed
                self._new[key] = None

    def _ledger(self, key: TaskKey) -> wall.Ledger:
        if key not in self._ledgers:
            self._ledgers[key] = wall.Ledger(self._control(key))
        return self._ledgers[key]
