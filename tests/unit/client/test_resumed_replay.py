"""`bailiff audit replay` of a folder of segments in several processes, and from where it stopped."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.histories.record import HISTORIES
from tests.kits.log_builder import Story
from tests.unit.client.chains import messages
from typer.testing import CliRunner, Result

from bailiff.audit.log_sources import from_file
from bailiff.audit.parallel_replay import replay_in_parallel
from bailiff.audit.replay import Replayed, replay
from bailiff.audit.segment_writer import write_segments
from bailiff.audit.segments import SegmentFolder
from bailiff.cli import app
from bailiff_core.records import ChainHead, Wire
from bailiff_core.records.merkle import Frontier

SIZE = 20
STORY = Story(pool="pool-a")
HISTORIES["borrow-and-reclaim"](STORY)
WIRES = STORY.wires
WHOLE = len(WIRES) // SIZE * SIZE


async def written(folder: Path, wires: Sequence[Wire] = WIRES) -> Path:
    await write_segments(folder, SIZE, ChainHead("pool-a"), Frontier(), 0, messages(wires), [])
    return folder


async def in_one(folder: Path) -> Replayed:
    return await replay("pool-a", lambda: from_file(folder).messages)


def command(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["audit", "replay", "--file", str(folder), "--output", "json", *options])


@pytest.mark.slow
async def test_two_ranges_replay_what_one_does(tmp_path: Path) -> None:
    folder = await written(tmp_path)
    found = await replay_in_parallel(SegmentFolder(folder), 2, None)
    assert found is not None, "the log has no place to divide it"
    assert found == await in_one(folder)
    assert found["cycles_replayed"] == found["cycles"] > 10


def test_it_goes_on_where_it_stopped_and_notices_another_log(tmp_path: Path) -> None:
    folder, kept = tmp_path / "segments", tmp_path / "replayed.json"
    asyncio.run(written(folder, WIRES[: 3 * SIZE]))
    first = command(folder, "--resume", str(kept))
    assert first.exit_code == 0, first.output
    assert json.loads(kept.read_text())["seq"] == json.loads(first.stdout)["to_seq"] == 3 * SIZE - 1
    asyncio.run(written(folder))
    second = json.loads(command(folder, "--resume", str(kept)).stdout)
    assert second["ok"]
    assert second["to_seq"] == WHOLE - 1
    assert second["cycles"] < json.loads(command(folder).stdout)["cycles"]
    nothing_new = command(folder, "--resume", str(kept))
    assert nothing_new.exit_code == 0, nothing_new.output
    assert json.loads(nothing_new.stdout)["cycles"] == 0
    assert json.loads(kept.read_text())["seq"] == WHOLE - 1
    changed = json.loads(kept.read_text()) | {"seq": 5, "hash": "0" * 64}
    kept.write_text(json.dumps(changed))
    found = command(folder, "--resume", str(kept))
    assert found.exit_code == 1
    assert "record 5 is another" in json.loads(found.stdout)["error"]
    assert json.loads(kept.read_text()) == changed


def test_a_log_that_is_shorter_than_it_was_replayed_before_is_cut(tmp_path: Path) -> None:
    kept = tmp_path / "replayed.json"
    command(asyncio.run(written(tmp_path / "whole")), "--resume", str(kept))
    found = command(asyncio.run(written(tmp_path / "cut", WIRES[: 2 * SIZE])), "--resume", str(kept))
    assert found.exit_code == 1
    assert "its tail was cut" in json.loads(found.stdout)["error"]


@pytest.mark.parametrize("text", ["{}", "not JSON"])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    folder, kept = asyncio.run(written(tmp_path / "segments")), tmp_path / "replayed.json"
    kept.write_text(text)
    found = command(folder, "--resume", str(kept))
    assert found.exit_code == 2
    assert "not a file of" in found.output
