"""The auditor on a real PostgreSQL: what it archives, where it resumes, what it rejects, and the views."""

import asyncio
import dataclasses
import hashlib
import itertools
from decimal import Decimal
from pathlib import Path

import asyncpg
import pytest
from tests.bench.synthetic import plain_log
from tests.kits.archive import Auditor, Log, archived, busy, displaced, query
from tests.kits.history_files import from_lines
from tests.kits.log_builder import DAY, NEW_YEAR, Story

from bailiff.audit.chain_report import verify
from bailiff.audit.erasure import erase_actor, name_actor
from bailiff.audit.log_sources import from_archive
from bailiff.audit.replay import replay
from bailiff.audit.verify_derived import derived
from bailiff_auditor.archive_writer import Batch, PositionMoved, position_of, write
from bailiff_auditor.archiver import WAIT
from bailiff_auditor.database import Migration, connect, migrate, migrations
from bailiff_auditor.record_classifier import RecordClassifier
from bailiff_bus import topics
from bailiff_bus.port import Message
from bailiff_core.canonical import canonical_json
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records import Wire, encode
from bailiff_core.records.wire import UnreadableRecord
from bailiff_devstack.postgres import EmbeddedPostgres
from bailiff_log.credentials import make_credentials
from bailiff_log.keys import new_private_key
from bailiff_log.seals import SealChain, SealVerifier
from bailiff_service.exit_code import MustStop
from bailiff_service.settings import PoolDeclaration

HISTORIES = Path(__file__).parents[1] / "histories"


def history(name: str) -> list[Wire]:
    return from_lines((HISTORIES / f"{name}.jsonl").read_text())


async def given(messages: list[Message]):
    for message in messages:
        yield message


async def test_the_archive_holds_every_byte_and_continues_where_it_stopped(database: str, tmp_path: Path) -> None:
    wires, log = busy().wires, Log()
    log.append(wires[:7])
    async with Auditor(log, database, tmp_path / "a").running() as auditor:
        await auditor.until("the first records are archived", lambda: auditor.value("bailiff_archived_records_total") == 7)
    log.append(wires[7:])
    async with Auditor(log, database, tmp_path / "b").running() as other:
        await other.until("the rest is archived", lambda: other.value("bailiff_archive_head_seq") == len(wires) - 1)
        assert other.value("bailiff_archived_records_total") == len(wires) - 7
    found = await archived(database)
    assert found == log.messages()
    assert (await verify("pool-a", given(found)))["ok"]
    assert (await replay("pool-a", lambda: given(found)))["ok"]


async def test_on_a_pool_that_never_rests_it_is_ready(database: str, tmp_path: Path) -> None:
    """A record is appended more often than the auditor waits for one, so that it never finds nothing."""
    log, wires = Log(), plain_log(2_000)
    log.append(itertools.islice(wires, 200))

    async def append() -> None:
        for wire in wires:
            log.append([wire])
            await asyncio.sleep(WAIT / 20)

    async with Auditor(log, database, tmp_path).running() as auditor:
        appending = asyncio.create_task(append())
        await auditor.until("it is ready", lambda: not any(auditor.service.readiness().values()))
        assert not appending.done()
        appending.cancel()


@pytest.mark.parametrize("name", sorted(path.stem for path in HISTORIES.glob("*.jsonl")))
async def test_every_recorded_history_can_be_archived(name: str, database: str, tmp_path: Path) -> None:
    wires = history(name)
    log = Log(dict(wires[0].headers)["ce_pool"].decode())
    log.append(wires)
    async with Auditor(log, database, tmp_path).running() as auditor:
        await auditor.until("all is archived", lambda: auditor.value("bailiff_archive_head_seq") == len(wires) - 1)
    assert await archived(database, log.pool) == log.messages()
    for view in ("decisions", "facts", "job_list", "attempt_list", "eviction_list", "node_list", "requests_by_actor"):
        await query(database, f"SELECT * FROM {view}")


# --- faults


