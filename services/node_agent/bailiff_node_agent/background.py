"""What an agent does beside its commands."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any


class Background:
    """Pieces of work that end by themselves, and watchers that do not. The first that fails ends all of them."""

    def __init__(self) -> None:
        self.running: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] | None = None

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin it now."""
        task = asyncio.ensure_future(work)
        self.running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)

    def observe(self) -> None:
        """From now on a piece of work that fails counts."""
        self._failed = asyncio.get_running_loop().create_future()

    async def watch(self, work: Sequence[Coroutine[Any, Any, None]]) -> None:
        """Until cancelled, or until one of the watchers ends or any work fails, whose error is raised. After `observe`."""
        assert self._failed is not None
        watchers = [asyncio.ensure_future(each) for each in work]
        try:
            await asyncio.wait([*watchers, self._failed], return_when=asyncio.FIRST_COMPLETED)
            for done in (*watchers, self._failed):
                if done.done():
                    done.result()
        finally:
            for task in (*watchers, *self.running):
                task.cancel()
            await asyncio.gather(*watchers, *self.running, return_exceptions=True)
