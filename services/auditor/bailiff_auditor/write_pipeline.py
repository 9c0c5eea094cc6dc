"""Runs one write at a time in the background, in order."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Work = Callable[[], Coroutine[Any, Any, None]]


class WritePipeline:
    """One background write. Its failure is raised by `ended`, and no later write starts."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def begin(self, work: Work) -> None:
        """Start this after the current write has ended."""
        await self.ended()
        self._task = asyncio.create_task(work())
        await asyncio.sleep(0)

    async def ended(self) -> None:
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
