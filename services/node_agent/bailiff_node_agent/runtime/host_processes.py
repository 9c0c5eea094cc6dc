"""Looking for a task's processes, off the event loop: each look reads all of the machine's, and a job can have thousands."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

from .port import Runtime, TaskKey

THREADS = 4
"""Of their own: whoever looks for processes waits for nobody who reads a job's files."""
Found = TypeVar("Found")


async def looking(call: Callable[..., Found], *given: Any) -> Found:
    """The result of a call that reads the machine's processes."""
    return await asyncio.get_running_loop().run_in_executor(_threads(), call, *given)


async def pids_of(runtime: Runtime, key: TaskKey) -> tuple[int, ...]:
    """As `Runtime.pids`."""
    return runtime.pids(key) if runtime.capabilities.simulated else await looking(runtime.pids, key)


async def memory_of(runtime: Runtime, key: TaskKey) -> int:
    """As `Runtime.memory`."""
    return runtime.memory(key) if runtime.capabilities.simulated else await looking(runtime.memory, key)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, "host-processes")
