"""Read-only connections to the archive, and a listener for newly archived records."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import asyncpg
from asyncpg import Connection, Pool

from bailiff_auditor.database import UNREACHABLE, migrations
from bailiff_service.exit_code import ExitCode, MustStop
from bailiff_service.logs import logger

CHANNEL = "bailiff_archived"
CONNECT_TIMEOUT = 5.0
LISTEN_RETRY = 1.0


class Archive:
    """connections: maximum size of the connection pool. timeout: per statement, seconds."""

    def __init__(self, dsn: str, connections: int, timeout: float) -> None:
        self._dsn, self._connections, self._timeout = dsn, connections, timeout
        self._pool: Pool | None = None
        self._archived = asyncio.Event()
        self.closing = False

    async def open(self) -> None:
        """Create the connection pool. It connects on first use. Raises `MustStop` for an invalid address."""
        try:
            self._pool = await asyncpg.create_pool(
                self._dsn,
                min_size=0,
                max_size=self._connections,
                timeout=CONNECT_TIMEOUT,
                command_timeout=self._timeout + 1.0,
                server_settings=self._session("bailiff-api"),
            )
        except ValueError as error:
            raise MustStop(ExitCode.SETTINGS, f"BAILIFF_POSTGRES: {error}") from None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Connection]:
        """A read-only, repeatable-read transaction."""
        assert self._pool is not None
        connection = await self._pool.acquire(timeout=CONNECT_TIMEOUT)
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                yield connection
        finally:
            await self._pool.release(connection)

    async def fault(self) -> str | None:
        """Why the archive cannot be read, or None."""
        newest = migrations()[-1].version
        try:
            async with self.reading() as connection:
                found = await connection.fetchval("SELECT max(version) FROM schema_versions")
        except asyncpg.UndefinedTableError:
            found = None
        except UNREACHABLE as error:
            return f"PostgreSQL is unavailable: {error or type(error).__name__}"
        except asyncpg.PostgresError as error:
            return f"PostgreSQL rejects the query: {error}"
        if found is None or found < newest:
            return f"the archive's schema has version {found or 0}, expected {newest}: start the auditor of this release"
        return None

    async def listen(self) -> None:
        """Run forever: wake waiters when records are archived, and when the connection is lost."""
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
            except (*UNREACHABLE, asyncpg.PostgresError) as error:
                logger().warning("cannot listen for archived records", reason=str(error) or type(error).__name__)
            finally:
                if connection is not None:
                    connection.terminate()
            self.wake()
            await asyncio.sleep(LISTEN_RETRY)

    def wake(self) -> None:
        """Wake all waiters."""
        archived, self._archived = self._archived, asyncio.Event()
        archived.set()

    def archived(self) -> asyncio.Event:
        """An event that is set when something is archived after this call."""
        return self._archived

    async def close(self) -> None:
        """Close all connections and wake all waiters."""
        self.closing = True
        self.wake()
        if self._pool is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    await self._pool.close()
            self._pool.terminate()

    def _session(self, name: str) -> dict[str, str]:
        return {
            "application_name": name,
            "default_transaction_read_only": "on",
            "statement_timeout": str(int(self._timeout * 1000)),
            "idle_in_transaction_session_timeout": "60000",
        }
