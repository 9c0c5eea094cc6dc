"""Virtual time, and processes that can be stopped and killed from outside.

`VirtualLoop` is an event loop that never waits: when nothing is ready its clock jumps to the next timer. A simulated
process is a name that its tasks carry in their context. Everything that the loop is to run for a paused process is put
aside until it is resumed, as SIGSTOP does; for a killed one it is put aside for ever, so that not even a `finally`
runs, as with `kill -9`.
"""

import asyncio
import contextvars
from asyncio.base_events import BaseEventLoop
from collections.abc import Coroutine
from dataclasses import dataclass, field
from heapq import heappop
from typing import Any, Literal

from bailiff_bus.testing import MemoryBus

LONGEST_MOMENT = 300_000  # so many callbacks without any time passing: somebody runs in circles


@dataclass(eq=False)
class Process:
    """One life of one process. A restart is a new one of the same name."""

    name: str
    state: Literal["running", "paused", "killed"] = "running"
    buses: list[MemoryBus] = field(default_factory=list)
    put_aside: list[asyncio.Handle] = field(default_factory=list)
    main: "asyncio.Task[None] | None" = None
    kept: list[Any] = field(default_factory=list)  # a task that nobody refers to would be closed, and its `finally` run

    def start(self, main: Coroutine[Any, Any, None]) -> None:
        """Run this as the process's main program."""
        context = contextvars.Context()
        context.run(CURRENT.set, self)
        self.main = asyncio.get_running_loop().create_task(main, context=context)

    def kill(self) -> None:
        """From now on nothing of it happens any more."""
        self.state = "killed"
        self.kept = list(asyncio.all_tasks())
        for bus in self.buses:
            bus.kill()

    def pause(self) -> None:
        """Hold everything until `resume`."""
        if self.state == "running":
            self.state = "paused"
            for bus in self.buses:
                bus.pause()

    def resume(self) -> None:
        """Go on where it stood; what came due meanwhile is due now."""
        if self.state == "paused":
            self.state = "running"
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            loop.make_ready(self.put_aside)
            self.put_aside = []
            for bus in self.buses:
                bus.resume()


CURRENT: contextvars.ContextVar[Process | None] = contextvars.ContextVar("CURRENT", default=None)


class VirtualLoop(BaseEventLoop):
    """Time passes only by jumps. There is nothing outside: no sockets, no threads, no signals."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._moment = 0
        self.set_exception_handler(lambda _loop, _about: None)

    def time(self) -> float:
        return self.now

    def make_ready(self, handles: list[asyncio.Handle]) -> None:
        """Run these next."""
        self._ready.extend(handles)

    def _run_once(self) -> None:
        ready, timers = self._ready, self._scheduled
        while timers and timers[0]._cancelled:
            heappop(timers)._scheduled = False
        if not ready:
            if not timers:
                raise RuntimeError("everybody waits and nothing will happen: a deadlock")
            if timers[0]._when > self.now:
                self.now, self._moment = timers[0]._when, 0
        while timers and timers[0]._when <= self.now:
            handle = heappop(timers)
            handle._scheduled = False
            ready.append(handle)
        self._moment += len(ready)
        if self._moment > LONGEST_MOMENT:
            raise RuntimeError(f"no time passes at {self.now:.6f}: somebody runs in circles")
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(CURRENT)
            if process is None or process.state == "running":
                handle._run()
            else:
                process.put_aside.append(handle)

    def _write_to_self(self) -> None:
        pass

    def _process_events(self, event_list: list[Any]) -> None:
        pass