async def test_nothing_is_archived_beyond_a_broken_chain_and_the_alarm_says_where(database: str, tmp_path: Path) -> None:
    wires, log = busy().wires, Log()
    changed = dataclasses.replace(wires[9], value=wires[9].value.replace(b"train", b"trail"))
    log.append([*wires[:9], changed, *wires[10:]])
    async with Auditor(log, database, tmp_path).running() as auditor:
        await auditor.until("the alarm", log.alarms)
        assert log.alarms() == ["archive-log-broken"]
        assert auditor.value("bailiff_archive_broken") == 1
        assert "record 9 was changed or replaced after it was written" in str(auditor.service.readiness()["pool-a"])
    (row,) = await query(database, "SELECT next_seq, broken FROM pools")
    assert row["next_seq"] == 10
    assert "broken at seq 10" in row["broken"]
    assert await archived(database) == log.messages()[:10]


async def test_what_somebody_else_appends_to_a_signed_log_is_an_orphan_and_an_alarm(database: str, tmp_path: Path) -> None:
    root, log = new_private_key(), Log()
    owner = make_credentials(tmp_path / "w1", root, role="admission", name="w1", not_before=0, expires=NEW_YEAR + DAY)
    story = Story(credentials=owner, pool="pool-a")
    story.node("node-1", gpus=8)
    log.append(story.wires)
    forged = dataclasses.replace(
        story.records[-1], seq=story.state.seq + 1, prev=story.head.hash, writer="intruder", next_content="", signature=""
    )
    log.append([encode(forged)])
    before = len(story.wires)
    story.submit("train-1", gpus=1)
    log.append(story.wires[before:])
    async with Auditor(log, database, tmp_path / "a").running() as auditor:
        await auditor.until("all is archived", lambda: auditor.value("bailiff_archive_head_seq") == len(story.wires) - 1)
        await auditor.until("the alarm", log.alarms)
        assert log.alarms() == ["record-not-signed"]
    (orphan,) = await query(database, 'SELECT "offset", kind, reason FROM orphans')
    assert dict(orphan) == {"offset": before, "kind": "not-signed", "reason": "it is not signed"}
    archived_until = len(story.wires)
    story.runs("train-2", gpus=1)
    log.append(story.wires[archived_until:])
    async with Auditor(log, database, tmp_path / "b").running() as another:  # continues in the middle of a signed log
        await another.until("the rest is archived", lambda: another.value("bailiff_archive_head_seq") == len(story.wires) - 1)
    assert (await verify("pool-a", given(await archived(database))))["ok"]


async def test_a_truncated_log_raises_an_alarm_and_leaves_the_archive_unchanged(database: str, tmp_path: Path) -> None:
    wires, log = busy().wires, Log()
    log.append(wires)
    async with Auditor(log, database, tmp_path / "a").running() as auditor:
        await auditor.until("all is archived", lambda: auditor.value("bailiff_archive_head_seq") == len(wires) - 1)
    before = await archived(database)
    log.cluster.truncate(topics.AUDIT.name, 0, len(wires) - 3)
    left = busy().resumed(len(wires) - 3)
    left.restart(after=1_000_000)
    for number in range(5):
        left.submit(f"later-{number}")
    assert len(left.wires) > len(wires)  # it has become longer than the archived part, with other records
    log.append(left.wires[len(wires) - 3 :])
    async with Auditor(log, database, tmp_path / "b").running() as other:
        await other.until("the alarm", log.alarms)
        assert other.value("bailiff_archive_broken") == 1
    assert log.alarms() == ["archive-log-lost"]
    assert await archived(database) == before


async def test_orphans_are_archived_and_reported(database: str, tmp_path: Path) -> None:
    wires, log = busy().wires, Log()
    log.append([*wires[:8], wires[7], Wire((("x", b"\xff\x00"),), b"\x00noise"), *wires[8:]])
    async with Auditor(log, database, tmp_path).running() as auditor:
        await auditor.until("all is archived", lambda: auditor.value("bailiff_archive_head_seq") == len(wires) - 1)
        assert auditor.value("bailiff_orphans_total") == 2
    assert [row["kind"] for row in await query(database, "SELECT kind FROM orphans ORDER BY 1")] == ["foreign", "repeat"]
    assert await archived(database) == log.messages()


async def test_an_orphan_alone_at_the_end_is_reported_once_and_the_archive_continues(database: str, tmp_path: Path) -> None:
    wires, log = busy().wires, Log()
    log.append(wires[:8])
    async with Auditor(log, database, tmp_path).running() as auditor:
        await auditor.until("all is archived", lambda: auditor.value("bailiff_archive_head_seq") == 7)
        log.append(wires[7:8])
        await auditor.until("the orphan is reported", lambda: auditor.value("bailiff_orphans_total") == 1)
        log.append(wires[8:])
        await auditor.until("the rest is archived", lambda: auditor.value("bailiff_archive_head_seq") == len(wires) - 1)
        assert auditor.value("bailiff_orphans_total") == 1
    assert log.alarms() == []
    assert await archived(database) == log.messages()


