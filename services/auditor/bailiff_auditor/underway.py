"""Batches that are being told and written while the next ones are read: in order, and only so many."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

Work = Callable[[Awaitable[None] | None], Awaitable[None]]
"""Does something for one batch. It is handed the batch before, and awaits that at the latest before it writes."""


class UnderWay:
    """What is under way. A failure is raised where its end is waited for, and nothing behind it happens."""

    def __init__(self) -> None:
        self._tasks: deque[asyncio.Task[None]] = deque()

    def __bool__(self) -> bool:
        return bool(self._tasks)

    async def begin(self, work: Work, most: int) -> None:
        """Begin this as soon as fewer than `most` are under way."""
        while len(self._tasks) >= most:
            await self._tasks[0]
            self._tasks.popleft()
        earlier = self._tasks[-1] if self._tasks else None
        self._tasks.append(asyncio.ensure_future(work(earlier)))
        await asyncio.sleep(0)

    async def ended(self) -> None:
        """Wait for all of it."""
        while self._tasks:
            await self._tasks[0]
            self._tasks.popleft()

    async def cancel(self) -> None:
        """End what has not ended."""
        tasks, self._tasks = list(self._tasks), deque()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
