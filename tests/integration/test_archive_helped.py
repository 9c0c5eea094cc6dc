"""Far behind, the auditor has a helper tell what records say: the archive is the same, whatever becomes of that process."""

import asyncio
import dataclasses
from pathlib import Path

import asyncpg
import pytest
from tests.archive_kit import Auditor, Log, archived, query
from tests.history_files import from_lines

from bailiff_auditor.beside import Beside
from bailiff_core.records import Wire
from bailiff_core.records.wire import UnreadableRecord
from bailiff_devstack.postgres import EmbeddedPostgres

HISTORY = Path(__file__).parents[1] / "histories" / "projects-borrow-and-give-back-5.jsonl"
HELPED = {"helper_from_records": 1, "seal_records": 7}  # batches of seven
TABLES = ("records", "orphans", "jobs", "attempts", "evictions", "nodes")


class Helpers:
    """Those that were started, each waited for until it is ready, so that it does help."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kill_after: int = 0) -> None:
        self.told = 0
        self.ended = False
        start, tell, end = Beside.start.__func__, Beside.tell, Beside.end  # type: ignore[attr-defined]

        async def ready() -> Beside:
            helper = await start(Beside)
            await helper._ready
            return helper

        def counted(helper: Beside, judged: list) -> asyncio.Future:
            self.told += 1
            if self.told == kill_after:
                helper._process.kill()
            return tell(helper, judged)

        async def seen(helper: Beside) -> object:
            people = await end(helper)
            self.ended = helper._process.returncode is not None
            return people

        monkeypatch.setattr(Beside, "start", ready)
        monkeypatch.setattr(Beside, "tell", counted)
        monkeypatch.setattr(Beside, "end", seen)


@pytest.fixture
def wires() -> list[Wire]:
    return from_lines(HISTORY.read_text())


def log_of(wires: list[Wire]) -> Log:
    return Log(dict(wires[0].headers)["ce_domain"].decode())


@pytest.mark.parametrize("kill_after", [0, 4], ids=["it lives", "it is killed in the middle"])
async def test_the_archive_is_the_same_with_a_helper(
    kill_after: int, wires: list[Wire], postgres: EmbeddedPostgres, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, half = log_of(wires), len(wires) // 2
    log.append([*wires[:9], wires[8], *wires[9:half]])  # one of them is an orphan
    other = await another(postgres, database)
    helpers = Helpers(monkeypatch, kill_after)
    async with Auditor(log, other, tmp_path / "helped", **HELPED).running() as auditor:
        await auditor.until("half is archived", lambda: auditor.value("bailiff_archive_head_seq") == half - 1)
        await auditor.until("it is ready", lambda: not any(auditor.service.readiness().values()))
        assert helpers.told >= max(4, kill_after)
        assert helpers.ended != bool(kill_after)  # asked for the people, and gone when the archive has come near
        log.append(wires[half:])  # jobs that began with it go on without it
        await auditor.until("the rest, too", lambda: auditor.value("bailiff_archive_head_seq") == len(wires) - 1)
    told = helpers.told
    async with Auditor(log, database, tmp_path / "alone").running() as auditor:
        await auditor.until("all is archived", lambda: auditor.value("bailiff_archive_head_seq") == len(wires) - 1)
    assert helpers.told == told
    assert await archived(other, log.domain) == await archived(database, log.domain) == log.messages()
    for table in TABLES:
        rows = f"SELECT * FROM {table} t ORDER BY t"
        assert await query(other, rows) == await query(database, rows), table


async def test_a_record_that_cannot_be_read_stops_the_auditor_there_also_with_a_helper(
    wires: list[Wire], database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, helpers = log_of(wires), Helpers(monkeypatch)
    headers = tuple((name, b"bailiff.audit.Later.v1" if name == "ce_type" else value) for name, value in wires[30].headers)
    log.append([*wires[:30], dataclasses.replace(wires[30], headers=headers)])
    auditor = Auditor(log, database, tmp_path, **HELPED)
    with pytest.raises(UnreadableRecord, match=rf"{log.domain}#30 bailiff\.audit\.Later"):
        await asyncio.wait_for(auditor.service.run(auditor.stop), 60)
    assert helpers.told == 5
    assert await archived(database, log.domain) == log.messages()[:30]


async def test_a_broken_chain_is_found_at_its_place_also_with_a_helper(
    wires: list[Wire], database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, helpers = log_of(wires), Helpers(monkeypatch)
    log.append([*wires[:30], *wires[31:]])
    async with Auditor(log, database, tmp_path, **HELPED).running() as auditor:
        await auditor.until("the alarm", log.alarms)
    assert log.alarms() == ["archive-log-broken"]
    assert helpers.told == 5
    assert await archived(database, log.domain) == log.messages()[:30]


async def another(postgres: EmbeddedPostgres, database: str) -> str:
    """One more empty database; it ends with the PostgreSQL of these tests."""
    name = "helped"
    connection = await asyncpg.connect(database)
    await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return f"{postgres.dsn.rpartition('/')[0]}/{name}"
