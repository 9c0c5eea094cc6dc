"""Queries of one pool: read transaction, filters, paging, ETag."""

import base64
import binascii
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from asyncpg import Connection, Record
from fastapi import Request

from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import not_found

from .archive import Archive
from .parameters import Paging, PoolName
from .problems import NotModified, bad

Row = Mapping[str, Any]
REVALIDATE = {"cache-control": "private, no-cache"}  # revalidate with the ETag
POOLS = """SELECT d.*, coalesce(f.allocations_seq, -1) AS allocations_seq, f.log_end, f.measured_at
    FROM pools d LEFT JOIN followed f ON f.pool = d.id"""


class Where:
    """SQL conditions and their values. `?` stands for the value."""

    def __init__(self, *values: Any) -> None:
        self.values: list[Any] = list(values)
        self._parts: list[str] = []

    def add(self, condition: str, value: Any) -> None:
        """Add a condition, unless the value is None."""
        if value is not None:
            self.values.append(value)
            self._parts.append(condition.replace("?", f"${len(self.values)}"))

    def plain(self, condition: str) -> None:
        """Add a condition without a value."""
        self._parts.append(condition)

    @property
    def text(self) -> str:
        """All conditions, joined with AND."""
        return " AND ".join(self._parts) or "true"


@dataclass(frozen=True)
class Listing:
    """A list endpoint: SELECT, total order and row conversion. key: sort columns by name, with their SQL."""

    name: str
    select: str
    key: Mapping[str, str]
    shape: Callable[[Record], dict[str, Any]] = dict
    order: Literal["asc", "desc"] = "desc"


@dataclass
class Reading:
    """A pool in one read transaction."""

    connection: Connection
    pool: Row
    etag: str

    async def fetch(self, sql: str, *values: Any) -> list[Record]:
        """Fetch rows."""
        found: list[Record] = await self.connection.fetch(sql, *values)
        return found

    async def page(self, listing: Listing, where: Where, paging: Paging, fingerprint: str) -> JsonResponse:
        columns = ", ".join(listing.key.values())
        order = paging.order or listing.order
        query_hash = hashlib.sha256(f"{listing.name}|{order}|{fingerprint}".encode()).hexdigest()[:12]
        if paging.cursor is not None:
            after = read_cursor(paging.cursor, query_hash, len(listing.key))
            placeholders = ", ".join(f"${number}" for number in range(len(where.values) + 1, len(where.values) + 1 + len(after)))
            where.values += after
            where.plain(f"({columns}) {'<' if order == 'desc' else '>'} ({placeholders})")
        by = ", ".join(f"{column} {order}" for column in listing.key.values())
        where.values.append(paging.limit + 1)
        rows = await self.fetch(f"{listing.select} WHERE {where.text} ORDER BY {by} LIMIT ${len(where.values)}", *where.values)
        more = len(rows) > paging.limit
        del rows[paging.limit :]
        after = [rows[-1][name] for name in listing.key] if more else []
        return self.answer(
            {"items": [listing.shape(row) for row in rows], "next": make_cursor(query_hash, after) if more else None}
        )

    def answer(self, data: Any) -> JsonResponse:
        """The response with ETag."""
        return JsonResponse(data, headers={**REVALIDATE, "etag": self.etag})


class PoolQuery:
    """A query of one pool."""

    def __init__(self, request: Request, pool: PoolName) -> None:
        self.request, self.name = request, pool
        self.archive: Archive = request.app.state.archive

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Reading]:
        """A read transaction. Raises `NotFound` for an unknown pool, `NotModified` if the client's ETag matches."""
        async with self.archive.reading() as connection:
            row = await connection.fetchrow(f"{POOLS} WHERE d.name = $1", self.name)
            if row is None:
                known = [each["name"] for each in await connection.fetch("SELECT name FROM pools ORDER BY name")]
                raise not_found(f"no pool {self.name!r}; archived pools: {', '.join(known) or 'none'}")
            etag = self._etag(row)
            if etag in [each.strip() for each in self.request.headers.get("if-none-match", "").split(",")]:
                raise NotModified(etag)
            yield Reading(connection, row, etag)

    async def page(self, listing: Listing, where: Where, paging: Paging) -> JsonResponse:
        """One page of a list. The first value of `where` becomes the pool's id."""
        async with self.reading() as reading:
            where.values[0] = reading.pool["id"]
            return await reading.page(listing, where, paging, self.fingerprint)

    @property
    def fingerprint(self) -> str:
        """Path and parameters without cursor and limit."""
        given = sorted(
            (name, value) for name, value in self.request.query_params.multi_items() if name not in ("cursor", "limit")
        )
        return orjson.dumps([self.request.url.path, given]).decode()

    def _etag(self, row: Row) -> str:
        columns = ("identity", "first_seq", "next_offset", "head_hash", "broken", "seals_offset", "allocations_seq")
        state = [row[name] for name in columns]
        text = orjson.dumps([state, str(row["measured_at"]), self.request.url.path, self.request.url.query])
        return f'"{hashlib.sha256(text).hexdigest()[:24]}"'


def in_pool(column: str) -> Where:
    """Conditions with the pool first; its id is filled in later."""
    where = Where(None)
    where.plain(f"{column} = $1")
    return where


def make_cursor(query_hash: str, after: Sequence[Any]) -> str:
    """An URL-safe cursor of the last row of a page."""
    return base64.urlsafe_b64encode(orjson.dumps([query_hash, *after])).decode().rstrip("=")


def read_cursor(text: str, query_hash: str, parts: int) -> list[Any]:
    """Parse a cursor. Raises `BadParameter` if it is not valid or of another query."""
    try:
        found = orjson.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error):
        raise bad("cursor", text, "`next` of the previous page, unchanged") from None
    if not isinstance(found, list) or len(found) != parts + 1 or found[0] != query_hash:
        raise bad("cursor", text, "`next` of a page with otherwise the same parameters, unchanged")
    after = found[1:]
    for value in after:
        is_integer = isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
        if not is_integer and not (isinstance(value, str) and "\x00" not in value):
            raise bad("cursor", text, "`next` of the previous page, unchanged")
    return after