async def test_two_replicas_archive_once_and_one_takes_over_from_the_other(database: str, tmp_path: Path) -> None:
    wires, log = busy().wires, Log()
    log.append(wires[:10])
    async with Auditor(log, database, tmp_path / "b", "second").running() as second:
        async with Auditor(log, database, tmp_path / "a", "first").running() as first:
            await first.until(
                "ten are archived",
                lambda: first.value("bailiff_archived_records_total") + second.value("bailiff_archived_records_total") == 10,
            )
            await first.until(
                "both are ready",
                lambda: not any(state for each in (first, second) for state in each.service.readiness().values()),
            )
        log.append(wires[10:])
        total = lambda: sum(each.value("bailiff_archived_records_total") for each in (first, second))  # noqa: E731
        await second.until("the rest is archived", lambda: total() == len(wires))
    assert await archived(database) == log.messages()


async def test_a_replica_that_lost_the_lock_overwrites_nothing(database: str) -> None:
    log = Log()
    log.append(busy().wires)
    connection, pool = await connect(database, 30), PoolDeclaration(name="pool-a", partition=0)
    await migrate(connection, migrations())
    stands = await position_of(connection, pool)
    read = []
    for many in (5, 9):
        classifier, batch = await RecordClassifier.at(stands, connection), Batch(stands)
        classifier.classify(batch, log.messages()[:many])
        read.append((batch, classifier.take_rows()))
    await write(connection, *read[1])
    with pytest.raises(PositionMoved, match="past record 0"):
        await write(connection, *read[0])
    assert await archived(database) == log.messages()[:9]
    assert (await position_of(connection, pool)).head.next_seq == 9
    await connection.close()


async def test_postgres_dies_and_comes_back_and_nothing_is_lost(private_postgres: EmbeddedPostgres, tmp_path: Path) -> None:
    wires, log = busy().wires, Log()
    log.append(wires[:10])
    dsn = private_postgres.dsn
    async with Auditor(log, dsn, tmp_path / "a").running() as auditor:
        await auditor.until("ten are archived", lambda: auditor.value("bailiff_archived_records_total") == 10)
        private_postgres.kill9()
        log.append(wires[10:])
        await auditor.until("it waits", lambda: auditor.metrics.postgres_outages._value.get() > 0)
        assert "PostgreSQL is unavailable" in str(auditor.service.readiness()["pool-a"])
        private_postgres.start()
        await auditor.until("all is archived", lambda: auditor.value("bailiff_archive_head_seq") == len(wires) - 1)
        await auditor.until("it is ready", lambda: not any(auditor.service.readiness().values()))
    assert await archived(dsn) == log.messages()


# --- views


async def test_views_show_victims_preemptors_and_causes(database: str, tmp_path: Path) -> None:
    (story, victim), log = displaced(), Log()
    log.append(story.wires)
    async with Auditor(log, database, tmp_path, usage_seconds=1).running() as auditor:
        await auditor.until("all is archived", lambda: auditor.value("bailiff_archive_head_seq") == len(story.wires) - 1)

        async def looked() -> bool:
            rows = await query(database, "SELECT max(time) AS at FROM usage_over_time")
            return rows[0]["at"] is not None and rows[0]["at"].timestamp() * 1_000_000 >= story.time - 60_000_000

        await auditor.until("usage is sampled", looked)
    (eviction,) = await query(database, "SELECT * FROM eviction_list")
    assert (eviction["job"], eviction["for_job"], eviction["cause"], eviction["outcome"]) == (
        victim,
        "serve-1",
        "preemption",
        "preempted",
    )
    assert "to accommodate serve-1" in eviction["reason"]
    assert eviction["until_started"].total_seconds() == 1
    assert eviction["until_released"].total_seconds() >= 4
    assert eviction["until_resumed"].total_seconds() >= 64
    jobs = {row["job"]: row for row in await query(database, "SELECT * FROM job_list")}
    assert jobs["serve-1"]["state"] == "succeeded"
    assert (jobs[victim]["state"], jobs[victim]["attempt"], jobs[victim]["user_name"]) == ("running", 2, "u-7")
    attempts = await query(database, "SELECT * FROM attempt_list WHERE job = $1 ORDER BY attempt", victim)
    assert [(row["attempt"], row["outcome"], row["nodes"]) for row in attempts] == [(1, "preempted", "n1"), (2, None, "n1")]
    (node,) = await query(database, "SELECT * FROM node_list")
    assert (node["node"], node["state"], node["gpus"]) == ("n1", "ready", 2)
    whole = await query(database, "SELECT gpus, gpus_fair_share FROM usage_over_time WHERE project = '' ORDER BY time")
    assert max(row["gpus"] for row in whole) == 2
    assert whole[-1]["gpus_fair_share"] == 2
    decided = await query(database, "SELECT type, data FROM decisions WHERE type LIKE 'PreemptionDecided%'")
    assert len(decided) == 1


