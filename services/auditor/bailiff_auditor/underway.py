"""The batch that is being written while the next one is read: one at a time, in order."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Work = Callable[[], Coroutine[Any, Any, None]]


class UnderWay:
    """What is under way. A failure is raised where its end is waited for, and nothing behind it happens."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def begin(self, work: Work) -> None:
        """Begin this as soon as what is under way has ended."""
        await self.ended()
        self._task = asyncio.create_task(work())
        await asyncio.sleep(0)

    async def ended(self) -> None:
        """Wait for it."""
        if self._task is not None:
            await self._task
            self._task = None

    async def cancel(self) -> None:
        """End it."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
