"""Runs database writes in the background, one at a time and in order, while the next batch is read."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Work = Callable[[], Coroutine[Any, Any, None]]


class WritePipeline:
    """One background write. `wait` raises its failure, and no later write starts."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def begin(self, work: Work) -> None:
        """Start this work once the current write has ended."""
        await self.wait()
        self._task = asyncio.create_task(work())
        await asyncio.sleep(0)

    async def wait(self) -> None:
        """Wait for the current write."""
        if self._task is not None:
            await self._task
            self._task = None

    async def cancel(self) -> None:
        """Cancel the current write."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
