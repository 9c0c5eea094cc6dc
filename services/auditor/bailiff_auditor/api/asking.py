"""One question to the archive: which pool, the transaction, filters, a page, and whether the caller has the answer already."""

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

from .answers import Answer
from .archive import Archive
from .parameters import DomainName, Paging
from .problems import Missing, NotModified, bad

Row = Mapping[str, Any]
KEPT = {"cache-control": "private, no-cache"}  # ask again each time, with the ETag
DOMAINS = """SELECT d.*, coalesce(f.holds_seq, -1) AS holds_seq, f.log_end, f.measured_at
    FROM domains d LEFT JOIN followed f ON f.domain = d.id"""


class Where:
    """Conditions and their values. `?` stands for the value."""

    def __init__(self, *values: Any) -> None:
        self.values: list[Any] = list(values)
        self._parts: list[str] = []

    def add(self, condition: str, value: Any) -> None:
        """Unless there is no value."""
        if value is not None:
            self.values.append(value)
            self._parts.append(condition.replace("?", f"${len(self.values)}"))

    def plain(self, condition: str) -> None:
        """Without a value."""
        self._parts.append(condition)

    @property
    def text(self) -> str:
        """All of them."""
        return " AND ".join(self._parts) or "true"


@dataclass(frozen=True)
class Listing:
    """A list: where its rows come from, a total order, and how a row is told. key: names in a row with their SQL."""

    name: str
    select: str
    key: Mapping[str, str]
    shape: Callable[[Record], dict[str, Any]] = dict
    order: Literal["asc", "desc"] = "desc"


@dataclass
class Reading:
    """A pool at one state of the archive."""

    connection: Connection
    domain: Row
    etag: str

    async def fetch(self, sql: str, *values: Any) -> list[Record]:
        """Rows."""
        found: list[Record] = await self.connection.fetch(sql, *values)
        return found

    async def page(self, listing: Listing, where: Where, paging: Paging, fingerprint: str) -> Answer:
        """One page of a list."""
        columns = ", ".join(listing.key.values())
        order = paging.order or listing.order
        mark = hashlib.sha256(f"{listing.name}|{order}|{fingerprint}".encode()).hexdigest()[:12]
        if paging.cursor is not None:
            after = read_cursor(paging.cursor, mark, len(listing.key))
            places = ", ".join(f"${number}" for number in range(len(where.values) + 1, len(where.values) + 1 + len(after)))
            where.values += after
            where.plain(f"({columns}) {'<' if order == 'desc' else '>'} ({places})")
        by = ", ".join(f"{column} {order}" for column in listing.key.values())
        where.values.append(paging.limit + 1)
        rows = await self.fetch(f"{listing.select} WHERE {where.text} ORDER BY {by} LIMIT ${len(where.values)}", *where.values)
        more = len(rows) > paging.limit
        del rows[paging.limit :]
        after = [rows[-1][name] for name in listing.key] if more else []
        return self.answer({"items": [listing.shape(row) for row in rows], "next": make_cursor(mark, after) if more else None})

    def answer(self, data: Any) -> Answer:
        """With what lets the caller ask again cheaply."""
        return Answer(data, headers={**KEPT, "etag": self.etag})


class Ask:
    """A question about one pool."""

    def __init__(self, request: Request, domain: DomainName) -> None:
        self.request, self.name = request, domain
        self.archive: Archive = request.app.state.archive

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Reading]:
        """Raises `Missing` where there is no such pool, `NotModified` where the caller has the answer to this question."""
        async with self.archive.reading() as connection:
            row = await connection.fetchrow(f"{DOMAINS} WHERE d.name = $1", self.name)
            if row is None:
                known = [each["name"] for each in await connection.fetch("SELECT name FROM domains ORDER BY name")]
                raise Missing(f"there is no pool {self.name!r}; the archive holds: {', '.join(known) or 'none'}")
            etag = self._etag(row)
            if etag in [each.strip() for each in self.request.headers.get("if-none-match", "").split(",")]:
                raise NotModified(etag)
            yield Reading(connection, row, etag)

    async def page(self, listing: Listing, where: Where, paging: Paging) -> Answer:
        """One page of a list about this pool, whose rows are those with `domain`'s id as the first value."""
        async with self.reading() as reading:
            where.values[0] = reading.domain["id"]
            return await reading.page(listing, where, paging, self.fingerprint)

    @property
    def fingerprint(self) -> str:
        """The question without where in its answer we are."""
        given = sorted(
            (name, value) for name, value in self.request.query_params.multi_items() if name not in ("cursor", "limit")
        )
        return orjson.dumps([self.request.url.path, given]).decode()

    def _etag(self, row: Row) -> str:
        columns = ("identity", "first_seq", "next_offset", "head_hash", "broken", "seals_offset", "holds_seq")
        state = [row[name] for name in columns]
        text = orjson.dumps([state, str(row["measured_at"]), self.request.url.path, self.request.url.query])
        return f'"{hashlib.sha256(text).hexdigest()[:24]}"'


def in_domain(column: str) -> Where:
    """Conditions of which the first is the pool; its id is filled in when it is known."""
    where = Where(None)
    where.plain(f"{column} = $1")
    return where


def make_cursor(mark: str, after: Sequence[Any]) -> str:
    """Where a page ended, in characters that may stand in an address."""
    return base64.urlsafe_b64encode(orjson.dumps([mark, *after])).decode().rstrip("=")


def read_cursor(text: str, mark: str, parts: int) -> list[Any]:
    """What `make_cursor` was given. Raises `Bad` for anything else, and for a cursor of another question."""
    try:
        found = orjson.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error):
        raise bad("cursor", text, "`next` of the page before, unchanged") from None
    if not isinstance(found, list) or len(found) != parts + 1 or found[0] != mark:
        raise bad("cursor", text, "`next` of a page with the same other parameters, unchanged")
    after = found[1:]
    for value in after:
        right = isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
        if not right and not (isinstance(value, str) and "\x00" not in value):
            raise bad("cursor", text, "`next` of the page before, unchanged")
    return after
