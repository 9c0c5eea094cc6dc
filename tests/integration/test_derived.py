"""`bailiff audit verify --archive --derived`: an altered derived row is found, and named with its column."""

from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from tests.kits.archive import Auditor, Log, displaced, query
from tests.kits.log_builder import Story

from bailiff.audit.log_sources import from_archive
from bailiff.audit.pruning import prune
from bailiff.audit.segment_writer import write_segments
from bailiff.audit.verify_derived import derived
from bailiff_log.gpu_allocation_rows import GPU_ALLOCATIONS, GPU_STATES
from bailiff_log.quota_usage_rows import USAGE_COLUMNS
from bailiff_log.read_model import TABLES

WHICH = {
    "jobs": "job = 'train-2'",
    "attempts": "job = 'train-2'",
    "evictions": "true",
    "nodes": "true",
    "project_usage": "project = ''",
    "gpu_allocations": "kind = 'allocated' AND to_seq IS NOT NULL",
    "gpu_states": "true",
}
KEYS = {name: table.key for name, table in TABLES.items()} | {
    "project_usage": USAGE_COLUMNS[:3],
    "records": ("pool", "seq"),
    "gpu_allocations": ("pool", *GPU_ALLOCATIONS.key, "from_seq"),
    "gpu_states": ("pool", *GPU_STATES.key, "from_seq"),
}
BYTES = ("headers", "value", "key", "appended_at", "offset")  # not derived: verify checks them against chain and seals
OTHER = {
    "text": "{0} || 'x'",
    "integer": "{0} + 1",
    "bigint": "{0} + 1",
    "smallint": "{0} + 1",
    "boolean": "NOT {0}",
    "timestamp with time zone": "{0} + interval '1 second'",
    "jsonb": """'{{"x": 1}}'""",
    "bytea": "{0} || 'x'::bytea",
    "ARRAY": "{0} || {0}",
}


async def archive(
    database: str, folder: Path, story: Story, log: Log | None = None, upto: int | None = None, **settings: object
) -> Log:
    log = log or Log()
    log.append(story.wires[len(log.messages()) : upto])
    last = len(log.messages()) - 1
    async with Auditor(log, database, folder, **{"usage_seconds": 1, **settings}).running() as auditor:
        await auditor.until("all is archived", lambda: auditor.value("bailiff_archive_head_seq") == last)

        async def looked() -> bool:
            return bool(await query(database, "SELECT FROM followed WHERE allocations_seq = $1", last))

        await auditor.until("usage and allocations are stored", looked)
    return log


async def columns(database: str, table: str) -> dict[str, str]:
    rows = await query(
        database,
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = $1 ORDER BY ordinal_position",
        table,
    )
    return {row["column_name"]: row["data_type"] for row in rows if row["column_name"] not in (*KEYS[table], *BYTES)}


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
async def test_an_altered_value_is_named_in_every_table(every: int, database: str, tmp_path: Path) -> None:
    await archive(database, tmp_path, displaced()[0])
    whole = await derived(database, None)
    assert (whole.differences, whole.unchecked) == ([], "")
    assert whole.rows > 30
    connection = await asyncpg.connect(database)
    tried = 0
    for table in KEYS:
        which = WHICH.get(table, "type = 'JobSubmitted.v1' AND job = 'train-2'")
        for name, kind in list((await columns(database, table)).items())[::every]:
            row = await connection.fetchrow(f'SELECT ctid, "{name}" AS value FROM {table} WHERE {which} LIMIT 1')
            changed = OTHER[kind].format(f'"{name}"') if row["value"] is not None else {"text": "'x'", "jsonb": "'{}'"}.get(kind)
            if changed is None:
                changed = "now()" if kind.startswith("timestamp") else "7"
            there = row["value"]
            (ctid,) = await connection.fetchrow(
                f'UPDATE {table} SET "{name}" = {changed} WHERE ctid = $1 RETURNING ctid', row["ctid"]
            )
            found = await derived(database, None)
            assert len(found.differences) == 1, (table, name, found.differences)
            assert found.differences[0].startswith(f"{table} "), found.differences
            assert f": {name} is " in found.differences[0]
            await connection.execute(f'UPDATE {table} SET "{name}" = $2 WHERE ctid = $1', ctid, there)
            tried += 1
    assert (await derived(database, None)).differences == []
    assert tried >= 60 // every
    await connection.close()


