"""Bodies of requests: no larger and no slower than they may be."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from starlette.requests import Request
from starlette.types import Message, Receive

from bailiff_console.problems import Refused

ARRIVES_WITHIN_S = 30.0


def check_size(headers: Mapping[str, str], most: int) -> None:
    """Raises `Refused` for a body that says itself that it is too large."""
    said = headers.get("content-length")
    if said is not None and (not said.isdecimal() or int(said[:20]) > most):
        raise _too_large(most)


async def discard(receive: Receive, most: int) -> None:
    """Take in what still comes of a body that nobody wants, so that its sender gets to read why; of endless ones not all."""
    with suppress(TimeoutError):
        async with asyncio.timeout(ARRIVES_WITHIN_S):
            message: Message = {"type": "http.request", "more_body": True}
            while message["type"] == "http.request" and message.get("more_body") and most > 0:
                message = await receive()
                most -= len(message.get("body", b""))


def bounded(receive: Receive, most: int) -> Receive:
    """The same, until the body is too large: then it raises `Refused`."""
    taken = 0

    async def received() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > most:
            raise _too_large(most)
        return message

    return received


async def whole_body(request: Request) -> bytes:
    """All of it, as a dependency of a route. Raises `Refused` where it is too large or does not come."""
    try:
        async with asyncio.timeout(ARRIVES_WITHIN_S):
            return await request.body()
    except TimeoutError:
        raise Refused(408, f"the body of the request did not arrive within {ARRIVES_WITHIN_S:.0f} s") from None


def _too_large(most: int) -> Refused:
    return Refused(413, f"a request to this console has at most {most} bytes", headers={"connection": "close"})
