"""Retention: exported segments are pruned from the archive, which records its first seq; the rest verifies against the seals."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from tests.bench.synthetic import long_log
from tests.kits.archive import Auditor, Log, archived, query

from bailiff.audit import proofs
from bailiff.audit.chain_report import verify
from bailiff.audit.log_sources import from_archive, from_file
from bailiff.audit.pruning import prune
from bailiff.audit.segment_writer import write_segments
from bailiff.audit.verify import verified
from bailiff.client.errors import ClientError
from bailiff_log.chain_verifier import Verification
from bailiff_log.seals import check_proof

WIRES = long_log(700)[:700]
ANY_AGE = timedelta(days=-3650)  # this log's times are in the future


async def export(dsn: str, folder: Path, size: int = 100) -> None:
    """As `bailiff audit export FOLDER --segment`."""
    async with from_archive(dsn, None) as source:
        await write_segments(folder, size, source.start, source.tree, 0, source.messages, source.seals)


async def verified_archive(dsn: str) -> Verification:
    """As `bailiff audit verify --archive`."""
    async with from_archive(dsn, None) as source:
        return await verified(source)


async def test_only_old_exported_and_sealed_records_are_pruned_and_the_rest_verifies(database: str, tmp_path: Path) -> None:
    log, folder = Log(), tmp_path / "kept"
    log.append(WIRES[:430])
    often = {"seal_records": 150, "seal_seconds": 3600, "state_dir": tmp_path / "state"}
    async with Auditor(log, database, tmp_path, **often).running() as auditor:
        await auditor.until("it is archived", lambda: auditor.value("bailiff_archive_head_seq") == 429)
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == 300)
        await export(database, folder)
        seals = await query(database, "SELECT * FROM seals ORDER BY size")

        nothing = await prune(database, folder, timedelta(days=365 * 900), [], dry_run=False)
        assert (nothing.first_seq, nothing.segments, nothing.kept) == (0, [], "record 99 is younger")
        tried = await prune(database, folder, ANY_AGE, [], dry_run=True)
        assert (tried.first_seq, len(tried.segments)) == (300, 3)
        assert await archived(database) == log.messages()

        done = await prune(database, folder, ANY_AGE, [], dry_run=False)
        assert (done.first_seq, done.kept) == (300, "the folder ends before record 300")
        assert await archived(database) == log.messages()[300:]
        assert await query(database, "SELECT * FROM seals ORDER BY size") == seals
        jobs = await query(database, "SELECT count(*) AS jobs FROM jobs WHERE submitted_seq < 300")
        assert jobs[0]["jobs"] > 10

        log.append(WIRES[430:])  # the running auditor continues
        await auditor.until("the rest is archived", lambda: auditor.value("bailiff_archive_head_seq") == 699)
        await auditor.until("it is sealed on", lambda: auditor.value("bailiff_sealed_records") == 600)
    async with Auditor(log, database, tmp_path / "later", **often).running() as later:  # and so does the next one
        await later.until("it has its seals", lambda: later.value("bailiff_sealed_records") == 600)
        await later.until("it is ready", lambda: not any(later.service.readiness().values()))
    assert log.alarms() == []

    found = await verified_archive(database)
    assert (found["ok"], found["first_seq"], found["records"], found["sealed"]) == (True, 300, 400, 600)

    async with from_archive(database, None) as source:
        seal = next(each for each in source.seals if getattr(each, "size", 0) == 450)
        proved = check_proof(json.dumps(await proofs.prove(source, 321, seal)))
    assert proved.wire.value == WIRES[321].value
    async with from_archive(database, None) as source:
        with pytest.raises(ClientError, match="begins with record 300"):
            await proofs.prove(source, 299, seal)

    await export(database, folder)  # continues in the same folder; a folder without the pruned segments is refused
    kept = from_file(folder)
    assert (await verify(kept.pool, kept.messages, start=kept.start))["records"] == 600
    with pytest.raises(ClientError, match="from record 300 on only"):
        await export(database, tmp_path / "another", size=125)
    again = await prune(database, folder, ANY_AGE, [], dry_run=False)
    assert again.first_seq == 600
    rows = await query(database, "SELECT first_seq, last_seq FROM prunings ORDER BY 1")
    assert [(row["first_seq"], row["last_seq"]) for row in rows] == [(at, at + 99) for at in range(0, 600, 100)]


async def test_nothing_is_pruned_if_the_folder_is_incomplete_or_differs_from_the_archive(database: str, tmp_path: Path) -> None:
    log, folder = Log(), tmp_path / "kept"
    log.append(WIRES[:300])
    async with Auditor(log, database, tmp_path, seal_records=300).running() as auditor:
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == 300)
    await export(database, folder)
    with pytest.raises(ClientError, match="no seal is signed by a trusted key"):
        await prune(database, folder, ANY_AGE, ["A" * 43], dry_run=False)
    await query(database, "UPDATE seals SET size = 90")
    behind = await prune(database, folder, ANY_AGE, [], dry_run=False)
    assert (behind.first_seq, behind.kept) == (0, "record 99 is not sealed in the archive")
    await query(database, "UPDATE seals SET size = 300")
    await query(database, "UPDATE records SET hash = decode(repeat('00', 32), 'hex') WHERE seq = 199")
    with pytest.raises(ClientError, match="record 199 of the archive is another"):
        await prune(database, folder, ANY_AGE, [], dry_run=False)
    assert (await archived(database))[0].offset == 100  # the records before it were equal in both, and are pruned
    second = folder / json.loads((folder / "manifest.json").read_text())["segments"][1]["name"]
    second.write_bytes(second.read_bytes()[:-40] + b"\x00" * 40)
    with pytest.raises(ClientError, match="SHA-256 differs"):
        await prune(database, folder, ANY_AGE, [], dry_run=False)
    assert len(await archived(database)) == 200
