"""Limits on size and duration of request bodies."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from starlette.requests import Request
from starlette.types import Message, Receive

from bailiff_service.problems import ApiError

BODY_TIMEOUT_S = 30.0


def check_size(headers: Mapping[str, str], most: int) -> None:
    """Raises `ApiError` if Content-Length exceeds the limit."""
    length = headers.get("content-length")
    if length is not None and (not length.isdecimal() or int(length[:20]) > most):
        raise _too_large(most)


async def discard(receive: Receive, most: int) -> None:
    """Read and drop the rest of a rejected body, up to a limit, so that the client reads the response."""
    with suppress(TimeoutError):
        async with asyncio.timeout(BODY_TIMEOUT_S):
            message: Message = {"type": "http.request", "more_body": True}
            while message["type"] == "http.request" and message.get("more_body") and most > 0:
                message = await receive()
                most -= len(message.get("body", b""))


def bounded(receive: Receive, most: int) -> Receive:
    """`receive` that raises `ApiError` once the body exceeds the limit."""
    received_bytes = 0

    async def received() -> Message:
        nonlocal received_bytes
        message = await receive()
        received_bytes += len(message.get("body", b""))
        if received_bytes > most:
            raise _too_large(most)
        return message

    return received


async def whole_body(request: Request) -> bytes:
    """The whole body, as a route dependency. Raises `ApiError` if it is too large or times out."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await request.body()
    except TimeoutError:
        raise ApiError(408, f"the body of the request did not arrive within {BODY_TIMEOUT_S:.0f} s") from None


def _too_large(most: int) -> ApiError:
    return ApiError(413, f"request body too large: at most {most} bytes", headers={"connection": "close"})
