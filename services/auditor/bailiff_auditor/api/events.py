"""The live stream: archived records as server-sent events, from any position on, without loss or duplicates.

Events are read from the archive page by page; a notification only signals that there is more. Past and live records thus
take the same path, nothing unarchived is sent, and a slow client costs one page of memory. The `id` of an event is its
position, `pool:seq:hash`; in a stream of several pools, the position in each.
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

from bailiff_service.json_response import JSON_OPTIONS
from bailiff_service.problems import not_found, unavailable
from bailiff_service.race import race

from . import parameters as given
from .archive import Archive
from .problems import bad
from .query import POOLS, Where
from .records import COLUMNS, FROM, narrow, record_item

router = APIRouter(tags=["live"])
PAGE = 200
WINDOW = 20_000  # records scanned per query with filters
SEND_TIMEOUT_S = 30.0  # a client that accepts nothing for this long is disconnected; it can resume
RETRY_MS = 1000
POSITION_EXAMPLE = "positions such as `pool-a:118`, or `pool-a:118:5f0c1d2e,pool-b:7`"
POSITIONS = re.compile(r"(.*?):(-1|[0-9]{1,18})(?::([0-9a-f]{8}))?", re.ASCII | re.DOTALL)
HASHES = """SELECT d.name, r.hash FROM unnest($1::text[], $2::bigint[]) p(name, seq) JOIN pools d ON d.name = p.name
    JOIN records r ON r.pool = d.id AND r.seq = p.seq"""

After = Annotated[
    str | None, Query(description="Same as the header Last-Event-ID, for clients that cannot send it.", max_length=10_000)
]
Begin = Annotated[
    str | None,
    Query(
        alias="from",
        description="Where to start without a position: `now`, `start`, or a seq.",
        max_length=20,
        pattern=r"^(now|start|[0-9]{1,18})$",
    ),
]
LastEventId = Annotated[str | None, Header(description="The last event received: resume after it.", max_length=10_000)]


@dataclass(frozen=True, slots=True)
class Position:
    """A client's position in a pool. next_seq: of the next record; hash: prefix of the previous record's hash."""

    next_seq: int
    hash: str = ""


class Wanted:
    """Filters of a stream."""

    def __init__(self, type_: given.Types = None, job: given.Jobs = None, project: given.Projects = None) -> None:
        self.type, self.job, self.project = type_, job, project


def _example(position: str) -> dict[int | str, dict[str, Any]]:
    sent = f'id: {position}\nevent: JobPlaced\ndata: {{"seq":118,"type":"JobPlaced"}}\n\n'
    return {200: {"content": {"text/event-stream": {"example": sent}}}}


LIVE: dict[str, Any] = {"response_class": Response}


@router.get("/pools/{pool}/events", summary="Records of one pool, live", responses=_example("pool-a:118:5f0c1d2e"), **LIVE)
async def events_of_pool(
    request: Request,
    pool: given.PoolName,
    wanted: Annotated[Wanted, Depends()],
    from_: Begin = None,
    after: After = None,
    last_event_id: LastEventId = None,
) -> Response:
    """Each record once, in order. After a disconnect, send Last-Event-ID to resume."""
    return await _stream(request, [pool], wanted, from_, after, last_event_id)


@router.get("/events", summary="Records of several pools, live", responses=_example("pool-a:118:5f0c1d2e,pool-b:-1"), **LIVE)
async def events(
    request: Request,
    wanted: Annotated[Wanted, Depends()],
    pool: Annotated[list[given.Text] | None, given.several("This pool. Default: all.", "pool-a")] = None,
    from_: Begin = None,
    after: After = None,
    last_event_id: LastEventId = None,
) -> Response:
    """Each record once, in order per pool, including new pools. `id` has the position in every pool."""
    return await _stream(request, pool, wanted, from_, after, last_event_id)


async def _stream(
    request: Request, names: list[str] | None, wanted: Wanted, begin: str | None, after: str | None, last: str | None
) -> Response:
    archive: Archive = request.app.state.archive
    parameter, seen = ("Last-Event-ID", last) if last else ("after", after)
    async with archive.reading() as connection:
        rows = {row["name"]: row for row in await connection.fetch(f"{POOLS} ORDER BY d.name")}
        for name in names or ():
            if name not in rows:
                raise not_found(f"no pool {name!r}; archived pools: {', '.join(rows) or 'none'}")
        chosen = {name: rows[name] for name in names or rows}
        if seen and names is None:
            begin = "start"  # a position without a pool predates the pool
        positions = {name: _begin(row, begin) for name, row in chosen.items()}
        if seen:
            positions |= _positions(parameter, seen, chosen)
        before = {name: position.next_seq - 1 for name, position in positions.items()}
        for name, digest in await connection.fetch(HASHES, list(before), list(before.values())):
            if not digest.hex().startswith(positions[name].hash):
                raise bad(parameter, seen, f"an archived record; that record of {name} was moved to a fork and replaced")
            positions[name] = Position(positions[name].next_seq, digest.hex()[:8])
    streams: Streams = request.app.state.streams
    return EventStream(streams, archive, {name: row["id"] for name, row in chosen.items()}, positions, wanted, names is None)


def _begin(row: Record, begin: str | None) -> Position:
    if begin is None or begin == "now":
        return Position(row["next_seq"])
    return Position(max(row["first_seq"], 0 if begin == "start" else min(int(begin), row["next_seq"])))


def _positions(parameter: str, text: str, pools: dict[str, Record]) -> dict[str, Position]:
    """Parse positions by pool."""
    found = {}
    for part in text.split(","):
        match = POSITIONS.fullmatch(part.strip())
        if match is None:
            raise bad(parameter, text, POSITION_EXAMPLE)
        if match[1] not in pools:
            raise bad(parameter, text, f"{POSITION_EXAMPLE}, of the requested pools: {', '.join(pools)}")
        name, position, pool = match[1], Position(int(match[2]) + 1, match[3] or ""), pools[match[1]]
        if position.next_seq > pool["next_seq"]:
            raise bad(parameter, text, f"an archived record; the last one of {name} is {pool['next_seq'] - 1}")
        if position.next_seq < pool["first_seq"]:
            raise bad(parameter, text, f"an archived record; the first one of {name} is {pool['first_seq']}")
        found[name] = position
    return found


class RecordsForked(Exception):
    """Records already sent were moved to a fork. The stream ends; a reconnecting client gets an error."""


class Streams:
    """Open streams. most: maximum number; heartbeat: interval in seconds."""

    def __init__(self, most: int, heartbeat: float) -> None:
        self.most, self.heartbeat = most, heartbeat
        self.running: list[EventStream] = []


class EventStream(Response):
    """One stream: reads and sends one page at a time. positions: positions by pool.

    every: include pools that are archived later. sent: number of records sent.
    """

    media_type = "text/event-stream"

    def __init__(
        self, streams: Streams, archive: Archive, ids: dict[str, int], positions: dict[str, Position], wanted: Wanted, every: bool
    ) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"}, media_type=self.media_type)
        del self.headers["content-length"]
        if len(streams.running) >= streams.most:
            raise unavailable(f"{streams.most} streams are open already (BAILIFF_API_STREAMS)")
        self._streams, self._archive, self._ids, self._positions, self._wanted = streams, archive, ids, positions, wanted
        self._every = every
        self.sent = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ends when the client disconnects or stalls, or the service stops."""
        self._streams.running.append(self)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if scope.get("bailiff.head_only"):
                await send({"type": "http.response.body", "body": b""})
                return
            with suppress(TimeoutError):
                await race(self._send_all(send), _disconnected(receive))
        finally:
            self._streams.running.remove(self)

    async def _send_all(self, send: Send) -> None:
        with suppress(RecordsForked):
            async for piece in self._pieces():
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _pieces(self) -> AsyncIterator[bytes]:
        yield f"retry: {RETRY_MS}\nid: {self._id()}\n\n".encode()
        while not self._archive.closing:
            archived = self._archive.archived()
            moved = False
            for name in self._positions:
                rows, more = await self._page(name)
                moved = moved or more
                if rows:
                    yield b"".join([self._event(name, row) for row in rows])
            if not moved and not (self._every and await self._new_pools()):
                try:
                    async with asyncio.timeout(self._streams.heartbeat):
                        await archived.wait()
                except TimeoutError:
                    yield f": heartbeat\nid: {self._id()}\n\n".encode()

    async def _new_pools(self) -> bool:
        """Add new pools from their first record on. Returns whether there are any."""
        async with self._archive.reading() as connection:
            rows = await connection.fetch("SELECT id, name FROM pools WHERE id != ALL($1) ORDER BY name", [*self._ids.values()])
        self._ids |= {row["name"]: row["id"] for row in rows}
        self._positions |= {row["name"]: Position(0) for row in rows}
        return bool(rows)

    async def _page(self, name: str) -> tuple[list[Record], bool]:
        """The next matching records, and whether there is more to scan."""
        pool, position, known = self._ids[name], self._positions[name].next_seq, self._positions[name].hash
        where = Where(pool, position, PAGE)
        wanted = self._wanted
        narrow(where, wanted.job, wanted.project, type_=wanted.type)
        filtered = any((wanted.job, wanted.project, wanted.type))
        async with self._archive.reading() as connection:
            end = await connection.fetchval("SELECT next_seq FROM pools WHERE id = $1", pool)
            if end < position or not (await self._hash(connection, pool, position - 1) or known).startswith(known):
                raise RecordsForked
            to = min(end, position + WINDOW) if filtered else end
            if position >= to:
                return [], False
            where.add("r.seq < ?", to)
            rows: list[Record] = await connection.fetch(
                f"SELECT {COLUMNS} {FROM} WHERE r.pool = $1 AND r.seq >= $2 AND {where.text} ORDER BY r.seq LIMIT $3",
                *where.values,
            )
            if not rows:
                self._positions[name] = Position(to, await self._hash(connection, pool, to - 1))
        return rows, True

    async def _hash(self, connection: Connection, pool: int, seq: int) -> str:
        """Prefix of the record's hash; empty if it is not archived."""
        found = await connection.fetchval("SELECT hash FROM records WHERE pool = $1 AND seq = $2", pool, seq)
        return found.hex()[:8] if found is not None else ""

    def _event(self, name: str, row: Record) -> bytes:
        self._positions[name] = Position(row["seq"] + 1, row["hash"].hex()[:8])
        self.sent += 1
        data = orjson.dumps(record_item(row), option=JSON_OPTIONS)
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (self._id().encode(), row["type"].encode(), data)

    def _id(self) -> str:
        """The position after the records that were sent or filtered out."""
        positions = {name: f"{name}:{position.next_seq - 1}" for name, position in self._positions.items()}
        return ",".join(f"{text}:{self._positions[name].hash}".rstrip(":") for name, text in positions.items())


async def _disconnected(receive: Receive) -> None:
    message: Any = None
    while message is None or message["type"] != "http.disconnect":
        message = await receive()
