"""The live stream: records as they are archived, as server-sent events, from any place on, without loss or repetition.

The archive is the source: what is sent is read from it page by page, and a notification only says that there is more. So the
step from the past to the present is none, nothing is sent that is not archived, and a reader that is slow costs one page of
memory. `id` of an event is its place, `domain:seq:hash`, and of a stream of several domains the place in each.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from asyncpg import Connection, Record
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
PLACE = "places as in `pool-a:118`, or `pool-a:118:5f0c1d2e,pool-b:7`"
PLACES = re.compile(r"(.*?):(-1|[0-9]{1,18})(?::([0-9a-f]{8}))?", re.ASCII | re.DOTALL)
HASHES = """SELECT d.name, r.hash FROM unnest($1::text[], $2::bigint[]) p(name, seq) JOIN domains d ON d.name = p.name
    JOIN records r ON r.domain = d.id AND r.seq = p.seq"""

After = Annotated[str | None, Query(description="As the header Last-Event-ID, for those who cannot send it.", max_length=10_000)]
Begin = Annotated[
    str | None,
    Query(
        alias="from", description="Where to begin without a place: `now`, `start`, or a record's number.", max_length=20,
        pattern=r"^(now|start|[0-9]{1,18})$",
    ),
]  # fmt: skip
LastEventId = Annotated[str | None, Header(description="The last event that was seen: go on behind it.", max_length=10_000)]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reader stands in a pool. next_seq: of the record to go on with; hash: how that of the one before begins."""

    next_seq: int
    hash: str = ""


class Wanted:
    """What is to be streamed."""

    def __init__(self, type_: given.Types = None, job: given.Jobs = None, project: given.Projects = None) -> None:
        self.type, self.job, self.project = type_, job, project


def _example(place: str) -> dict[int | str, dict[str, Any]]:
    sent = f'id: {place}\nevent: JobPlaced\ndata: {{"seq":118,"type":"JobPlaced"}}\n\n'
    return {200: {"content": {"text/event-stream": {"example": sent}}}}


LIVE: dict[str, Any] = {"response_class": Response}


@router.get("/domains/{domain}/events", summary="Records of one pool, live", responses=_example("pool-a:118:5f0c1d2e"), **LIVE)
async def events_of_domain(
    request: Request, domain: given.DomainName, wanted: Annotated[Wanted, Depends()], from_: Begin = None, after: After = None,
    last_event_id: LastEventId = None,
) -> Response:  # fmt: skip
    """Each record once, in order. After a break, send Last-Event-ID: the stream goes on behind it."""
    return await _stream(request, [domain], wanted, from_, after, last_event_id)


@router.get("/events", summary="Records of several pools, live", responses=_example("pool-a:118:5f0c1d2e,pool-b:-1"), **LIVE)
async def events(
    request: Request, wanted: Annotated[Wanted, Depends()],
    domain: Annotated[list[given.Text] | None, given.several("This pool. Default: all.", "pool-a")] = None,
    from_: Begin = None, after: After = None, last_event_id: LastEventId = None,
) -> Response:  # fmt: skip
    """Each record once, in the order of its pool, also of pools that are new. `id` holds the place in every pool."""
    return await _stream(request, domain, wanted, from_, after, last_event_id)


async def _stream(
    request: Request, names: list[str] | None, wanted: Wanted, begin: str | None, after: str | None, last: str | None
) -> Response:
    archive: Archive = request.app.state.archive
    parameter, seen = ("Last-Event-ID", last) if last else ("after", after)
    async with archive.reading() as connection:
        rows = {row["name"]: row for row in await connection.fetch(f"{DOMAINS} ORDER BY d.name")}
        for name in names or ():
            if name not in rows:
                raise Missing(f"there is no pool {name!r}; the archive holds: {', '.join(rows) or 'none'}")
        chosen = {name: rows[name] for name in names or rows}
        if seen and names is None:
            begin = "start"  # a place that does not name a pool is older than the pool
        places = {name: _begin(row, begin) for name, row in chosen.items()}
        if seen:
            places |= _places(parameter, seen, chosen)
        before = {name: place.next_seq - 1 for name, place in places.items()}
        for name, digest in await connection.fetch(HASHES, list(before), list(before.values())):
            if not digest.hex().startswith(places[name].hash):
                raise bad(parameter, seen, f"a record that is archived; that one of {name} was set aside, and is another one now")
            places[name] = Place(places[name].next_seq, digest.hex()[:8])
    streams: Streams = request.app.state.streams
    return EventStream(streams, archive, {name: row["id"] for name, row in chosen.items()}, places, wanted, names is None)


