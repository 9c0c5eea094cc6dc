"""The PostgreSQL of the devstack: it starts as any user, keeps committed rows when killed, and leaves no process or file."""

from pathlib import Path

import pytest
from tests.kits.archive import query

from bailiff_devstack.postgres import EmbeddedPostgres, PostgresStartError


async def test_committed_rows_and_the_address_survive_a_kill(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "pg") as server:
        address = server.dsn
        await query(address, "CREATE TABLE kept AS SELECT 1 AS one")
        server.kill9()
        server.start()
        assert server.dsn == address
        assert await query(address, "SELECT one FROM kept") == [{"one": 1}]
        with pytest.raises(PostgresStartError, match="already running"):
            EmbeddedPostgres(tmp_path / "pg").start()
    assert server._backends() == []
    assert (tmp_path / "pg" / "password").stat().st_mode & 0o077 == 0
