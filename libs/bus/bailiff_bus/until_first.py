"""Several things at a time, until the first of them ends."""

import asyncio
from collections.abc import Awaitable


async def until_first(*works: Awaitable[object]) -> None:
    """Run all of them until one ends; the others are cancelled and have ended then. Raises what that one raised."""
    tasks: list[asyncio.Future[object]] = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
