"""Segments in object storage: what is cut off, repeated, forged or refused, on a real S3 server."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import s3fs
from tests.kits.parquet import SEALED, SIZE, TRUST, export, parquet
from tests.kits.s3_server import BUCKET, ENVIRONMENT, StoppingProxy, s3_server, use

from bailiff.audit import segment_proofs
from bailiff.audit.log_sources import from_file
from bailiff.audit.object_path import ObjectPath
from bailiff.audit.segment_writer import write_segments
from bailiff.audit.segments import SegmentFolder
from bailiff.audit.verify import verified
from bailiff.client.errors import ClientError, ExitCode


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3")) as address:
        yield address


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> tuple[s3fs.S3FileSystem, ObjectPath]:
    return use(server, monkeypatch), ObjectPath(f"{BUCKET}/{request.node.name}")


async def test_segments_are_written_once_and_verified_where_they_are(bucket: tuple[s3fs.S3FileSystem, ObjectPath]) -> None:
    files, folder = bucket
    assert len(await export(folder)) == SEALED // SIZE
    before = files.find(str(folder), detail=True)
    assert await export(folder) == []
    after = files.find(str(folder), detail=True)
    assert {name: each["ETag"] for name, each in after.items()} == {name: each["ETag"] for name, each in before.items()}
    assert {name: each["LastModified"] for name, each in after.items() if name.endswith(".gz")} == {
        name: each["LastModified"] for name, each in before.items() if name.endswith(".gz")
    }
    found = await verified(from_file(folder), TRUST)
    assert found["ok"], found
    assert found["records"] == found["sealed"] == SEALED


async def test_a_forged_object_is_named(bucket: tuple[s3fs.S3FileSystem, ObjectPath]) -> None:
    files, folder = bucket
    names = await export(folder)
    forged, other = f"{folder}/{names[1]}", f"{folder}/{names[2]}"
    right = files.cat_file(forged)
    files.pipe_file(forged, files.cat_file(other))
    found = await verified(from_file(folder), TRUST)
    assert not found["ok"]
    assert f"{names[1]} (records {SIZE} to {2 * SIZE - 1}) is not the file that was written" in found["seal_problem"]
    files.pipe_file(forged, right)
    files.rm_file(other)
    with pytest.raises(ClientError, match=names[2]):
        await verified(from_file(folder), TRUST)


async def test_forged_parquet_files_are_named(bucket: tuple[s3fs.S3FileSystem, ObjectPath]) -> None:
    """The forger has rows that are whole records of a log, with their hashes; no seal is over them."""
    files, folder = bucket
    names = [each.removesuffix(".jsonl.gz") for each in await export(folder)]
    assert len(await parquet(folder)) == len(names)
    assert await parquet(folder) == []
    found = SegmentFolder(folder)
    assert segment_proofs.faults(found, TRUST) == []
    files.pipe_file(f"{folder}/victims/{names[0]}.parquet", files.cat_file(f"{folder}/records/{names[0]}.parquet"))
    files.pipe_file(f"{folder}/records/{names[1]}.parquet", files.cat_file(f"{folder}/records/{names[2]}.parquet"))
    files.pipe_file(f"{folder}/records/{names[2]}.parquet", b"PAR1 and nothing else")
    wrong = segment_proofs.faults(found, TRUST)
    assert len(wrong) == 3
    assert all(name in fault for name, fault in zip(names, wrong, strict=False))
    assert segment_proofs.faults(found, ["another-key"])[3].endswith("which is not a trusted key")


async def test_an_upload_that_is_killed_leaves_a_sound_folder_and_goes_on(
    bucket: tuple[s3fs.S3FileSystem, ObjectPath], server: str, tmp_path: Path
) -> None:
    files, folder = bucket
    local = tmp_path / "segments"
    names = await export(local)
    proxy = StoppingProxy(server, names[1])
    try:
        command = [sys.executable, "-m", "bailiff", "audit", "export", str(folder), "--segment", str(SIZE), "--file", str(local)]
        environment = {**os.environ, **ENVIRONMENT, "AWS_ENDPOINT_URL": proxy.address}
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)  # noqa: ASYNC220 - it is killed as it is
        assert await asyncio.to_thread(proxy.stopped.wait, 120), process.communicate()
        process.send_signal(signal.SIGKILL)
        process.communicate()
    finally:
        proxy.close()
    assert not files.exists(f"{folder}/{names[1]}")
    found = await verified(from_file(folder), TRUST)
    assert found["ok"], found
    assert found["records"] == SIZE
    source = from_file(local)
    assert source.folder is not None
    again = await write_segments(
        folder, SIZE, source.start, source.tree, 0, source.messages, source.seals, (), source.folder.closing
    )
    assert [each.name for each in again] == names[1:]
    assert files.cat_file(f"{folder}/manifest.json") == (local / "manifest.json").read_bytes()
    assert (await verified(from_file(folder), TRUST))["ok"]


def test_missing_credentials_are_a_plain_error(
    bucket: tuple[s3fs.S3FileSystem, ObjectPath], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folder = bucket
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(ClientError, match="credentials") as refused:
        SegmentFolder(folder)
    assert refused.value.exit_code == ExitCode.UNREACHABLE
    assert "AWS_ACCESS_KEY_ID" in refused.value.advice


def test_a_proof_is_checked_with_its_files_alone(tmp_path: Path) -> None:
    names = [each.removesuffix(".jsonl.gz") for each in asyncio.run(export(tmp_path))]
    asyncio.run(parquet(tmp_path))
    proof = tmp_path / "proofs" / f"{names[1]}.json"
    found = segment_proofs.check_segment(proof, TRUST)
    assert (found["ok"], found["first_seq"], found["last_seq"]) == (True, SIZE, 2 * SIZE - 1)
    changed = json.loads(proof.read_text())
    changed["peaks"] = [*changed["peaks"][:-1], "0" * 64]
    proof.write_text(json.dumps(changed))
    assert "are not those under the seal" in segment_proofs.check_segment(proof, TRUST)["problem"]
