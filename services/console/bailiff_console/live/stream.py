"""`/api/pools`, and the live stream of one pool as server-sent events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import TypedDict

from bailiff.render.serializers.pools import PoolRow
from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import invalid, invalid_value, unavailable
from bailiff_service.race import race

from .change import SHOWN, Show
from .follower import PoolFollower
from .pool_projection import PoolChange, PoolSnapshot
from .pools import ConsoleState, KafkaState, Pools
from .telemetry import TelemetryByNode

router = APIRouter()
HEARTBEAT_S = 10.0
SEND_TIMEOUT_S = 30.0  # a client that accepts nothing for this long is disconnected; it can reconnect
CHUNK = 64 * 1024
RETRY_MS = 1000
HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]


class ArchiveState(TypedDict):
    """Whether an archive is configured and answers, and its lag in messages by pool."""

    configured: bool
    answers: bool
    behind: dict[str, int]


class FollowedPoolRow(PoolRow):
    """A pool that this console follows. Until it is ready it has only a name, a partition and the following fields.

    fault: why its log cannot be followed. pages: open live streams.
    """

    ready: bool
    fault: str | None
    pages: int


class PoolList(TypedDict):
    """All pools, and the state of archive and Kafka."""

    pools: list[FollowedPoolRow]
    archive: ArchiveState
    kafka: KafkaState


class LiveEvents(TypedDict):
    """Data of the stream's events, by the event's name: one snapshot, then changes; telemetry and state at any time."""

    snapshot: PoolSnapshot
    change: PoolChange
    telemetry: TelemetryByNode
    state: ConsoleState


class EventStream(Response):
    """Server-sent events."""

    media_type = "text/event-stream"


@router.get("/api/pools", response_model=PoolList, tags=["live"])
async def pools(request: Request) -> JsonResponse:
    """All pools, and the state of archive and Kafka."""
    found: Pools = request.app.state.pools
    rows = []
    for each in found.all():
        row = each.pool_projection.pool_row()
        state = {"ready": each.ready, "fault": each.fault, "pages": len(each.subscribers)}
        rows.append({**(row or {"pool": each.name, "partition": each.place.partition}), **state})
    return JsonResponse({"pools": rows, "archive": request.app.state.archive.state(), "kafka": found.kafka})


@router.get("/api/pools/{pool}/live", response_class=EventStream, responses={200: {"model": LiveEvents}}, tags=["live"])
async def live(
    request: Request,
    pool: str,
    include: Annotated[str, Query(description="Parts, comma-separated.", max_length=200)] = "nodes,jobs,projects,queue",
    last_event_id: Annotated[str | None, Header(max_length=300)] = None,
    after: Annotated[
        str | None, Query(description="Same as Last-Event-ID, for clients that cannot send it.", max_length=300)
    ] = None,
    job: Annotated[str | None, Query(description="A job that is sent wherever it stands in the queue.", max_length=300)] = None,
) -> Response:
    """A snapshot, then changes, at most five per second.

    Jobs are those that hold or get resources, the first pending ones, and the newest outside the queue; `/jobs` lists all.
    """
    parts = frozenset(part for part in include.split(",") if part)
    if unknown := sorted(parts - SHOWN):
        allowed = ", ".join(sorted(SHOWN))
        raise invalid(invalid_value("include", ",".join(unknown), allowed))
    found: Pools = request.app.state.pools
    followed = found.get(pool)
    if sum(len(each.subscribers) for each in found.all()) >= request.app.state.max_pages:
        raise unavailable(f"{request.app.state.max_pages} live streams are open already (BAILIFF_CONSOLE_PAGES)")
    return _Stream(found, followed, parts, last_event_id or after, job)


class _Stream(EventStream):
    """Sends to one client until it disconnects."""

    def __init__(self, pools: Pools, followed: PoolFollower, show: Show, last: str | None, job: str | None) -> None:
        super().__init__()
        self._pools, self._followed, self._show, self._last, self._job = pools, followed, show, last, job

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Ends when the client disconnects or stalls."""
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        with suppress(TimeoutError):
            await race(disconnected(receive), self._send_all(send))

    async def _send_all(self, send: Send) -> None:
        async for message in self._messages():
            for at in range(0, len(message), CHUNK):  # bounds the buffer of a slow client
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await send({"type": "http.response.body", "body": message[at : at + CHUNK], "more_body": True})

    async def _messages(self) -> AsyncIterator[bytes]:
        followed, state = self._followed, self._pools.state
        if self._job is not None:
            followed.watch(self._job)
        subscriber = followed.subscribers.add(self._show, self._last)

        def snapshot(show: Show) -> bytes:
            return state(followed) + followed.snapshot_event(show)

        try:
            known = b"" if subscriber.needs_snapshot else state(followed)
            yield b"retry: %d\n\n" % RETRY_MS + known + (await subscriber.take(snapshot, 0) or b"")
            while True:
                subscriber.sent()
                # Comments are not visible to the page's script: this event is the heartbeat.
                yield await subscriber.take(snapshot, HEARTBEAT_S) or state(followed)
        finally:
            followed.subscribers.remove(subscriber)
            if self._job is not None:
                followed.unwatch(self._job)


async def disconnected(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
