"""`/api/pools` and the live stream of one pool."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bailiff_bus.until_first import until_first
from bailiff_console.answers import Answer
from bailiff_console.problems import Refused, busy

from .change import SHOWN, Show
from .follower import Followed
from .pools import Pools

router = APIRouter()
HEARTBEAT_S = 10.0
STUCK_S = 30.0  # a reader that takes nothing for so long is let go; it can come back
PIECE = 64 * 1024
RETRY_MS = 1000
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"),
]  # fmt: skip


@router.get("/api/pools")
async def pools(request: Request) -> Answer:
    """Every pool, and what the console can see of its surroundings."""
    found: Pools = request.app.state.pools
    rows = []
    for each in found.all():
        row = each.picture.pool_row()
        state = {"ready": each.ready, "fault": each.fault, "pages": len(each.pages)}
        rows.append({**(row or {"pool": each.name, "partition": each.place.partition}), **state})
    return Answer({"pools": rows, "archive": request.app.state.archive.state(), "kafka": found.kafka})


@router.get("/api/pools/{pool}/live")
async def live(
    request: Request,
    pool: str,
    show: Annotated[str, Query(description="Parts, by commas.", max_length=200)] = "nodes,jobs,projects,queue",
    last_event_id: Annotated[str | None, Header(max_length=300)] = None,
    after: Annotated[str | None, Query(description="As Last-Event-ID, for a page that connects anew.", max_length=300)] = None,
) -> Response:
    """A board, then each change of it, at most five times a second."""
    parts = frozenset(part for part in show.split(",") if part)
    if unknown := sorted(parts - SHOWN):
        allowed = ", ".join(sorted(SHOWN))
        text = f"show: found {', '.join(unknown)}; allowed: {allowed}"
        raise Refused(400, text, [{"where": "show", "found": show, "allowed": allowed, "text": text}])
    found: Pools = request.app.state.pools
    followed = found.get(pool)
    if sum(len(each.pages) for each in found.all()) >= request.app.state.most_pages:
        raise busy(f"{request.app.state.most_pages} pages are open already (BAILIFF_CONSOLE_PAGES)")
    return _Stream(found, followed, parts, last_event_id or after)


class _Stream(Response):
    """Sends to one page for as long as it is there."""

    def __init__(self, pools: Pools, followed: Followed, show: Show, last: str | None) -> None:
        super().__init__()
        self._pools, self._followed, self._show, self._last = pools, followed, show, last

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Until the page goes away, or takes nothing any more."""
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        with suppress(TimeoutError):
            await until_first(gone(receive), self._send_all(send))

    async def _send_all(self, send: Send) -> None:
        async for message in self._messages():
            for at in range(0, len(message), PIECE):  # the connection holds no more of a slow reader's board than this
                async with asyncio.timeout(STUCK_S):
                    await send({"type": "http.response.body", "body": message[at : at + PIECE], "more_body": True})

    async def _messages(self) -> AsyncIterator[bytes]:
        followed, state = self._followed, self._pools.state
        page = followed.pages.enter(self._show, self._last)

        def board(show: Show) -> bytes:
            return state(followed) + followed.board(show)

        try:
            known = b"" if page.afresh else state(followed)
            yield b"retry: %d\n\n" % RETRY_MS + known + (await page.take(board, 0) or b"")
            while True:
                page.sent()
                # A page is not shown comments: by this it knows that its stream lives.
                yield await page.take(board, HEARTBEAT_S) or state(followed)
        finally:
            followed.pages.leave(page)


async def gone(receive: Receive) -> None:
    """Until the page is not there any more."""
    while (await receive())["type"] != "http.disconnect":
        pass