async def test_missing_and_invented_rows_are_named(database: str, tmp_path: Path) -> None:
    await archive(database, tmp_path, displaced()[0])
    await query(database, "DELETE FROM evictions")
    await query(database, "UPDATE attempts SET attempt = 9 WHERE job = 'serve-1'")
    await query(
        database, "UPDATE project_usage SET project = 'ours' WHERE seq = (SELECT max(seq) FROM project_usage) AND project = ''"
    )
    found = (await derived(database, None)).differences
    assert sum(each.startswith("evictions ") and each.endswith("is missing") for each in found) == 1
    assert [each.rpartition(": ")[2] for each in found if each.startswith("attempts serve-1")] == [
        "is missing",
        "follows from no record",
    ]
    assert sum(each.startswith("project_usage") for each in found) == 2
    assert len(found) == 5


async def test_a_removed_quota_sample_and_a_removed_gpu_allocation_are_found(database: str, tmp_path: Path) -> None:
    """Also if earlier samples had another interval."""
    story = displaced()[0]
    half = len(story.wires) // 2
    log = await archive(database, tmp_path / "a", story, upto=half, usage_seconds=20)
    await archive(database, tmp_path / "b", story, log=log, usage_seconds=1)
    assert len(await query(database, "SELECT FROM usage_intervals")) == 2
    assert (await derived(database, None)).differences == []
    moments = [row["seq"] for row in await query(database, "SELECT DISTINCT seq FROM project_usage ORDER BY seq")]
    assert moments[0] < half < moments[-1]
    for seq in (moments[0], moments[-1]):  # also the newest
        await query(database, "DELETE FROM project_usage WHERE seq = $1", seq)
    await query(database, "UPDATE project_usage SET seq = seq + 1 WHERE seq = $1", moments[1])
    (spell,) = await query(
        database, "DELETE FROM gpu_allocations WHERE ctid = (SELECT min(ctid) FROM gpu_allocations) RETURNING *"
    )
    await query(database, "UPDATE gpu_states SET gpu = 7 WHERE gpu = 0")
    found = (await derived(database, None)).differences
    assert sorted(f"{each.partition(' ')[0]}: {each.partition(': ')[2]}" for each in found) == [
        "gpu_allocations: is missing",
        "gpu_states: follows from no record",
        "gpu_states: is missing",
        "project_usage: no sample was due there",
        *["project_usage: the sample is missing"] * 3,
    ]
    assert any(each.startswith(f"gpu_allocations {spell['job']} ") for each in found)


async def test_the_rest_of_a_pruned_archive_is_compared(database: str, tmp_path: Path) -> None:
    story = displaced()[0]
    for name in ("one", "another"):  # without an explicit class
        story.submit(name, gpus=1)
    log = await archive(database, tmp_path, story, seal_records=5)
    async with from_archive(database, None) as source:
        await write_segments(tmp_path / "kept", 5, source.start, source.tree, 0, source.messages, source.seals)
    pruned = await prune(database, tmp_path / "kept", timedelta(days=-3650), [], dry_run=False)
    assert 0 < pruned.first_seq < len(log.messages())
    found = await derived(database, None)
    assert found.differences == []
    assert f"before record {pruned.first_seq}" in found.unchecked
    rows = await query(
        database, "SELECT submitted_seq >= $1 AS there, priority_class FROM jobs ORDER BY submitted_seq", pruned.first_seq
    )
    assert rows[-1] == {"there": True, "priority_class": "train"}  # from a policy that was stored separately
