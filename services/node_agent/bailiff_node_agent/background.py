"""The agent's concurrent work besides its commands."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from bailiff_service.race import race


class Background:
    """Jobs that end by themselves, and watchers that do not. The first that fails ends all of them."""

    def __init__(self) -> None:
        self.running: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] | None = None

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start it now."""
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
        """From now on `watch` raises the errors of spawned work."""
        self._failed = asyncio.get_running_loop().create_future()

    async def watch(self, work: Sequence[Coroutine[Any, Any, None]]) -> None:
        """Run until cancelled, or until a watcher ends or any work fails; raises its error. Call `observe` first."""
        assert self._failed is not None
        try:
            await race(*work, self._failed)
        finally:
            for task in self.running:
                task.cancel()
            await asyncio.gather(*self.running, return_exceptions=True)
