"""An event loop whose clock jumps to the next timer instead of waiting, so that tests of time-outs take none."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Nothing outside may be waited for: no sockets. What would run in a thread is done at once."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Jump(self))

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Any, func: Callable[..., Result], *args: Any) -> asyncio.Future[Result]:
        done: asyncio.Future[Result] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets it
            done.set_exception(error)
        return done


class _Jump(selectors.SelectSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("everybody waits and nothing will happen: a deadlock")
        self._loop.now += timeout
        return super().select(0)


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def in_virtual_time(story: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The story as a test that takes no time."""

    @functools.wraps(story)
    def test(**arguments: Any) -> None:
        run(story(**arguments))

    return test
