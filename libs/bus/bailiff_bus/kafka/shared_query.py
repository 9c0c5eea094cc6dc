"""One query for all who ask the same at the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from .errors import mark_retrieved

Answer = TypeVar("Answer")


class SharedQuery(Generic[Answer]):
    """Whoever asks while a query is open gets the answer of the next one, which all share: it begins after they asked."""

    def __init__(self, query: Callable[[str], Awaitable[Answer]]) -> None:
        self._query = query
        self._open: dict[str, asyncio.Task[Answer]] = {}
        self._next: dict[str, asyncio.Task[Answer]] = {}

    async def __call__(self, about: str) -> Answer:
        """The answer about this, as of a time after this call. Raises the query's error."""
        task = self._next.get(about)
        if task is None:
            task = self._next[about] = asyncio.create_task(self._after(self._open.get(about), about))
            task.add_done_callback(mark_retrieved)
        return await asyncio.shield(task)

    async def _after(self, before: "asyncio.Task[Answer] | None", about: str) -> Answer:
        if before is not None:
            await asyncio.wait([before])
        task = self._open[about] = self._next.pop(about)
        try:
            return await self._query(about)
        finally:
            if self._open.get(about) is task:
                del self._open[about]