async def test_views_show_class_user_and_gpus_also_where_the_record_omits_them(database: str, tmp_path: Path) -> None:
    story, log = Story(pool="pool-a"), Log()
    story.node("n1", gpus=4)
    story.cycle(story.submitted("whole", gpus=2, tasks=2).model_copy(update={"user": "u-9"}))
    story.submit("half", TaskGroup(count=3, gpu_share_milli=500, gpu_devices=1), cls="interactive", user="u-7")
    log.append(story.wires)

    async def job_rows() -> list[tuple]:
        rows = await query(database, "SELECT job, priority_class, user_name, gpus FROM job_list ORDER BY submitted_at")
        return [tuple(row.values()) for row in rows]

    for begin in range(len(story.wires)):  # a resumed auditor has the policy in force
        part = Log()
        part.append(story.wires[: begin + 1])
        async with Auditor(part, database, tmp_path / f"{begin}").running() as auditor:
            await auditor.until("it is archived", lambda: auditor.value("bailiff_archive_head_seq") == begin)  # noqa: B023
    assert await job_rows() == [("whole", "train", "u-9", 4), ("half", "interactive", "u-7", Decimal("1.5"))]
    assert (await derived(database, None)).differences == []


async def test_views_do_not_depend_on_where_the_auditor_was_stopped(
    postgres: EmbeddedPostgres, database: str, tmp_path: Path
) -> None:
    wires = history("preemption-of-one-node")
    whole, parts = Log(dict(wires[0].headers)["ce_pool"].decode()), Log(dict(wires[0].headers)["ce_pool"].decode())
    connection = await asyncpg.connect(database)
    await connection.execute("CREATE DATABASE other_half")
    await connection.close()
    other = postgres.dsn.rpartition("/")[0] + "/other_half"
    whole.append(wires)
    async with Auditor(whole, database, tmp_path / "whole").running() as auditor:
        await auditor.until("all is archived", lambda: auditor.value("bailiff_archive_head_seq") == len(wires) - 1)
    for begin in range(0, len(wires), 9):
        parts.append(wires[begin : begin + 9])
        last = min(len(wires), begin + 9) - 1
        async with Auditor(parts, other, tmp_path / f"{begin}").running() as auditor:
            await auditor.until("a part is archived", lambda: auditor.value("bailiff_archive_head_seq") == last)  # noqa: B023
    for table in ("jobs", "attempts", "evictions", "nodes"):
        assert await query(other, f"SELECT * FROM {table} t ORDER BY t") == await query(
            database, f"SELECT * FROM {table} t ORDER BY t"
        ), table
    connection = await asyncpg.connect(database)
    await connection.execute("DROP DATABASE other_half WITH (FORCE)")
    await connection.close()


# --- erasure


async def test_text_that_postgresql_cannot_hold_is_only_in_the_bytes(database: str, tmp_path: Path) -> None:
    story, log = busy(), Log()
    victim = next(iter(story.state.jobs))
    story.evict(victim, reason="why\x00\x00 not \\u0000")
    last = story.wires[-1]
    log.append([*story.wires[:-1], Wire((*last.headers, ("ce_actor", b"eve\x00")), last.value)])
    async with Auditor(log, database, tmp_path).running() as auditor:
        await auditor.until("it is archived", lambda: auditor.value("bailiff_archive_head_seq") == len(story.wires) - 1)
    assert await archived(database) == log.messages()
    assert [row["actor"] for row in await query(database, "SELECT actor FROM records WHERE actor LIKE 'eve%'")] == ["eve�"]
    assert [row["reason"] for row in await query(database, "SELECT reason FROM evictions WHERE job = $1", victim)] == [
        "eviction requested: why�� not \\u0000"
    ]
    assert (await derived(database, None)).differences == []


