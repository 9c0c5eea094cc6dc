"""Waits for what happens elsewhere, with a deadline."""

import asyncio
import os
from collections.abc import Callable

from bailiff_node_agent.runtime import Exit, Runtime

PATIENCE_S = max(60.0, float(os.environ.get("BAILIFF_TEST_PATIENCE_S", "0")))


async def until(condition: Callable[[], object], within_s: float = PATIENCE_S) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - what is awaited happens in another process or thread
            await asyncio.sleep(0.01)


async def exit_of(agent: Runtime) -> Exit:
    """The next exit of a task."""
    return await asyncio.wait_for(agent.wait_exit(), PATIENCE_S)
