"""The auditor checks who asked, for every signed request in the log; an admission that lies about it is named within a minute."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from asyncpg import Connection
from tests.kits.archive import Auditor, Log, alarms, query
from tests.kits.signed_pool import POOL, SignedPool
from tests.unit.bus.virtual_time import run

from bailiff_auditor.alarms import Alarms
from bailiff_auditor.database import connect, migrate, migrations
from bailiff_auditor.request_checks import RequestChecks
from bailiff_bus import topics
from bailiff_bus.port import Headers
from bailiff_core.fold import apply
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead, Record, Wire, decode, facts
from bailiff_core.records.job_requests import CancelJob
from bailiff_core.records.pool_requests import ApplyPolicy
from bailiff_log.archive import pack_headers
from bailiff_log.keys import key_id
from bailiff_log.writer import chain_records
from bailiff_service.clock_and_ids import SYSTEM
from bailiff_service.metrics import Metrics

ADA, BOB = (bytes([number]) * 32 for number in (1, 2))
KEYS = {key_id(ADA): "ada", key_id(BOB): "bob"}
POLICY = DEFAULT_POLICY.model_copy(update={"identity": DEFAULT_POLICY.identity.model_copy(update={"keys": KEYS})})


@pytest.fixture
def pool(tmp_path: Path) -> SignedPool:
    """A pool in which ada has submitted and cancelled a job, and somebody without a key another one."""
    (tmp_path / "pool").mkdir()
    found = SignedPool(tmp_path / "pool")

    async def story() -> None:
        async with found:
            found.request(ApplyPolicy(policy=POLICY), found.root)
            await found.until("the policy names keys", lambda state: bool(state.rules.identity.keys))
            found.submit("train-1", key=ADA)
            found.submit("unsigned")
            await found.until("both are known", lambda state: len(state.jobs) == 2)
            found.request(CancelJob(job="train-1", reason="done"), ADA)
            await found.until("it is cancelled", lambda state: state.jobs["train-1"].cancelled)

    run(story())
    return found


def rewritten(pool: SignedPool, change: Any = lambda record: record) -> list[Wire]:
    """The log as an admission writes it that changes the records of signed requests."""
    changed = [change(record) if record.request else record for record in pool.records()]
    return [wire for _, wire, _ in chain_records(ChainHead(POOL), changed, pool.credentials("admission"))]


def cancelled_by_bob(record: Record) -> Record:
    """Admission writes that bob has cancelled the job, with ada's signature."""
    return replace(record, actor="bob") if isinstance(record.data, facts.JobCancelled) else record


async def checks(dsn: str) -> list[dict[str, Any]]:
    try:
        return await query(dsn, "SELECT seq, result, text FROM request_checks ORDER BY seq")
    except asyncpg.UndefinedTableError:  # the auditor has just started
        return []


async def checked(auditor: Auditor, dsn: str, count: int) -> list[dict[str, Any]]:
    async def found() -> bool:
        return len(await checks(dsn)) == count

    await auditor.until(f"{count} requests are checked", found)
    return await checks(dsn)


async def test_signed_requests_are_verified_and_the_archive_says_whose_user_is(
    pool: SignedPool, database: str, tmp_path: Path
) -> None:
    log = Log()
    log.append(rewritten(pool))
    async with Auditor(log, database, tmp_path, usage_seconds=1).running() as auditor:
        rows = await checked(auditor, database, 3)
        assert [row["result"] for row in rows] == ["verified"] * 3
        assert log.alarms() == []
        jobs = await query(database, "SELECT job, user_verified FROM job_list ORDER BY job")
        assert [(row["job"], row["user_verified"]) for row in jobs] == [("train-1", True), ("unsigned", False)]
        for view in ("facts", "requests_by_actor"):
            requested = await query(database, f"SELECT job, actor_verified FROM {view} WHERE actor = 'ada' ORDER BY seq")
            assert [(row["job"], row["actor_verified"]) for row in requested] == [("train-1", True), ("train-1", True)]
        assert auditor.value("bailiff_requests_checked_total") == 3


async def test_a_request_that_its_actor_has_not_signed_raises_an_alarm_once(
    pool: SignedPool, database: str, tmp_path: Path
) -> None:
    log, wires = Log(), rewritten(pool, cancelled_by_bob)
    log.append(wires)
    async with Auditor(log, database, tmp_path, usage_seconds=1).running() as auditor:
        *_, row = await checked(auditor, database, 3)
        (alarm,) = alarms(log)
        assert (alarm.code, alarm.severity, row["result"]) == ("request-not-verified", "critical", "wrong-requester")
        assert f"#{row['seq']}" in alarm.text
        assert "ada signed it, the record names bob" in alarm.text
    async with Auditor(log, database, tmp_path, usage_seconds=1).running() as again:
        await again.until("it has caught up", lambda: again.value("bailiff_archive_head_seq") == len(wires) - 1)
    assert len(alarms(log)) == 1  # it is stored as checked


