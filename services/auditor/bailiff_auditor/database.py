"""PostgreSQL: connection, migrations, pool locks, and the errors that mean it is unreachable."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import asyncpg
from asyncpg import Connection

from bailiff_service.exit_code import ExitCode, MustStop

LOCKS = 0x6261696C  # "bail": first key of the advisory locks; the second is 0 for migrations, else a pool's id
UNREACHABLE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InternalClientError,
    asyncpg.PostgresSystemError,
)
"""PostgreSQL is unreachable, restarting, shutting down or out of resources: wait and resume from the committed position."""

VERSIONS = """CREATE TABLE IF NOT EXISTS schema_versions (
    version integer PRIMARY KEY, name text NOT NULL, sha256 text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema, never changed once released."""

    version: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        """SHA-256 of the SQL, stored with the applied migration."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


@cache
def migrations() -> tuple[Migration, ...]:
    """All migrations in order."""
    found = []
    for file in sorted(files("bailiff_auditor").joinpath("migrations").iterdir(), key=lambda each: each.name):
        named = re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name)
        if named is not None:
            found.append(Migration(int(named[1]), named[2], file.read_text(encoding="utf-8")))
    return tuple(found)


async def connect(dsn: str, timeout: float) -> Connection:
    """Connect. timeout: of the connection and of each statement except lock waits, seconds."""
    try:
        return await asyncpg.connect(
            dsn, timeout=timeout, command_timeout=timeout, server_settings={"application_name": "bailiff-auditor"}
        )
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError, ValueError) as error:
        raise MustStop(ExitCode.SETTINGS, f"BAILIFF_POSTGRES: {error}") from None


async def migrate(connection: Connection, steps: Sequence[Migration]) -> int:
    """Migrate the schema to the newest version, one process at a time. Returns the number of migrations applied."""
    await connection.execute("SELECT pg_advisory_lock($1, 0)", LOCKS, timeout=600)
    try:
        await connection.execute(VERSIONS)
        known = {row["version"]: row for row in await connection.fetch("SELECT version, name, sha256 FROM schema_versions")}
        newest = steps[-1].version
        if max(known, default=0) > newest:
            raise MustStop(
                ExitCode.SETTINGS,
                f"the archive's schema has version {max(known)}, this release supports {newest}: use a newer release",
            )
        applied = 0
        for step in steps:
            if step.version in known:
                if known[step.version]["sha256"] != step.sha256:
                    raise MustStop(
                        ExitCode.SETTINGS, f"migration {step.version} ({step.name}) of the archive differs from this release's"
                    )
                continue
            async with connection.transaction():
                await connection.execute(step.sql, timeout=3600)
                await connection.execute(
                    "INSERT INTO schema_versions (version, name, sha256) VALUES ($1, $2, $3)",
                    step.version,
                    step.name,
                    step.sha256,
                )
            applied += 1
        return applied
    finally:
        if not connection.is_closed():
            await connection.execute("SELECT pg_advisory_unlock($1, 0)", LOCKS)


async def acquire_pool_lock(connection: Connection, pool: int) -> None:
    """Acquire the pool's advisory lock, held until the connection closes."""
    await connection.execute("SELECT pg_advisory_lock($1, $2)", LOCKS, pool, timeout=10**9)
