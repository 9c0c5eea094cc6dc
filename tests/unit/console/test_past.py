"""The past from kept states: the same as folded from the start, and what is told of it the same as from the whole log."""

from collections.abc import AsyncGenerator
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from tests.archive_kit import Log
from tests.history_files import from_lines

from bailiff import explaining
from bailiff.client import Domain
from bailiff_bus import topics
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Message
from bailiff_console.live.follower import Followed
from bailiff_console.past import snapshots
from bailiff_console.past.explain import PastLog, log_around, record_at
from bailiff_core.fold import apply
from bailiff_core.fold.snapshot import to_snapshot
from bailiff_core.model.pool import Pool
from bailiff_core.records import Wire, decode

HISTORIES = Path(__file__).parents[2] / "histories"
STORIES = ("by-hand-5", "projects-borrow-and-give-back-5", "reclaimed-and-not-in-turns-5")


class Kept:
    """A history in a log in memory, and a follower that has read it, with many states kept."""

    def __init__(self, name: str, folder: Path, most: int = 8) -> None:
        self.wires = from_lines((HISTORIES / f"{name}.jsonl").read_text())
        self.domain = decode(self.wires[0]).domain
        self.log = Log(self.domain)
        self.log.append(self.wires)
        self.bus = self.log.cluster.client("console")
        self.followed = Followed(self.bus, Domain(self.domain, 0, "identity"), Metrics(), folder, most)

    async def read(self) -> "Kept":
        await self.followed.view.catch_up()
        self.followed.past.snapshots.settle()
        return self

    @property
    def files(self) -> list[Path]:
        return sorted(self.followed.past.snapshots.folder.glob("*.past"))


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """These histories are short."""
    monkeypatch.setattr(snapshots, "LEAST_GAP", 5)


def folded(wires: list[Wire], seq: int) -> Pool:
    pool = Pool()
    for wire in wires[: seq + 1]:
        apply(pool, decode(wire))
    return pool


def without_turn(pool: Pool) -> Pool:
    """So that it can be compared in the middle of a turn, too."""
    pool.turn_open = False
    return pool


@pytest.mark.parametrize("name", STORIES)
async def test_the_pool_after_any_record_is_what_the_log_folds_to(name: str, tmp_path: Path) -> None:
    kept = await Kept(name, tmp_path).read()
    assert 4 <= len(kept.files) <= 8
    end = len(kept.wires) - 1
    order = [*range(0, end, 7), *range(end, 0, -11), 0, end]
    for seq in order:
        async with kept.followed.past.at(seq=seq, end=end) as then:
            assert then.seq == then.pool.seq == seq
            assert to_snapshot(without_turn(folded(kept.wires, seq))) == to_snapshot(_copy(then.pool)), seq
    for seq in range(0, end, 13):
        time = decode(kept.wires[seq]).time
        async with kept.followed.past.at(time=time, end=end) as then:
            last = max(n for n, wire in enumerate(kept.wires) if decode(wire).time <= time)
            assert then.seq == min(last, end)
        if last == end:
            break
    await kept.followed.past.close()


def _copy(pool: Pool) -> Pool:
    return without_turn(copy(pool))


async def test_states_that_cannot_be_read_are_thrown_away_and_one_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    kept = await Kept(STORIES[0], tmp_path).read()
    end = len(kept.wires) - 1
    for file in kept.files[1:]:
        file.write_bytes(file.read_bytes()[:-40])
    async with kept.followed.past.at(seq=end, end=end) as then:
        assert then.pool.seq == end
    await kept.followed.past.close()
    assert len(kept.files) < 8
    nowhere = tmp_path / "a-file"
    nowhere.write_text("")
    other = await Kept(STORIES[0], nowhere).read()
    assert other.followed.past.snapshots.fault is not None
    assert "a-file" in other.followed.past.snapshots.fault
    async with other.followed.past.at(seq=end, end=end) as then:
        assert then.pool.seq == end
    await other.followed.past.close()


@pytest.mark.parametrize("name", STORIES)
async def test_what_is_explained_is_what_the_whole_log_says(name: str, tmp_path: Path) -> None:
    kept = await Kept(name, tmp_path).read()
    whole = explaining.Log(kept.domain, lambda: _messages(kept.log), _pool_of(kept))
    for job in kept.followed.pool.jobs:
        found = await PastLog(kept.followed, job=job).found(job, None)
        expected = await whole.found(job, None)
        progress = "TaskProgressed"
        assert [each.seq for each in found.history] == [each.seq for each in expected.history if progress not in each.type]
        assert explaining.explain_job(job, found) == explaining.explain_job(job, expected)
    decided = [n for n, wire in enumerate(kept.wires) if b"Decided" in dict(wire.headers)["ce_type"]]
    for seq in [*decided, *range(0, len(kept.wires), 9)]:
        log = await log_around(kept.followed, await record_at(kept.followed, seq))
        told = await explaining.explain_record(log, str(seq), seq, await log.found(str(seq), seq))
        expected_told = await explaining.explain_record(whole, str(seq), seq, await whole.found(str(seq), seq))
        assert told == expected_told, seq
    await kept.followed.past.close()


def _pool_of(kept: Kept) -> Any:
    async def pool() -> Pool:
        return folded(kept.wires, len(kept.wires) - 1)

    return pool


async def _messages(log: Log) -> AsyncGenerator[Message, None]:
    for message in log.cluster.messages(topics.AUDIT.name, 0):
        yield message
