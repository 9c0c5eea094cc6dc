"""`bailiff audit verify --resume FILE`: what was verified is passed over while it is unchanged, and nothing is believed."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.kits.cosigned_log import KEY, SealedLog, story
from typer.testing import CliRunner, Result

from bailiff.audit.resume_files import VerifiedSegments, first_to_verify, read
from bailiff.audit.segment_writer import write_segments
from bailiff.cli import app
from bailiff.client.errors import ClientError
from bailiff_bus.port import Message
from bailiff_core.records import ChainHead
from bailiff_core.records.merkle import Frontier
from bailiff_log.keys import key_id

SIZE = 4
WIRES = story("ours")
ENDS = [SIZE, 3 * SIZE]
LOG = SealedLog(WIRES, (ENDS[0], ENDS[1]))


async def messages(until: int) -> AsyncGenerator[Message, None]:
    for offset, wire in enumerate(WIRES[:until]):
        yield Message("bailiff.audit", 0, offset, 1_800_000_000_000_000, b"pool-a", wire.headers, wire.value)


async def written(folder: Path, until: int) -> Path:
    await write_segments(
        folder, SIZE, ChainHead("pool-a"), Frontier(), 0, messages(until), LOG.seals[: 2 if until == SIZE else 3]
    )
    return folder


def verify(folder: Path, kept: Path, *options: str) -> Result:
    given = ["--file", str(folder), "--trust", key_id(KEY), "--resume", str(kept), "--output", "json", *options]
    return CliRunner().invoke(app, ["audit", "verify", *given])


def first_seq(found: Result) -> int:
    assert found.exit_code == 0, found.output
    return int(json.loads(found.stdout)["first_seq"])


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    folder, kept = asyncio.run(written(tmp_path / "segments", SIZE)), tmp_path / "verified.json"
    assert first_seq(verify(folder, kept)) == 0
    asyncio.run(written(folder, 3 * SIZE))
    again = verify(folder, kept)
    assert first_seq(again) == SIZE
    assert json.loads(again.stdout)["passed_over"] == str(kept)
    assert json.loads(again.stdout)["sealed"] == 3 * SIZE


def test_what_was_verified_without_the_root_key_is_not_passed_over_with_it(tmp_path: Path) -> None:
    folder, kept = asyncio.run(written(tmp_path / "segments", 3 * SIZE)), tmp_path / "verified.json"
    assert first_seq(verify(folder, kept)) == 0
    assert first_seq(verify(folder, kept)) == SIZE
    found = verify(folder, kept, "--root", key_id(KEY))
    assert found.exit_code == 1
    assert "the log is not signed" in json.loads(found.stdout)["root_problem"]


def test_a_file_that_was_changed_since_is_found(tmp_path: Path) -> None:
    folder, kept = asyncio.run(written(tmp_path / "segments", 3 * SIZE)), tmp_path / "verified.json"
    assert first_seq(verify(folder, kept)) == 0
    first = min(folder.glob("*.gz"))
    first.write_bytes(first.read_bytes() + b"\0" * 8)
    found = verify(folder, kept)
    assert found.exit_code == 1
    assert first.name in found.output


def test_a_forged_file_cannot_pass_over_records_that_are_not_sealed(tmp_path: Path) -> None:
    """Somebody replaces the first segment, its place in the manifest, and what was kept about it. The next one says where it
    begins."""
    folder, kept = asyncio.run(written(tmp_path / "segments", 3 * SIZE)), tmp_path / "verified.json"
    assert first_seq(verify(folder, kept)) == 0
    manifest, forged = json.loads((folder / "manifest.json").read_text()), json.loads(kept.read_text())
    manifest["segments"][1]["peaks"] = ["0" * 64]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    kept.write_text(json.dumps(forged))
    found = verify(folder, kept)
    assert found.exit_code == 1
    assert "the manifest contradicts the records" in found.output


def test_what_was_kept_of_another_log_or_key_is_not_used(tmp_path: Path) -> None:
    from bailiff.audit.segments import SegmentFolder
    from bailiff_log.seals import chain_of_bodies

    folder, kept = asyncio.run(written(tmp_path / "segments", 3 * SIZE)), tmp_path / "verified.json"
    assert first_seq(verify(folder, kept)) == 0
    earlier, found = read(kept, VerifiedSegments), SegmentFolder(folder)
    chain, _ = chain_of_bodies("pool-a", found.seals)
    assert earlier is not None
    assert first_to_verify(found, chain, earlier) == 1
    for other in ({"pool": "pool-b"}, {"identity": "0" * 64}, {"keys": ["another"]}):
        assert first_to_verify(found, chain, earlier.model_copy(update=other)) == 0
    kept.write_text("{}")
    with pytest.raises(ClientError, match="not a file of"):
        read(kept, VerifiedSegments)
