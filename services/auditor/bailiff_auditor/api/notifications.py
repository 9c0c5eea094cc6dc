"""Long polling: waits for the next archived record while the client is connected."""

import asyncio
from contextlib import suppress

from fastapi import Request


async def until_archived(request: Request, archived: asyncio.Event, seconds: float) -> bool:
    """Wait until something is archived, the timeout expires or the client disconnects. Returns whether something was archived."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            waiting = [asyncio.ensure_future(archived.wait()), asyncio.ensure_future(_disconnected(request))]
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in waiting:
                    each.cancel()
    return archived.is_set()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
