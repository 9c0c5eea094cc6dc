"""A thread with an event loop, which runs the asynchronous client for synchronous callers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop in a background thread, until `close`. Its methods may be called from any other thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bailiff", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Whether it runs."""
        return not self._loop.is_closed()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of the coroutine. Ctrl-C cancels it."""
        if not self.is_open:
            work.close()
            raise RuntimeError("the connection is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, source: AsyncGenerator[T, None]) -> Iterator[T]:
        """The items of the generator, each when it comes. It is closed when the iteration ends."""
        end = object()

        async def next_item() -> T | object:
            return await anext(source, end)

        try:
            while (item := self.run(next_item())) is not end:
                yield item  # type: ignore[misc]
        finally:
            if self.is_open:
                self.run(source.aclose())

    def close(self) -> None:
        """Ends the loop and its thread."""
        if not self.is_open:
            return
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
