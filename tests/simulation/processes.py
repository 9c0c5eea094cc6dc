"""Virtual time, and processes that can be paused and killed from outside.

`VirtualLoop` is an event loop that never waits: when nothing is ready its clock jumps to the next timer. A simulated
process is a name that its tasks carry in their context. Callbacks of a paused process are deferred until it is resumed,
as with SIGSTOP; those of a killed one are deferred forever, so that not even a `finally` runs, as with `kill -9`.
"""

import asyncio
import contextvars
from asyncio.base_events import BaseEventLoop
from collections.abc import Coroutine
from dataclasses import dataclass, field
from heapq import heappop
from typing import Any, Literal

from tests.kits.memory_bus import MemoryBus

MAX_CALLBACKS = 300_000  # without progress of virtual time: more means an endless loop


@dataclass(eq=False)
class Process:
    """One incarnation of a process. A restart creates a new one of the same name."""

    name: str
    state: Literal["running", "paused", "killed"] = "running"
    buses: list[MemoryBus] = field(default_factory=list)
    deferred: list[asyncio.Handle] = field(default_factory=list)
    main: "asyncio.Task[None] | None" = None
    kept: list[Any] = field(default_factory=list)  # references: an unreferenced task would be closed, and its `finally` run

    def start(self, main: Coroutine[Any, Any, None]) -> None:
        """Run this as the process's main program."""
        context = contextvars.Context()
        context.run(CURRENT.set, self)
        self.main = asyncio.get_running_loop().create_task(main, context=context)

    def kill(self) -> None:
        """Run none of its callbacks any more."""
        self.state = "killed"
        self.kept = list(asyncio.all_tasks())
        for bus in self.buses:
            bus.kill()

    def pause(self) -> None:
        """Defer its callbacks until `resume`."""
        if self.state == "running":
            self.state = "paused"
            for bus in self.buses:
                bus.pause()

    def resume(self) -> None:
        """Continue; callbacks that became due meanwhile run now."""
        if self.state == "paused":
            self.state = "running"
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            loop.make_ready(self.deferred)
            self.deferred = []
            for bus in self.buses:
                bus.resume()


CURRENT: contextvars.ContextVar[Process | None] = contextvars.ContextVar("CURRENT", default=None)


class VirtualLoop(BaseEventLoop):
    """An event loop whose time only jumps to the next timer. It has no sockets, threads or signals."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._callbacks = 0
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
                raise RuntimeError("deadlock: all tasks wait and there is no timer")
            if timers[0]._when > self.now:
                self.now, self._callbacks = timers[0]._when, 0
        while timers and timers[0]._when <= self.now:
            handle = heappop(timers)
            handle._scheduled = False
            ready.append(handle)
        self._callbacks += len(ready)
        if self._callbacks > MAX_CALLBACKS:
            raise RuntimeError(f"endless loop: virtual time does not pass at {self.now:.6f}")
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(CURRENT)
            if process is None or process.state == "running":
                handle._run()
            else:
                process.deferred.append(handle)

    def _write_to_self(self) -> None:
        pass

    def _process_events(self, event_list: list[Any]) -> None:
        pass
