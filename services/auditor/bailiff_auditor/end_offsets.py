"""Stores the end offset of each log in the database, so that readers of the archive can compute its lag."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import asyncpg
from asyncpg import Connection

from .database import UNREACHABLE

UPSERT = """INSERT INTO followed (pool, log_end, measured_at) SELECT id, $2, now() FROM pools WHERE name = $1
    ON CONFLICT (pool) DO UPDATE SET log_end = excluded.log_end, measured_at = excluded.measured_at"""


class EndOffsets:
    """Writes over one connection. Skips updates while the database is unreachable."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._connection: Connection | None = None

    async def store(self, ends: Mapping[str, int]) -> None:
        """Store the end offsets by pool."""
        try:
            if self._connection is None:
                self._connection = await self._connect()
            with suppress(asyncpg.UndefinedTableError):  # before the first migration
                await self._connection.executemany(UPSERT, list(ends.items()))
        except UNREACHABLE:
            self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
