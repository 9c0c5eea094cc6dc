"""Runs awaitables concurrently until the first one ends."""

import asyncio
from collections.abc import Awaitable


async def race(*awaitables: Awaitable[object]) -> None:
    """Run all until one ends, then cancel the others and wait for them. Raises the exception of the first one."""
    tasks: list[asyncio.Future[object]] = [asyncio.ensure_future(each) for each in awaitables]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