async def test_names_and_specs_can_be_erased_and_the_log_still_verifies(database: str, tmp_path: Path) -> None:
    story, log = busy(), Log()
    log.append(story.wires)
    key = b"pool-a/train-1/digest"
    spec = canonical_json({"salt": "00" * 16, "spec": JobSpec(command=("train", "--for", "Lovelace")).to_data()})
    log.cluster.store(topics.JOB_SPECS.name, 0, key, (), spec)
    async with Auditor(log, database, tmp_path, seal_seconds=0.001).running() as auditor:
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == len(story.wires))
    before = await archived(database)
    await name_actor(database, "u-7", "Ada Lovelace")
    await name_actor(database, "u-8", "Grace Hopper")
    await query(database, "ANALYZE")  # as PostgreSQL does by itself
    assert (await whole_database(database)).count("Lovelace") == 1  # the archive has no spec, and the name only once
    assert await erase_actor(database, "u-7")
    assert not await erase_actor(database, "u-7")
    log.cluster.store(topics.JOB_SPECS.name, 0, key, (), b"")
    assert "Lovelace" not in await whole_database(database)
    assert await archived(database) == before == log.messages()
    async with from_archive(database, None) as source:
        chain = SealChain("pool-a")
        for body in source.seals:
            chain.take(body)
        assert (await verify("pool-a", source.messages, SealVerifier(chain)))["ok"]
    assert (await replay("pool-a", lambda: given(before)))["ok"]


async def whole_database(dsn: str) -> str:
    """Every row of every table as text, and the planner's statistics."""
    tables = await query(dsn, "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'")
    return "".join([str(await query(dsn, f"SELECT * FROM {row['name']}")) for row in tables]) + await sampled(dsn)


async def sampled(dsn: str) -> str:
    """The planner's statistics of column values."""
    return str(await query(dsn, "SELECT s::text FROM pg_stats s WHERE schemaname = 'public'"))


# --- migrations


LATER = Migration(len(migrations()) + 1, "later", "ALTER TABLE actors ADD COLUMN note text")


async def test_each_migration_is_applied_once(database: str) -> None:
    connection = await connect(database, 30)
    steps = migrations()
    assert await migrate(connection, steps) == len(steps)
    assert await migrate(connection, [*steps, LATER]) == 1
    assert await migrate(connection, [*steps, LATER]) == 0
    assert await query(database, "SELECT note FROM actors") == []
    await connection.close()


async def test_a_schema_of_a_later_release_or_of_other_migrations_is_left_alone(database: str) -> None:
    connection = await connect(database, 30)
    steps = migrations()
    await migrate(connection, [*steps, LATER])
    with pytest.raises(MustStop, match="use a newer release"):
        await migrate(connection, steps)
    with pytest.raises(MustStop, match=r"migration 1 \(archive\) of the archive differs from this release's"):
        await migrate(connection, [dataclasses.replace(steps[0], sql="SELECT 1"), LATER])
    await connection.close()


def test_a_migration_that_was_released_is_never_changed() -> None:
    released = {
        1: "7f0dd4a96ed43b18",
        2: "4828007db36f4f5f",
        3: "0f82e06e6967fb2d",
        4: "0486fa94ced4cb5e",
        5: "11b1a37d91e8e2ef",
        6: "942ff0542d810d8d",
        7: "677a0ed32ae18b5f",
    }
    assert {step.version: hashlib.sha256(step.sql.encode()).hexdigest()[:16] for step in migrations()} == released


async def test_a_record_of_a_later_release_stops_the_auditor_behind_what_it_can_read(database: str, tmp_path: Path) -> None:
    wires, log = busy().wires, Log()
    headers = tuple((name, b"bailiff.audit.Later.v1" if name == "ce_type" else value) for name, value in wires[9].headers)
    log.append([*wires[:9], dataclasses.replace(wires[9], headers=headers)])
    auditor = Auditor(log, database, tmp_path)
    with pytest.raises(UnreadableRecord, match=r"pool-a#9 bailiff\.audit\.Later"):
        await asyncio.wait_for(auditor.service.run(auditor.stop), 60)
    assert await archived(database) == log.messages()[:9]
