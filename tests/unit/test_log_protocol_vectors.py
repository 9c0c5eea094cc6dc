"""docs/reference/log-protocol.md and its vectors say what the code does."""

import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kits.history_files import to_lines
from tests.kits.log_builder import folded, replayed

from bailiff_core.canonical import canonical_json
from bailiff_core.model.identity import IdentityRules
from bailiff_core.model.policy import DEFAULT_POLICY, Project
from bailiff_core.records import Break, ChainHead, Wire, continues, decode, encode, record_hash
from bailiff_core.records.facts import PolicyApplied
from bailiff_log.keys import from_text, is_signed_bytes, key_id
from bailiff_log.log_signatures import LogSignatureCheck
from bailiff_log.request_verifier import RequestVerifier

DOCS = Path(__file__).parents[2] / "docs"
VECTORS = json.loads((DOCS / "log-protocol-vectors.json").read_text(encoding="utf-8"))
HISTORIES = sorted((Path(__file__).parents[1] / "histories").glob("*.jsonl"))
GENESIS = ChainHead("a100")


def wire(entry) -> Wire:
    return Wire(tuple((name, text.encode()) for name, text in entry["headers"]), entry["value"].encode())


def head_after(records: int) -> ChainHead:
    head = GENESIS
    for entry in VECTORS["chain"][:records]:
        head = continues(head, wire(entry))
        assert isinstance(head, ChainHead)
    return head


def test_the_hash_is_over_these_bytes():
    vector = VECTORS["hash"]
    assert hashlib.sha256(bytes.fromhex(vector["preimage_hex"])).hexdigest() == vector["hash"]
    assert record_hash(wire(vector)) == vector["hash"]


@pytest.mark.parametrize("at", range(len(VECTORS["chain"])))
def test_each_record_of_the_chain(at):
    entry = VECTORS["chain"][at]
    assert continues(head_after(at), wire(entry)).hash == entry["hash"]
    assert encode(decode(wire(entry))) == wire(entry)


def test_the_chain_folds_and_replays():
    wires = [wire(entry) for entry in VECTORS["chain"]]
    assert folded(wires).jobs["grosse-1"].phase == "starting"
    assert replayed(wires).difference is None


@pytest.mark.parametrize("entry", VECTORS["breaks"], ids=lambda entry: entry["name"])
def test_what_breaks_and_why(entry):
    assert continues(head_after(entry["after"]), wire(entry)) == Break(entry["reason"])


def test_a_record_tampered_with_orphans_the_next_one():
    entry = VECTORS["tampered"]
    head = continues(head_after(entry["at"]), wire(entry))
    assert head.hash == entry["hash"] != VECTORS["chain"][entry["at"]]["hash"]
    assert continues(head, wire(VECTORS["chain"][entry["at"] + 1])) == Break(entry["next_breaks"])


def test_each_record_of_the_signed_chain():
    head = GENESIS
    for entry in VECTORS["signed"]["chain"]:
        head = continues(head, wire(entry), LogSignatureCheck("a100"))
        assert isinstance(head, ChainHead), head
        assert head.hash == entry["hash"]
        assert (head.keys.root_key, head.keys.writer_key) == (VECTORS["signed"]["root_key"], VECTORS["signed"]["writer_key"])


# --- the verifier printed in the page


def verify(tmp_path, text: str) -> "subprocess.CompletedProcess[str]":
    page = (DOCS / "reference/log-protocol.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"## A verifier.*?```python\n(.*?)```", page, re.DOTALL)
    assert len([line for line in program.splitlines() if line.strip()]) <= 22
    (tmp_path / "verify.py").write_text(program, encoding="utf-8")
    (tmp_path / "log.jsonl").write_text(text, encoding="utf-8")
    command = [sys.executable, "-I", str(tmp_path / "verify.py"), str(tmp_path / "log.jsonl")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_printed_verifier_accepts_the_chain(tmp_path):
    wires = [wire(entry) for entry in VECTORS["chain"]]
    assert verify(tmp_path, to_lines(wires)).stdout.strip() == VECTORS["chain"][-1]["hash"]


@pytest.mark.parametrize("entry", VECTORS["breaks"], ids=lambda entry: entry["name"])
def test_the_printed_verifier_finds_the_break(tmp_path, entry):
    wires = [wire(found) for found in VECTORS["chain"][: entry["after"]]] + [wire(entry)]
    if entry["after"] and entry["name"] != "another pool's record":
        assert f"record {entry['after']} does not continue the chain" in verify(tmp_path, to_lines(wires)).stderr
    assert verify(tmp_path, to_lines(wires)).returncode == 1


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_the_printed_verifier_accepts_recorded_logs(tmp_path, path):
    expected = json.loads(path.with_suffix(".expected.json").read_text(encoding="utf-8"))
    assert verify(tmp_path, path.read_text(encoding="utf-8")).stdout.strip() == expected["head"]


# --- who asked


REQUEST = VECTORS["signed_request"]


def test_what_a_requester_signs_has_the_digest_of_the_spec_in_place_of_the_spec():
    data, public = json.loads(REQUEST["data"]), json.loads(REQUEST["public_data"])
    spec = canonical_json(data.pop("spec"))
    digest = hashlib.sha256(bytes.fromhex(data.pop("salt")) + spec).hexdigest()
    assert public == {**data, "spec_digest": digest}
    assert hashlib.sha256(REQUEST["digest_preimage"].encode()).hexdigest() == REQUEST["digest"]
    assert REQUEST["digest_preimage"].endswith("\n" + REQUEST["public_data"])
    assert key_id(bytes.fromhex(REQUEST["private_key_hex"])) == REQUEST["key"]
    assert is_signed_bytes(from_text(REQUEST["key"]), from_text(REQUEST["sig"]), REQUEST["signed_bytes"].encode())


def test_the_record_of_a_signed_request():
    record = wire(REQUEST["record"])
    assert record_hash(record) == REQUEST["record"]["hash"]
    assert encode(decode(record)) == record
    assert requests_of(record) == []


@pytest.mark.parametrize("entry", REQUEST["tampered"], ids=lambda entry: entry["name"])
def test_a_record_that_is_not_what_was_signed(entry):
    headers = dict(REQUEST["record"]["headers"])
    if "header" in entry:
        headers[entry["header"]] = entry["value"]
    if "request" in entry:
        headers["ce_request"] = canonical_json({**json.loads(headers["ce_request"]), **entry["request"]}).decode()
    value = canonical_json({**json.loads(REQUEST["record"]["value"]), **entry.get("data", {})}).decode()
    assert requests_of(wire({"headers": [each for each in headers.items() if each[1]], "value": value})) == [entry["fault"]]


def requests_of(record: Wire) -> list[str]:
    """The faults of the request of this record, in a pool whose policy names the key and the job's project."""
    identity = IdentityRules(keys={REQUEST["key"]: REQUEST["holder"]})
    rules = DEFAULT_POLICY.model_copy(update={"identity": identity, "projects": (Project(name="default"),)})
    found = decode(record)
    applied = replace(found, seq=1, request="", auth="", actor="", data=PolicyApplied(policy=rules))
    verifier = RequestVerifier("a100")
    for each in (applied, found):
        verifier.take(each)
    return [fault["fault"] for fault in verifier.result()["faults"]]
