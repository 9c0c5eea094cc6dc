"""PostgreSQL for tests: one embedded server for the session, a database of its own for each test."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from bailiff_devstack.postgres import EmbeddedPostgres

QUICK = {"fsync": "off", "full_page_writes": "off"}  # of the shared server: no test needs durability across a power loss
_count = itertools.count()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """One server for all tests that do not stop it."""
    with EmbeddedPostgres(tmp_path_factory.mktemp("postgres"), settings=QUICK) as server:
        yield server


@pytest.fixture
def database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The DSN of an empty database."""
    name = f"test_{next(_count)}"
    asyncio.run(_execute(postgres.dsn, f"CREATE DATABASE {name}"))
    yield postgres.dsn.rpartition("/")[0] + f"/{name}"
    asyncio.run(_execute(postgres.dsn, f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture
def private_postgres(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    """A started server that the test may kill and restart."""
    with EmbeddedPostgres(tmp_path / "postgres") as server:
        yield server


async def _execute(dsn: str, sql: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()