def _begin(row: Record, begin: str | None) -> Place:
    if begin is None or begin == "now":
        return Place(row["next_seq"])
    return Place(max(row["first_seq"], 0 if begin == "start" else min(int(begin), row["next_seq"])))


def _places(parameter: str, text: str, pools: dict[str, Record]) -> dict[str, Place]:
    """Where to go on, by domain."""
    found = {}
    for part in text.split(","):
        said = PLACES.fullmatch(part.strip())
        if said is None:
            raise bad(parameter, text, PLACE)
        if said[1] not in pools:
            raise bad(parameter, text, f"{PLACE}, of the pools that are asked for: {', '.join(pools)}")
        name, place, pool = said[1], Place(int(said[2]) + 1, said[3] or ""), pools[said[1]]
        if place.next_seq > pool["next_seq"]:
            raise bad(parameter, text, f"a record that is archived; the last one of {name} is {pool['next_seq'] - 1}")
        if place.next_seq < pool["first_seq"]:
            raise bad(parameter, text, f"a record that is archived; the first one of {name} is {pool['first_seq']}")
        found[name] = place
    return found


class Shorter(Exception):
    """What was sent is not archived any more: records were set aside. Whoever comes back is told so."""


class Streams:
    """Those that run. most: at a time; heartbeat: seconds."""

    def __init__(self, most: int, heartbeat: float) -> None:
        self.most, self.heartbeat = most, heartbeat
        self.running: list[EventStream] = []


class EventStream(Response):
    """One stream: reads a page, sends it, and reads the next one when it is gone. places: where it is, by domain.

    every: pools that are archived later come, too. sent: so many records were handed over to be sent.
    """

    media_type = "text/event-stream"

    def __init__(
        self, streams: Streams, archive: Archive, ids: dict[str, int], places: dict[str, Place], wanted: Wanted, every: bool
    ) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"}, media_type=self.media_type)
        del self.headers["content-length"]
        if len(streams.running) >= streams.most:
            raise Busy(f"there are {streams.most} streams already, as many as this interface is set to keep")
        self._streams, self._archive, self._ids, self._places, self._wanted = streams, archive, ids, places, wanted
        self._every = every
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
            if not moved and not (self._every and await self._new_pools()):
                try:
                    async with asyncio.timeout(self._streams.heartbeat):
                        await news.wait()
                except TimeoutError:
                    yield f": still here\nid: {self._id()}\n\n".encode()

    async def _new_pools(self) -> bool:
        """Whether there are any; from their first records on they belong to the stream."""
        async with self._archive.reading() as connection:
            rows = await connection.fetch("SELECT id, name FROM domains WHERE id != ALL($1) ORDER BY name", [*self._ids.values()])
        self._ids |= {row["name"]: row["id"] for row in rows}
        self._places |= {row["name"]: Place(0) for row in rows}
        return bool(rows)

    async def _page(self, name: str) -> tuple[list[Record], bool]:
        """The next records that are wanted, and whether there is more to look through."""
        pool, place, known = self._ids[name], self._places[name].next_seq, self._places[name].hash
        where = Where(pool, place, PAGE)
        wanted = self._wanted
        narrow(where, wanted.job, wanted.project, type_=wanted.type)
        filtered = any((wanted.job, wanted.project, wanted.type))
        async with self._archive.reading() as connection:
            end = await connection.fetchval("SELECT next_seq FROM domains WHERE id = $1", pool)
            if end < place or not (await self._hash(connection, pool, place - 1) or known).startswith(known):
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
                self._places[name] = Place(to, await self._hash(connection, pool, to - 1))
        return rows, True

    async def _hash(self, connection: Connection, pool: int, seq: int) -> str:
        """How the record's hash begins; empty where it is not archived."""
        found = await connection.fetchval("SELECT hash FROM records WHERE domain = $1 AND seq = $2", pool, seq)
        return found.hex()[:8] if found is not None else ""

    def _event(self, name: str, row: Record) -> bytes:
        self._places[name] = Place(row["seq"] + 1, row["hash"].hex()[:8])
        self.sent += 1
        data = orjson.dumps(told(row), option=JSON_OPTIONS)
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (self._id().encode(), row["type"].encode(), data)

    def _id(self) -> str:
        """What was dealt with: sent, or passed over as not wanted."""
        said = {name: f"{name}:{place.next_seq - 1}" for name, place in self._places.items()}
        return ",".join(f"{text}:{self._places[name].hash}".rstrip(":") for name, text in said.items())


async def _gone(receive: Receive) -> None:
    message: Any = None
    while message is None or message["type"] != "http.disconnect":
        message = await receive()
