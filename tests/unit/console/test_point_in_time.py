"""Past states from snapshots equal those folded from the start, and so do their explanations."""

from collections.abc import AsyncGenerator
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from tests.kits.archive import Log
from tests.kits.history_files import from_lines

from bailiff.client.pool_ref import PoolRef
from bailiff.explain import explanations
from bailiff_bus import topics
from bailiff_bus.port import Message
from bailiff_console.history import snapshots
from bailiff_console.history.explain import PoolLog, log_around, record_at
from bailiff_console.live.follower import PoolFollower
from bailiff_core.fold import apply
from bailiff_core.fold.snapshot import to_snapshot
from bailiff_core.model.state import PoolState
from bailiff_core.records import Wire, decode
from bailiff_service.metrics import Metrics

HISTORIES = Path(__file__).parents[2] / "histories"
STORIES = ("operator-requests", "borrow-and-reclaim", "no-counter-reclaim")


class FollowedHistory:
    """A recorded history in an in-memory log, and a follower that has read it and stored snapshots."""

    def __init__(self, name: str, folder: Path, max_snapshots: int = 8) -> None:
        self.wires = from_lines((HISTORIES / f"{name}.jsonl").read_text())
        self.pool = decode(self.wires[0]).pool
        self.log = Log(self.pool)
        self.log.append(self.wires)
        self.bus = self.log.cluster.client("console")
        self.followed = PoolFollower(self.bus, PoolRef(self.pool, 0, "identity"), Metrics(), folder, max_snapshots)

    async def read(self) -> "FollowedHistory":
        await self.followed.log_projection.catch_up()
        self.followed.history.snapshots.flush()
        return self

    @property
    def files(self) -> list[Path]:
        return sorted(self.followed.history.snapshots.folder.glob("*.past"))


@pytest.fixture(autouse=True)
def _small_snapshot_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores snapshots often, because the histories are short."""
    monkeypatch.setattr(snapshots, "MIN_GAP", 5)


def folded(wires: list[Wire], seq: int) -> PoolState:
    state = PoolState()
    for wire in wires[: seq + 1]:
        apply(state, decode(wire))
    return state


def without_cycle(state: PoolState) -> PoolState:
    """Makes states comparable within an open decision cycle."""
    state.cycle_open = False
    return state


@pytest.mark.parametrize("name", STORIES)
async def test_the_pool_after_any_record_equals_the_folded_log(name: str, tmp_path: Path) -> None:
    history = await FollowedHistory(name, tmp_path).read()
    assert 4 <= len(history.files) <= 8
    end = len(history.wires) - 1
    order = [*range(0, end, 7), *range(end, 0, -11), 0, end]
    for seq in order:
        async with history.followed.history.at(seq=seq, end=end) as then:
            assert then.seq == then.state.seq == seq
            assert to_snapshot(without_cycle(folded(history.wires, seq))) == to_snapshot(_copy(then.state)), seq
    for seq in range(0, end, 13):
        time = decode(history.wires[seq]).time
        async with history.followed.history.at(time=time, end=end) as then:
            last = max(n for n, wire in enumerate(history.wires) if decode(wire).time <= time)
            assert then.seq == min(last, end)
        if last == end:
            break
    await history.followed.history.close()


def _copy(state: PoolState) -> PoolState:
    return without_cycle(copy(state))


async def test_unreadable_snapshots_are_dropped_and_write_errors_are_reported(tmp_path: Path) -> None:
    history = await FollowedHistory(STORIES[0], tmp_path).read()
    end = len(history.wires) - 1
    for file in history.files[1:]:
        file.write_bytes(file.read_bytes()[:-40])
    async with history.followed.history.at(seq=end, end=end) as then:
        assert then.state.seq == end
    await history.followed.history.close()
    assert len(history.files) < 8
    nowhere = tmp_path / "a-file"
    nowhere.write_text("")
    other = await FollowedHistory(STORIES[0], nowhere).read()
    assert other.followed.history.snapshots.fault is not None
    assert "a-file" in other.followed.history.snapshots.fault
    async with other.followed.history.at(seq=end, end=end) as then:
        assert then.state.seq == end
    await other.followed.history.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
async def test_explanations_equal_those_from_the_whole_log(name: str, tmp_path: Path) -> None:
    history = await FollowedHistory(name, tmp_path).read()
    whole = explanations.Log(history.pool, lambda: _messages(history.log), _pool_of(history))
    for job in history.followed.state.jobs:
        found = await PoolLog(history.followed, job=job).found(job, None)
        expected = await whole.found(job, None)
        progress = "TaskProgressed"
        assert [each.seq for each in found.history] == [each.seq for each in expected.history if progress not in each.type]
        assert explanations.explain_job(job, found) == explanations.explain_job(job, expected)
    decided = [n for n, wire in enumerate(history.wires) if b"Decided" in dict(wire.headers)["ce_type"]]
    for seq in [*decided, *range(0, len(history.wires), 9)]:
        log = await log_around(history.followed, await record_at(history.followed, seq))
        explained = await explanations.explain_record(log, str(seq), seq, await log.found(str(seq), seq))
        expected_explained = await explanations.explain_record(whole, str(seq), seq, await whole.found(str(seq), seq))
        assert explained == expected_explained, seq
    await history.followed.history.close()


def _pool_of(history: FollowedHistory) -> Any:
    async def pool() -> PoolState:
        return folded(history.wires, len(history.wires) - 1)

    return pool


async def _messages(log: Log) -> AsyncGenerator[Message, None]:
    for message in log.cluster.messages(topics.AUDIT.name, 0):
        yield message
