"""Reads the raw log from the archive in PostgreSQL: every message of a pool's partition, in order.

The messages are the bytes from Kafka, so they are verified and replayed like the log itself. asyncpg is imported on use.
"""

import json
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from bailiff_bus.port import Headers, Message
from bailiff_bus.topics import AUDIT
from bailiff_core.records import ChainHead, Wire
from bailiff_core.records.layout import Layout, Values
from bailiff_core.records.merkle import Frontier
from bailiff_core.records.wire import parse_headers

from .extras import how_to_install

PAGE = 5_000
HASH_BYTES = 32
_LENGTH = struct.Struct(">I")


class ArchiveError(Exception):
    """The archive cannot be read or does not contain the pool. The text gives the reason."""


def without_nul(text: str) -> str:
    """The text without U+0000, which PostgreSQL cannot store; the raw bytes are stored unchanged."""
    return text.replace("\x00", "�")


def pack_headers(headers: Headers) -> bytes:
    """Headers as bytes, in order: each name and value prefixed by its length in 4 bytes, big-endian."""
    return pack_layout(*parse_headers(Wire(headers, b"")))


def pack_layout(layout: Layout, values: Values) -> bytes:
    """As `pack_headers`, for parsed headers."""
    contents, parts = values[1:-1], _named(layout).copy()
    parts[1::3] = map(_length_of, map(len, contents))
    parts[2::3] = contents
    return b"".join(parts)


def unpack_headers(raw: bytes) -> Headers:
    """The inverse of `pack_headers`. Raises `ValueError` for invalid bytes."""
    parts: list[bytes] = []
    at = 0
    while at < len(raw):
        if at + 4 > len(raw):
            raise ValueError("headers end inside a length")
        (length,) = _LENGTH.unpack_from(raw, at)
        at += 4 + length
        if at > len(raw):
            raise ValueError("headers end inside a name or a value")
        parts.append(raw[at - length : at])
    if len(parts) % 2:
        raise ValueError("headers end after a name")
    return tuple(zip([name.decode() for name in parts[::2]], parts[1::2], strict=True))


class _Lengths(dict[int, bytes]):
    def __missing__(self, length: int) -> bytes:
        return _LENGTH.pack(length)


_length_of = _Lengths({length: _LENGTH.pack(length) for length in range(1024)}).__getitem__


@lru_cache(maxsize=64)
def _named(layout: Layout) -> list[bytes]:
    """Each name with its length prefix, followed by two empty slots for length and value."""
    raws = [name.encode() for name in layout.names]
    return [part for raw in raws for part in (_LENGTH.pack(len(raw)) + raw, b"", b"")]


@dataclass(slots=True)
class ArchivedLog:
    """One pool's log in the archive. start, tree: chain and Merkle tree before its first record."""

    connection: Any
    id: int
    pool: str
    partition: int
    start: ChainHead = field(init=False)
    tree: Frontier = field(default_factory=Frontier)

    def __post_init__(self) -> None:
        self.start = ChainHead(self.pool)

    async def messages(self, from_seq: int = 0) -> AsyncGenerator[Message, None]:
        """Records and orphans in offset order. Headers that cannot be unpacked are returned empty."""
        orphans = await self.connection.fetch(
            """SELECT "offset", appended_at, key, headers, value FROM orphans WHERE pool = $1
               AND "offset" > coalesce((SELECT "offset" FROM records WHERE pool = $1 AND seq = $2 - 1), -1)
               ORDER BY "offset" """,
            self.id,
            from_seq,
        )
        pending = iter([self.message(row) for row in orphans])
        orphan = next(pending, None)
        while True:
            rows = await self.connection.fetch(
                """SELECT seq, "offset", appended_at, key, headers, value FROM records
                   WHERE pool = $1 AND seq >= $2 ORDER BY seq LIMIT $3""",
                self.id,
                from_seq,
                PAGE,
            )
            for row in rows:
                message = self.message(row)
                while orphan is not None and orphan.offset < message.offset:
                    yield orphan
                    orphan = next(pending, None)
                yield message
            if len(rows) < PAGE:
                break
            from_seq = rows[-1]["seq"] + 1
        while orphan is not None:
            yield orphan
            orphan = next(pending, None)

    def message(self, row: Any) -> Message:
        """The message of this row of `records` or `orphans`."""
        try:
            headers = unpack_headers(row["headers"])
        except ValueError:
            headers = ()
        return Message(AUDIT.name, self.partition, row["offset"], row["appended_at"], row["key"], headers, row["value"])


@asynccontextmanager
async def connected(dsn: str) -> AsyncGenerator[Any, None]:
    """A connection to this PostgreSQL address. Raises `ArchiveError`."""
    try:
        import asyncpg
    except ImportError:
        raise ArchiveError(f"asyncpg is not installed; {how_to_install('archive')}") from None
    try:
        connection = await asyncpg.connect(dsn, timeout=10)
    except (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise ArchiveError(f"PostgreSQL cannot be reached: {error or type(error).__name__}") from None
    try:
        yield connection
    finally:
        await connection.close(timeout=5)


async def pick_pool(connection: Any, pool: str | None) -> Any:
    """The row of this pool, or of the only one. Raises `ArchiveError`."""
    if await connection.fetchval("SELECT to_regclass('pools') IS NULL"):
        raise ArchiveError("this database is not a Bailiff archive")
    rows = await connection.fetch("SELECT * FROM pools ORDER BY name")
    found = [row for row in rows if pool is None or row["name"] == pool]
    names = ", ".join(row["name"] for row in rows) or "none"
    if len(found) != 1:
        raise ArchiveError(f"{'specify the pool' if found else 'no such pool'}; the archive contains: {names}")
    return found[0]


@asynccontextmanager
async def open_archive(dsn: str, pool: str | None = None) -> AsyncGenerator[ArchivedLog, None]:
    """The log of a pool in the archive at this PostgreSQL address; the pool is optional if there is only one.

    Raises `ArchiveError`.
    """
    async with connected(dsn) as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        yield await archived_log(connection, pool)


async def archived_log(connection: Any, pool: str | None) -> ArchivedLog:
    """The log of this pool on a connection. Raises `ArchiveError`."""
    row = await pick_pool(connection, pool)
    log = ArchivedLog(connection, row["id"], row["name"], row["partition"])
    if row["first_seq"]:
        log.start = ChainHead.from_data(json.loads(row["first_head"]))
        log.tree = tree_from(row["first_seq"], row["first_peaks"])
    return log


def tree_from(size: int, peaks: bytes) -> Frontier:
    """The tree of `size` leaves with these concatenated peaks."""
    return Frontier(size, [peaks[at : at + HASH_BYTES] for at in range(0, len(peaks), HASH_BYTES)])
