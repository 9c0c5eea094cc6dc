"""Notes in the database where each log ends in Kafka, so that whoever reads only the archive can say how far behind it is."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import asyncpg
from asyncpg import Connection

from .database import AWAY

NOTE = """INSERT INTO followed (domain, log_end, measured_at) SELECT id, $2, now() FROM domains WHERE name = $1
    ON CONFLICT (domain) DO UPDATE SET log_end = excluded.log_end, measured_at = excluded.measured_at"""


class LogEnds:
    """Keeps one connection; where the database is away nothing is noted."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._connection: Connection | None = None

    async def note(self, ends: Mapping[str, int]) -> None:
        """The offsets behind the last message, by domain."""
        try:
            if self._connection is None:
                self._connection = await self._connect()
            with suppress(asyncpg.UndefinedTableError):  # it is about to be made
                await self._connection.executemany(NOTE, list(ends.items()))
        except AWAY:
            self.close()

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
