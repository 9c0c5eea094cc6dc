"""What an older engine decided in a log is decided again by that engine, a wheel kept by digest."""

import dataclasses
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kits.history_files import from_lines
from tests.kits.older_engine import continue_log, copy_core

from bailiff.audit.replay import Replayed, replay
from bailiff_bus.port import Message
from bailiff_bus.topics import AUDIT
from bailiff_core.engine import LOGIC
from bailiff_core.records import Record, Wire, decode, encode, record_hash
from bailiff_core.records.decisions import PreemptionDecided
from bailiff_core.records.facts import WriterStarted
from bailiff_log import engine_store

pytestmark = pytest.mark.slow  # engines are built and started


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the older engine's sources."""
    folder = tmp_path_factory.mktemp("older")
    copy_core(folder)
    return folder


@pytest.fixture(scope="module")
def wires(older: Path) -> list[Wire]:
    """A log that the older engine began and this one continued."""
    log = older / "log.jsonl"
    continue_log(log, older)
    continue_log(log)
    return from_lines(log.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def store(older: Path) -> Path:
    """A store that has the older engine."""
    engine_store.store_engine(older / "engines", engine_store.load_engine(older))
    return older / "engines"


async def replayed(wires: list[Wire], store: Path) -> Replayed:
    async def messages() -> AsyncIterator[Message]:
        for offset, wire in enumerate(wires):
            yield Message(AUDIT.name, 0, offset, 0, None, wire.headers, wire.value)

    return await replay("a100", messages, store=store)


async def test_each_engine_decides_its_own_cycles_again(wires: list[Wire], store: Path) -> None:
    found = await replayed(wires, store)
    assert found["ok"], found
    assert [(engine["logic"], engine["decided_by"]) for engine in found["engines"]] == [(1, "its wheel"), (LOGIC, "this release")]
    assert found["cycles_replayed"] == found["cycles"] > 50
    assert found["decisions"] == sum(decode(wire).data.KIND == "decision" for wire in wires) > 50


async def test_a_decision_that_the_older_engine_never_made_is_found_by_it(wires: list[Wire], store: Path) -> None:
    records = [decode(wire) for wire in wires]
    decided = next(record for record in records if isinstance(record.data, PreemptionDecided))
    lost = decided.data.victims[0].lost_gpu_ms
    victims = (
        decided.data.victims[0].model_copy(update={"lost_gpu_ms": lost - 1}),
        *decided.data.victims[1:],
    )  # as this one decides
    found = await replayed(chained(records, decided.seq, decided.data.model_copy(update={"victims": victims})), store)
    assert found["difference"] is not None
    assert found["difference"]["seq"] == decided.seq
    assert (found["difference"]["engine"], found["difference"]["decided_by"]) == (decided.engine, "its wheel")
    assert found["difference"]["fields"][0] == f"victims.0.lost_gpu_ms: {lost - 1} was decided, replay gives {lost}"


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
    started = next(record.data for record in map(decode, wires) if isinstance(record.data, WriterStarted))
    path = engine_store.find_engine(store, started.digest)
    assert path is not None
    program = "import hashlib,sys; from pathlib import Path; from bailiff_log import engine_store as e; "
    program += "print(hashlib.sha256(e.build_wheel(e.load_engine(Path(sys.argv[1])))).hexdigest())"
    again = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert again.stdout.strip() == engine_store.stored_engines(store)[0].sha256
