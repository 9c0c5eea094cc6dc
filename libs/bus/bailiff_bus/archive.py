"""The archive in PostgreSQL, as a reader of raw bytes sees it: every message of a domain's partition, in its order.

What it gives is what Kafka gave, so it is verified and replayed like the log itself. asyncpg is loaded when it is needed.
"""

import json
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from bailiff_core.records import ChainHead, Wire
from bailiff_core.records.layout import Layout, Values
from bailiff_core.records.merkle import Frontier
from bailiff_core.records.wire import laid_out

from .port import Headers, Message
from .topics import AUDIT

PAGE = 5_000
HASH_BYTES = 32
_LENGTH = struct.Struct(">I")


class NotInArchive(Exception):
    """The archive cannot be read, or does not hold that domain. The text says why."""


def without_nul(text: str) -> str:
    """The text as PostgreSQL can hold it; the bytes beside it stay as they are."""
    return text.replace("\x00", "�")


def packed(headers: Headers) -> bytes:
    """Headers in their order as bytes: name and value of each, each after its length in 4 bytes, big-endian."""
    return packed_laid(*laid_out(Wire(headers, b"")))


def packed_laid(layout: Layout, values: Values) -> bytes:
    """The same of a record that is laid out already."""
    contents, parts = values[1:-1], _named(layout).copy()
    parts[1::3] = map(_length_of, map(len, contents))
    parts[2::3] = contents
    return b"".join(parts)


def unpacked(raw: bytes) -> Headers:
    """The headers that `packed` packed. Raises `ValueError` for other bytes."""
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
    """Each name after its length, with room for length and value behind it."""
    raws = [name.encode() for name in layout.names]
    return [part for raw in raws for part in (_LENGTH.pack(len(raw)) + raw, b"", b"")]


@dataclass(slots=True)
class ArchivedLog:
    """One domain's log as the archive holds it. start, tree: where it stands before its first record."""

    connection: Any
    id: int
    domain: str
    partition: int
    start: ChainHead = field(init=False)
    tree: Frontier = field(default_factory=Frontier)

    def __post_init__(self) -> None:
        self.start = ChainHead(self.domain)

    async def messages(self, from_seq: int = 0) -> AsyncGenerator[Message, None]:
        """Records and orphans in the order of their offsets. Bytes that nobody can read as headers are given as none."""
        orphans = await self.connection.fetch(
            """SELECT "offset", appended_at, key, headers, value FROM orphans WHERE domain = $1
               AND "offset" > coalesce((SELECT "offset" FROM records WHERE domain = $1 AND seq = $2 - 1), -1)
               ORDER BY "offset" """,
            self.id, from_seq,
        )  # fmt: skip
        waiting = iter([self.message(row) for row in orphans])
        orphan = next(waiting, None)
        while True:
            rows = await self.connection.fetch(
                """SELECT seq, "offset", appended_at, key, headers, value FROM records
                   WHERE domain = $1 AND seq >= $2 ORDER BY seq LIMIT $3""",
                self.id, from_seq, PAGE,
            )  # fmt: skip
            for row in rows:
                message = self.message(row)
                while orphan is not None and orphan.offset < message.offset:
                    yield orphan
                    orphan = next(waiting, None)
                yield message
            if len(rows) < PAGE:
                break
            from_seq = rows[-1]["seq"] + 1
        while orphan is not None:
            yield orphan
            orphan = next(waiting, None)

    def message(self, row: Any) -> Message:
        """The message of this row of `records` or `orphans`."""
        try:
            headers = unpacked(row["headers"])
        except ValueError:
            headers = ()
        return Message(AUDIT.name, self.partition, row["offset"], row["appended_at"], row["key"], headers, row["value"])


@asynccontextmanager
async def connected(dsn: str) -> AsyncGenerator[Any, None]:
    """A connection to this PostgreSQL address. Raises `NotInArchive`."""
    try:
        import asyncpg
    except ImportError:
        raise NotInArchive("asyncpg is not installed: pip install 'bailiff-bus[archive]'") from None
    try:
        connection = await asyncpg.connect(dsn, timeout=10)
    except (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise NotInArchive(f"PostgreSQL cannot be reached: {error or type(error).__name__}") from None
    try:
        yield connection
    finally:
        await connection.close(timeout=5)


async def pick_domain(connection: Any, domain: str | None) -> Any:
    """The row of this domain, or of the only one. Raises `NotInArchive`."""
    if await connection.fetchval("SELECT to_regclass('domains') IS NULL"):
        raise NotInArchive("this database is no archive of Bailiff's")
    rows = await connection.fetch("SELECT * FROM domains ORDER BY name")
    found = [row for row in rows if domain is None or row["name"] == domain]
    names = ", ".join(row["name"] for row in rows) or "none"
    if len(found) != 1:
        raise NotInArchive(f"which pool? the archive holds: {names}" if found else f"no such pool; it holds: {names}")
    return found[0]


@asynccontextmanager
async def open_archive(dsn: str, domain: str | None = None) -> AsyncGenerator[ArchivedLog, None]:
    """The archive at this PostgreSQL address. domain: which; none where there is only one. Raises `NotInArchive`."""
    async with connected(dsn) as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        yield await archived_log(connection, domain)


async def archived_log(connection: Any, domain: str | None) -> ArchivedLog:
    """The log of this domain on a connection. Raises `NotInArchive`."""
    row = await pick_domain(connection, domain)
    log = ArchivedLog(connection, row["id"], row["name"], row["partition"])
    if row.get("first_seq"):  # an archive of an earlier release has no such column
        log.start = ChainHead(**json.loads(row["first_head"]))
        log.tree = tree_from(row["first_seq"], row["first_peaks"])
    return log


def tree_from(size: int, peaks: bytes) -> Frontier:
    """The tree of so many leaves with these peaks, one after the other."""
    return Frontier(size, [peaks[at : at + HASH_BYTES] for at in range(0, len(peaks), HASH_BYTES)])
