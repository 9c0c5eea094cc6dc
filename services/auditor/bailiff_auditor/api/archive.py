"""The archive as the query interface reaches it: connections that can only read, and one that hears what is archived."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import asyncpg
from asyncpg import Connection, Pool

from bailiff_auditor.database import AWAY, migrations
from bailiff_bus.logs import logger
from bailiff_bus.runtime import ExitCode, MustStop

CHANNEL = "bailiff_archived"
CONNECT_TIMEOUT = 5.0
LISTEN_AGAIN = 1.0


class Archive:
    """connections: at most so many. timeout: of one statement, seconds."""

    def __init__(self, dsn: str, connections: int, timeout: float) -> None:
        self._dsn, self._connections, self._timeout = dsn, connections, timeout
        self._pool: Pool | None = None
        self._news = asyncio.Event()
        self.closing = False

    async def open(self) -> None:
        """Connects on first use, so PostgreSQL may still be away. Raises `MustStop` for an address that is none."""
        try:
            self._pool = await asyncpg.create_pool(
                self._dsn, min_size=0, max_size=self._connections, timeout=CONNECT_TIMEOUT, command_timeout=self._timeout + 1.0,
                server_settings=self._session("bailiff-api"),
            )  # fmt: skip
        except ValueError as error:
            raise MustStop(ExitCode.SETTINGS, f"BAILIFF_POSTGRES: {error}") from None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Connection]:
        """A transaction that sees one state of the archive and can change nothing."""
        assert self._pool is not None
        connection = await self._pool.acquire(timeout=CONNECT_TIMEOUT)
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                yield connection
        finally:
            await self._pool.release(connection)

    async def fault(self) -> str | None:
        """Why it cannot be read from, or None."""
        newest = migrations()[-1].version
        try:
            async with self.reading() as connection:
                found = await connection.fetchval("SELECT max(version) FROM schema_versions")
        except asyncpg.UndefinedTableError:
            found = None
        except AWAY as error:
            return f"PostgreSQL is not there: {error or type(error).__name__}"
        except asyncpg.PostgresError as error:
            return f"PostgreSQL refuses: {error}"
        if found is None or found < newest:
            return f"the archive's schema is of version {found or 0}, and {newest} is needed: the auditor makes it at its start"
        return None

    async def listen(self) -> None:
        """For ever: wake whoever waits for what is archived. Where the connection is lost they are woken, too, and look."""
        while True:
            connection: Connection | None = None
            try:
                connection = await asyncpg.connect(
                    self._dsn, timeout=CONNECT_TIMEOUT, server_settings=self._session("bailiff-api-listen")
                )
                lost = asyncio.Event()
                connection.add_termination_listener(lambda _, lost=lost: lost.set())
                await connection.add_listener(CHANNEL, lambda *_: self.wake())
                self.wake()
                await lost.wait()
            except (*AWAY, asyncpg.PostgresError) as error:
                logger().warning("cannot hear what is archived", reason=str(error) or type(error).__name__)
            finally:
                if connection is not None:
                    connection.terminate()
            self.wake()
            await asyncio.sleep(LISTEN_AGAIN)

    def wake(self) -> None:
        """Whoever waits looks again."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    def news(self) -> asyncio.Event:
        """Is set when something has been archived after this call."""
        return self._news

    async def close(self) -> None:
        """Let go of everything, and of those who wait."""
        self.closing = True
        self.wake()
        if self._pool is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    await self._pool.close()
            self._pool.terminate()

    def _session(self, name: str) -> dict[str, str]:
        return {
            "application_name": name, "default_transaction_read_only": "on",
            "statement_timeout": str(int(self._timeout * 1000)), "idle_in_transaction_session_timeout": "60000",
        }  # fmt: skip