async def test_a_request_that_is_repeated_after_a_restart_of_the_auditor_is_found(
    pool: SignedPool, database: str, tmp_path: Path
) -> None:
    log, wires = Log(), rewritten(pool)
    log.append(wires)
    async with Auditor(log, database, tmp_path, usage_seconds=1).running() as auditor:
        await checked(auditor, database, 3)
    head, records = ChainHead(POOL), [decode(wire) for wire in wires]
    for _, _, after in chain_records(head, records, pool.credentials("admission")):
        head = after
    cancelled = next(record for record in records if isinstance(record.data, facts.JobCancelled))
    again = replace(records[-1], type=cancelled.type, data=cancelled.data, request=cancelled.request, actor="ada", auth="signed")
    again = replace(again, seq=head.next_seq, cycle=again.cycle + 1, cycle_end=True, cause="", inputs=())
    log.append(wire for _, wire, _ in chain_records(head, [again], pool.credentials("admission")))
    async with Auditor(log, database, tmp_path, usage_seconds=1).running() as auditor:
        *_, row = await checked(auditor, database, 4)
        assert row["result"] == "request-used-again"
        assert [alarm.code for alarm in alarms(log)] == ["request-not-verified"]


def rejected_first(pool: SignedPool) -> list[Record]:
    """The records of an admission that has rejected the cancellation before it accepted the same signed request."""
    records = [decode(wire) for wire in rewritten(pool)]
    at = next(number for number, record in enumerate(records) if isinstance(record.data, facts.JobCancelled))
    cancelled = records[at].data
    assert isinstance(cancelled, facts.JobCancelled)
    rejected = facts.InputRejected(
        topic=topics.REQUESTS.name,
        partition=0,
        offset=0,
        digest="0" * 64,
        code="no-such-job",
        reason="there is no such job",
        source=cancelled.request.source,
        id=cancelled.request.id,
    )
    first = replace(records[at], type=rejected.type_name(), data=rejected, cause="", inputs=(), cycle_end=True)
    return [*records[:at], first, *(replace(each, seq=each.seq + 1) for each in records[at:])]


@pytest.fixture
async def archive(database: str) -> AsyncIterator[Connection]:
    """A connection to an archive that has the pool, with the id 1."""
    connection = await connect(database, 30)
    await migrate(connection, migrations())
    await connection.execute("INSERT INTO pools (name, partition) VALUES ($1, 1)", POOL)
    yield connection
    await connection.close()


async def continued(archive: Connection, state: PoolState) -> tuple[RequestChecks, Log]:
    """The checks of an auditor that starts with a snapshot of this state, and where it raises alarms."""
    log, metrics = Log(), Metrics()
    alarms_of = Alarms(log.cluster.client("auditor"), metrics, SYSTEM, set())
    found = await RequestChecks.load(archive, POOL, 1, alarms_of, metrics)
    found.begin(state)
    return found, log


@pytest.mark.parametrize("story", ["rejected before", "repeated"])
async def test_an_auditor_that_starts_with_a_snapshot_knows_which_requests_had_an_effect(
    pool: SignedPool, archive: Connection, story: str
) -> None:
    """The signature of a request that was only rejected may come again; that of one that had an effect may not."""
    records = rejected_first(pool)
    at = next(number for number, record in enumerate(records) if isinstance(record.data, facts.JobCancelled))
    state = PoolState()
    stop = at if story == "rejected before" else at + 1
    checks_of, _ = await continued(archive, state)
    for record in records[:stop]:
        await checks_of.take(state, record)
        apply(state, record)
    await checks_of.write(archive)
    again, log = await continued(archive, state)
    await again.take(state, replace(records[at], seq=stop))
    found = [alarm.code for alarm in alarms(log)]
    assert found == ([] if story == "rejected before" else ["request-not-verified"])


@pytest.mark.parametrize(
    ("headers", "verified"),
    [
        ((("ce_actor", b"eve"), ("ce_auth", b"signed")), True),
        ((("ce_actor", b"eve"), ("ce_auth", b"acl")), True),
        ((("ce_actor", b"eve"), ("ce_auth", b"none")), False),
        ((("ce_actor", b"eve"),), False),
        ((("ce_actor", b"\0\0\0\7ce_auth\0\0\0\6signed"), ("ce_auth", b"none")), False),
    ],
)
async def test_no_name_makes_itself_verified_in_the_archive(archive: Connection, headers: Headers, verified: bool) -> None:
    assert await archive.fetchval("SELECT actor_verified($1, $2)", "eve", pack_headers(headers)) is verified
    assert await archive.fetchval("SELECT actor_verified(NULL, $1)", pack_headers(headers)) is None
