"""What two releases decided, in one log, is decided again by their own engines: wheels made from git, kept by digest.

Skips where this clone does not hold a release (a shallow one), and never fetches.
"""

import dataclasses
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.history_files import from_lines

from bailiff.audit.replay import Replayed, replay
from bailiff_bus.port import Message
from bailiff_bus.topics import AUDIT
from bailiff_core.records import Record, Wire, decode, encode, record_hash
from bailiff_log import engine_store

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]
LOG = FOLDER / "458a4a4-ea152f5.jsonl"  # recorded by `record.py` from these two commits


@pytest.fixture(scope="module")
def wires() -> list[Wire]:
    return from_lines(LOG.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both engines, out of git."""
    folder = tmp_path_factory.mktemp("engines")
    for commit in LOG.stem.split("-"):
        try:
            engine_store.store_engine(folder, engine_store.engine_from_commit(ROOT, commit))
        except engine_store.EngineError as no:
            pytest.skip(str(no))
    return folder


async def replayed(wires: list[Wire], store: Path) -> Replayed:
    async def messages() -> AsyncIterator[Message]:
        for offset, wire in enumerate(wires):
            yield Message(AUDIT.name, 0, offset, 0, None, wire.headers, wire.value)

    return await replay("a100", messages, store=store)


@pytest.mark.slow
async def test_each_release_decides_its_own_cycles_again(wires: list[Wire], store: Path) -> None:
    found = await replayed(wires, store)
    assert found["ok"], found
    assert [engine["logic"] for engine in found["engines"]] == [7, 8]
    assert found["engines"][0]["decided_by"] == "its wheel"
    assert found["cycles_replayed"] == found["cycles"] > 50
    assert found["decisions"] == sum(decode(wire).data.KIND == "decision" for wire in wires) > 50


@pytest.mark.slow
async def test_a_decision_that_the_older_release_never_made_is_found_by_its_engine(wires: list[Wire], store: Path) -> None:
    records = [decode(wire) for wire in wires]
    decided = next(record for record in records if record.type.endswith("PreemptionDecided.v1"))
    victims = tuple(choice.model_copy(update={"lost_gpu_ms": 1}) for choice in decided.data.victims)
    found = await replayed(chained(records, decided.seq, decided.data.model_copy(update={"victims": victims})), store)
    assert found["difference"] is not None
    assert found["difference"]["seq"] == decided.seq
    assert (found["difference"]["engine"], found["difference"]["decided_by"]) == (decided.engine, "its wheel")
    assert found["difference"]["fields"][0].startswith("victims.0.lost_gpu_ms: 1 was decided, replay gives ")


def chained(records: list[Record], seq: int, data: object) -> list[Wire]:
    """The log with this record's data changed, and every record from there on chained anew."""
    wires: list[Wire] = []
    for record in records:
        changed = dataclasses.replace(record, data=data if record.seq == seq else record.data)
        wires.append(encode(dataclasses.replace(changed, prev=record_hash(wires[-1]) if wires else record.prev)))
    return wires


async def test_without_the_older_engine_its_cycles_are_only_folded(wires: list[Wire], tmp_path: Path) -> None:
    found = await replayed(wires, tmp_path)
    assert found["error"] == ""
    assert found["cycles_of_other_engines"] > 20
    oldest = found["engines"][0]
    assert (oldest["decided_by"], oldest["digest"] in oldest["advice"]) == ("", True)


def test_a_wheel_is_the_same_bytes_in_every_process_and_has_the_digest_of_the_records(wires: list[Wire], store: Path) -> None:
    named = [decode(wire).data.digest for wire in wires if decode(wire).type.endswith("WriterStarted.v1")]
    for digest in named:
        path = engine_store.find_engine(store, digest)
        assert path is not None
        program = "import hashlib,sys; from pathlib import Path; from bailiff_log import engine_store as e; "
        program += "print(hashlib.sha256(e.build_wheel(e.load_engine(Path(sys.argv[1])))).hexdigest())"
        again = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
        assert again.stdout.strip() == next(each.sha256 for each in engine_store.stored_engines(store) if each.digest == digest)
