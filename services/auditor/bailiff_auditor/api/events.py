"""The live stream: records as they are archived, as server-sent events, from any place on, without loss or repetition.

The archive is the source: what is sent is read from it page by page, and a notification only says that there is more. So the
step from the past to the present is none, nothing is sent that is not archived, and a reader that is slow costs one page of
memory. `id` of an event is its place, `domain:seq`, and of a stream of several domains the place in each.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any

import orjson
from asyncpg import Record
from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bailiff_bus.until_first import until_first

from . import parameters as given
from .answers import JSON_OPTIONS
from .archive import Archive
from .asking import DOMAINS, Where
from .problems import Busy, Missing, bad
from .records import COLUMNS, FROM, narrow, told

router = APIRouter(tags=["live"])
PAGE = 200
WINDOW = 20_000  # so many records are looked through at once where few of them are wanted
STUCK = 30.0  # a reader that takes nothing for so long is let go; it can come back to where it was
RETRY_MS = 1000
PLACE = "places as in `pool-a:118`, or `pool-a:118,pool-b:7`"

After = Annotated[str | None, Query(description="As the header Last-Event-ID, for those who cannot send it.", max_length=10_000)]
Begin = Annotated[
    str | None,
    Query(
        alias="from", description="Where to begin without a place: `now`, `start`, or a record's number.", max_length=20,
        pattern=r"^(now|start|[0-9]{1,18})$",
    ),
]  # fmt: skip
LastEventId = Annotated[str | None, Header(description="The last event that was seen: go on behind it.", max_length=10_000)]


class Wanted:
    """What is to be streamed."""

    def __init__(self, type_: given.Types = None, job: given.Jobs = None, project: given.Projects = None) -> None:
        self.type, self.job, self.project = type_, job, project


def _example(place: str) -> dict[int | str, dict[str, Any]]:
    sent = f'id: {place}\nevent: JobPlaced\ndata: {{"seq":118,"type":"JobPlaced"}}\n\n'
    return {200: {"content": {"text/event-stream": {"example": sent}}}}


LIVE: dict[str, Any] = {"response_class": Response}


@router.get("/domains/{domain}/events", summary="Records of one pool, live", responses=_example("pool-a:118"), **LIVE)
async def events_of_domain(
    request: Request, domain: given.DomainName, wanted: Annotated[Wanted, Depends()], from_: Begin = None, after: After = None,
    last_event_id: LastEventId = None,
) -> Response:  # fmt: skip
    """Each record once, in order. After a break, send Last-Event-ID: the stream goes on behind it."""
    return await _stream(request, [domain], wanted, from_, after, last_event_id)


@router.get("/events", summary="Records of several pools, live", responses=_example("pool-a:118,pool-b:7"), **LIVE)
async def events(
    request: Request, wanted: Annotated[Wanted, Depends()],
    domain: Annotated[list[given.Text] | None, given.several("This pool. Default: all.", "pool-a")] = None,
    from_: Begin = None, after: After = None, last_event_id: LastEventId = None,
) -> Response:  # fmt: skip
    """Each record once, in the order of its pool. `id` holds the place in every pool."""
    return await _stream(request, domain, wanted, from_, after, last_event_id)


async def _stream(
    request: Request, names: list[str] | None, wanted: Wanted, begin: str | None, after: str | None, last: str | None
) -> Response:
    archive: Archive = request.app.state.archive
    async with archive.reading() as connection:
        rows = {row["name"]: row for row in await connection.fetch(f"{DOMAINS} ORDER BY d.name")}
    for name in names or ():
        if name not in rows:
            raise Missing(f"there is no pool {name!r}; the archive holds: {', '.join(rows) or 'none'}")
    chosen = {name: rows[name] for name in names or rows}
    places = {name: _begin(row["next_seq"], begin) for name, row in chosen.items()}
    parameter, seen = ("Last-Event-ID", last) if last else ("after", after)
    if seen:
        places |= _places(parameter, seen, {name: row["next_seq"] for name, row in chosen.items()})
    streams: Streams = request.app.state.streams
    return EventStream(streams, archive, {name: row["id"] for name, row in chosen.items()}, places, wanted)


def _begin(next_seq: int, begin: str | None) -> int:
    if begin is None or begin == "now":
        return next_seq
    return 0 if begin == "start" else min(int(begin), next_seq)


def _places(parameter: str, text: str, ends: dict[str, int]) -> dict[str, int]:
    """The record to go on with, by domain."""
    found = {}
    for part in text.split(","):
        name, _, seq = part.strip().rpartition(":")
        if name not in ends:
            raise bad(parameter, text, f"{PLACE}, of the pools that are asked for: {', '.join(ends)}")
        if not ((seq.isascii() and seq.isdigit() and len(seq) <= 18) or seq == "-1"):
            raise bad(parameter, text, PLACE)
        found[name] = int(seq) + 1
        if found[name] > ends[name]:
            raise bad(parameter, text, f"a record that is archived; the last one of {name} is {ends[name] - 1}")
    return found


class Shorter(Exception):
    """The archive ends before what was sent: records were set aside. Whoever comes back is told where it ends now."""


class Streams:
    """Those that run. most: at a time; heartbeat: seconds."""

    def __init__(self, most: int, heartbeat: float) -> None:
        self.most, self.heartbeat = most, heartbeat
        self.running: list[EventStream] = []


class EventStream(Response):
    """One stream: reads a page, sends it, and reads the next one when it is gone. places: the next record, by domain.

    sent: so many records were handed over to be sent.
    """

    media_type = "text/event-stream"

    def __init__(self, streams: Streams, archive: Archive, ids: dict[str, int], places: dict[str, int], wanted: Wanted) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"}, media_type=self.media_type)
        del self.headers["content-length"]
        if len(streams.running) >= streams.most:
            raise Busy(f"there are {streams.most} streams already, as many as this interface is set to keep")
        self._streams, self._archive, self._ids, self._places, self._wanted = streams, archive, ids, places, wanted
        self.sent = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Until the reader leaves, or is stuck, or the service stops."""
        self._streams.running.append(self)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if scope.get("bailiff.head_only"):
                await send({"type": "http.response.body", "body": b""})
                return
            with suppress(TimeoutError):
                await until_first(self._send_all(send), _gone(receive))
        finally:
            self._streams.running.remove(self)

    async def _send_all(self, send: Send) -> None:
        with suppress(Shorter):
            async for piece in self._pieces():
                async with asyncio.timeout(STUCK):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _pieces(self) -> AsyncIterator[bytes]:
        yield f"retry: {RETRY_MS}\nid: {self._id()}\n\n".encode()
        while not self._archive.closing:
            news = self._archive.news()
            moved = False
            for name in self._places:
                rows, more = await self._page(name)
                moved = moved or more
                if rows:
                    yield b"".join([self._event(name, row) for row in rows])
            if not moved:
                try:
                    async with asyncio.timeout(self._streams.heartbeat):
                        await news.wait()
                except TimeoutError:
                    yield f": still here\nid: {self._id()}\n\n".encode()

    async def _page(self, name: str) -> tuple[list[Record], bool]:
        """The next records that are wanted, and whether there is more to look through."""
        place = self._places[name]
        where = Where(self._ids[name], place, PAGE)
        wanted = self._wanted
        narrow(where, wanted.job, wanted.project, type_=wanted.type)
        filtered = any((wanted.job, wanted.project, wanted.type))
        async with self._archive.reading() as connection:
            end = await connection.fetchval("SELECT next_seq FROM domains WHERE id = $1", where.values[0])
            if end < place:
                raise Shorter
            to = min(end, place + WINDOW) if filtered else end
            if place >= to:
                return [], False
            where.add("r.seq < ?", to)
            rows: list[Record] = await connection.fetch(
                f"SELECT {COLUMNS} {FROM} WHERE r.domain = $1 AND r.seq >= $2 AND {where.text} ORDER BY r.seq LIMIT $3",
                *where.values,
            )
        if not rows:
            self._places[name] = to
        return rows, True

    def _event(self, name: str, row: Record) -> bytes:
        self._places[name] = row["seq"] + 1
        self.sent += 1
        data = orjson.dumps(told(row), option=JSON_OPTIONS)
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (self._id().encode(), row["type"].encode(), data)

    def _id(self) -> str:
        """What was dealt with: sent, or passed over as not wanted."""
        return ",".join(f"{name}:{place - 1}" for name, place in self._places.items())


async def _gone(receive: Receive) -> None:
    message: Any = None
    while message is None or message["type"] != "http.disconnect":
        message = await receive()
