"""Untrusted proofs, logs and manifests: every fault is reported as one error."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bailiff.audit.log_files import about_line
from bailiff.audit.log_sources import from_file
from bailiff.audit.proofs import checked
from bailiff.audit.segments import MANIFEST
from bailiff.audit.verify import verified
from bailiff.client.errors import ClientError, ExitCode
from bailiff_core.records import Wire
from bailiff_core.records.merkle import Frontier, leaf_hash
from bailiff_core.records.wire import record_hash
from bailiff_log.seals import make_proof, make_seal

DEEP = "[" * 100_000
NO_TEXT = "\ud800"  # valid in JSON, not encodable as UTF-8


def proof_of(value: bytes) -> dict[str, Any]:
    """Returns a valid proof for a log of one record, sealed with a test key."""
    wire = Wire((("ce_pool", b"pool-a"), ("ce_seq", b"0")), value)
    tree = Frontier()
    tree.append(leaf_hash(bytes.fromhex(record_hash(wire))))
    seal = make_seal(b"\x01" * 32, "pool-a", "0" * 64, tree, record_hash(wire), 1)
    return make_proof("pool-a", 0, wire.headers, wire.value, seal, lambda _at, _size: b"")


def test_record_data_that_is_not_json_is_omitted_from_a_proof(tmp_path: Path) -> None:
    for value, data in (("{}", {}), (DEEP, None)):
        (tmp_path / "proof.json").write_text(json.dumps(proof_of(value.encode())))
        found = checked(tmp_path / "proof.json", [])
        assert (found["ok"], found["data"]) == (True, data)


def test_a_proof_with_an_invalid_header_is_rejected(tmp_path: Path) -> None:
    proof = proof_of(b"{}")
    proof["headers"].append([f"ce_{NO_TEXT}", ""])
    (tmp_path / "proof.json").write_text(json.dumps(proof))
    assert "not a valid proof" in checked(tmp_path / "proof.json", [])["problem"]


@pytest.mark.parametrize(
    "line",
    [DEEP, json.dumps({"offset": 0, "time": 1, "headers": [[f"ce_{NO_TEXT}", "x"]], "value": "{}"})],
    ids=["nested", "a header that no message has"],
)
async def test_an_invalid_line_is_reported_with_its_number(line: str, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(f"{about_line('pool-a', 0)}{line}\n")
    with pytest.raises(ClientError, match=r"log\.jsonl:2: ") as caught:
        await verified(from_file(tmp_path / "log.jsonl"), [])
    assert caught.value.exit_code == ExitCode.USAGE


async def test_a_line_above_the_maximum_length_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bailiff.audit.log_files.LONGEST_LINE", 1_000)
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(about_line("pool-a", 0).encode() + b" " * 10_000_000))
    with pytest.raises(ClientError, match=r"log\.jsonl\.gz:2: the line has 1,000 characters or more") as caught:
        await verified(from_file(tmp_path / "log.jsonl.gz"), [])
    assert caught.value.exit_code == ExitCode.USAGE


def test_a_manifest_with_an_invalid_file_name_is_rejected(tmp_path: Path) -> None:
    head = {"pool": "pool-a", "next_seq": 0, "hash": "0" * 64, "time": "", "epoch": 0}
    segment = {
        "name": "a\0b",
        "first_seq": 0,
        "last_seq": 9,
        "messages": 10,
        "bytes": 1,
        "sha256": "0" * 64,
        "head": head,
        "peaks": [],
        "after": "0" * 64,
    }
    manifest = {"bailiff_segments": 1, "pool": "pool-a", "partition": 0, "size": 10, "segments": [segment], "seals": []}
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ClientError, match=r"segments\.0\.name"):
        from_file(tmp_path)
