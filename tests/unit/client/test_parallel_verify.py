"""Segments that are verified side by side give the result that they give one after another."""

import json
import os
from pathlib import Path

import pytest
from tests.kits.cosigned_log import BOTH, LOG, OURS
from tests.kits.log_builder import Story
from tests.unit.client.chains import messages

from bailiff.audit import parallel_verify
from bailiff.audit.log_sources import from_file
from bailiff.audit.parallel_verify import processes_for
from bailiff.audit.segment_writer import write_segments
from bailiff.audit.verify import Verified, verified
from bailiff.client.errors import ClientError
from bailiff_core.records import ChainHead
from bailiff_core.records.merkle import Frontier

SIZE = 3


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.gz"))


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    found, cosigned = tmp_path / "segments", LOG.cosigned_by(tmp_path, "w1", "w2", until=len(OURS) - 2)
    await write_segments(found, SIZE, ChainHead("pool-a"), Frontier(), 0, messages(OURS), LOG.seals, cosigned)
    return found


async def both(folder: Path, wanted: int = 0) -> Verified:
    """The result of two processes, which is that of one."""
    witnesses = BOTH if wanted else ()
    found = await verified(from_file(folder), (), wanted, witnesses, processes=2)
    assert found == await verified(from_file(folder), (), wanted, witnesses)
    return found


@pytest.mark.slow
async def test_two_processes_find_what_one_finds(folder: Path) -> None:
    found = await both(folder, wanted=2)
    assert found["ok"]
    assert found["sealed"] == found["records"] == len(OURS) // SIZE * SIZE
    assert found["witnesses"]["cosigned"] > SIZE


@pytest.mark.slow
async def test_a_file_that_is_missing_is_named(folder: Path) -> None:
    second = files_of(folder)[1]
    second.write_bytes(second.read_bytes()[:-1])
    with pytest.raises(ClientError, match=second.name):
        await verified(from_file(folder), processes=2)


@pytest.mark.slow
async def test_a_segment_that_begins_elsewhere_than_the_one_before_ends_is_named(folder: Path) -> None:
    """Each by itself is sound: the second file is that of another log, with its own statement of where it begins."""
    other = folder / "other"
    other.mkdir()
    fork = Story(pool="pool-a")
    fork.node("n1", gpus=4)
    for number in range(9):
        fork.submit(f"another-{number}", gpus=1)
    await write_segments(other, SIZE, ChainHead("pool-a"), Frontier(), 0, messages(fork.wires), [])
    manifest, foreign = (json.loads((each / "manifest.json").read_text()) for each in (folder, other))
    manifest["segments"][-1] = foreign["segments"][len(manifest["segments"]) - 1]
    manifest["seals"], manifest["cosignatures"] = [], []
    manifest.pop("closing", None)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (other / foreign["segments"][len(manifest["segments"]) - 1]["name"]).rename(folder / manifest["segments"][-1]["name"])
    found = await both(folder)
    assert not found["ok"]


@pytest.mark.slow
async def test_a_process_that_dies_does_not_change_the_result(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While others wait for it: who cancels them must not be told that they failed."""
    monkeypatch.setattr(parallel_verify, "_verify_one", os._exit)
    assert (await both(folder))["ok"]


def test_small_folders_files_and_kafka_take_one_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = from_file(folder)
    assert processes_for(None) == processes_for(source.folder) == 1
    monkeypatch.setattr(parallel_verify, "WORTH_IT", SIZE)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    assert processes_for(source.folder) == 3
