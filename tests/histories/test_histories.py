"""Every history ever recorded still reads, verifies, folds, and, while `LOGIC` is what it was, replays to its own bytes."""

import json
import re
from pathlib import Path

import pytest
from tests.histories.record import HISTORIES, record
from tests.kits.history_files import from_lines, to_lines
from tests.kits.log_builder import folded, replayed

from bailiff_core.engine import LOGIC, STATE_SCHEMA
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.records import Break, ChainHead, Wire, continues, decode, encode

FOLDER = Path(__file__).parent
RECORDED = sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def read(name: str) -> tuple[list[Wire], dict[str, object]]:
    text = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
    wires = from_lines(text)
    assert to_lines(wires) == text
    return wires, json.loads((FOLDER / f"{name}.expected.json").read_text(encoding="utf-8"))


def test_they_are_all_here():
    assert set(HISTORIES) == {re.sub("-[0-9]+$", "", name) for name in RECORDED}


@pytest.mark.parametrize("name", RECORDED)
def test_it_verifies(name):
    wires, expected = read(name)
    assert len(wires) == expected["records"]
    head = ChainHead(str(expected["pool"]))
    for wire in wires:
        after = continues(head, wire)
        assert not isinstance(after, Break), after
        head = after
    assert head.hash == expected["head"]


@pytest.mark.parametrize("name", RECORDED)
def test_it_reads_and_is_written_as_it_was(name):
    wires, _ = read(name)
    assert [encode(decode(wire)) for wire in wires] == wires


@pytest.mark.parametrize("name", RECORDED)
def test_it_folds_to_the_same_state(name):
    wires, expected = read(name)
    state = folded(wires)
    assert state.seq == len(wires) - 1
    if expected["state_schema"] == STATE_SCHEMA:
        assert state_digest(state) == expected["state_digest"]


@pytest.mark.parametrize("name", RECORDED)
def test_it_replays_to_the_same_bytes(name):
    wires, expected = read(name)
    replay = replayed(wires)
    assert replay.difference is None
    if expected["logic"] == LOGIC:
        assert replay.skipped_cycles == 0
        assert replay.decisions == sum(decode(wire).data.KIND == "decision" for wire in wires)
    assert replay.cycles > 10


def test_a_recorded_history_is_never_overwritten(tmp_path):
    log = record("node-lost", tmp_path)
    before = log.read_bytes()
    with pytest.raises(FileExistsError, match="never recorded again"):
        record("node-lost", tmp_path)
    assert log.read_bytes() == before
    log.unlink()
    with pytest.raises(FileExistsError, match="never recorded again"):
        record("node-lost", tmp_path)
