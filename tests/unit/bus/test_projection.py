"""A projection and its local snapshot: validation against the log, and how often one is taken."""

import asyncio
from pathlib import Path

import pytest
from tests.kits.log_builder import Story
from tests.kits.memory_bus import MemoryCluster

from bailiff_bus.topics import AUDIT
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead
from bailiff_core.records.facts import StateDigest
from bailiff_log.projection import Projection, StateDiverged
from bailiff_log.snapshot_file import SnapshotDraft, read_snapshot
from bailiff_service.metrics import Metrics

from .virtual_time import VirtualTimeLoop, run


def test_a_snapshot_whose_digest_was_cut_off_the_log_is_not_used(tmp_path: Path) -> None:
    async def main() -> None:
        story = Story()
        story.node("n1", gpus=8)
        before = len(story.wires)
        story.cycle(StateDigest(schema_version=STATE_SCHEMA, digest=state_digest(story.state)))
        cluster = MemoryCluster(lambda: 0)
        cluster.create_topics(pools=1)
        for wire in story.wires:
            cluster.store(AUDIT.name, 0, None, wire.headers, wire.value)

        def projection() -> Projection:
            return Projection(cluster.client("one"), story.state.pool, 0, Metrics(), snapshots=tmp_path)

        await projection().catch_up()
        cluster.truncate(AUDIT.name, 0, before)
        after = projection()
        await after.open()
        await after.catch_up()
        assert after.state.seq == before - 1
        other = Story()
        other.node("n1", gpus=8)
        assert [wire.value for wire in other.wires] == [wire.value for wire in story.wires[:before]]
        other.submit("next", gpus=1)
        for wire in other.wires[before:]:
            cluster.store(AUDIT.name, 0, None, wire.headers, wire.value)
        await after.advance(1.0)
        assert "next" in after.state.jobs

    run(main())
    assert list(tmp_path.iterdir()), "it keeps a snapshot of what the log confirmed"


def test_a_snapshot_that_cannot_be_written_is_counted_and_the_fold_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "a file"
    folder.touch()  # no folder can be made here
    log, metrics = Reading(folder), Metrics()
    log.jobs("one", "two")

    async def main() -> None:
        view = Projection(log.cluster.client("one"), log.story.state.pool, 0, metrics, snapshots=folder)
        await view.catch_up()
        assert view.state.jobs.keys() == {"one", "two"}
        assert "a file" in (view.unwritable or "")
        folder.unlink()
        log.jobs("three")
        await view.catch_up()
        assert view.unwritable is None
        assert view.digest_seq == log.digests[-1]

    run(main())
    assert b'bailiff_snapshots_unwritten_total{pool="test"} 2.0' in metrics.text()
    assert [file.name for file in folder.iterdir()] == ["test.snapshot"]


def test_a_draft_of_a_process_that_was_killed_is_removed_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed, file = tmp_path / "test.1.new", tmp_path / "test.snapshot"
    killed.touch()
    SnapshotDraft(file, PoolState()).discard()
    assert list(tmp_path.iterdir()) == [killed], "it may be another process's, at work"
    monkeypatch.setattr("bailiff_log.snapshot_file.ABANDONED_S", -1)
    draft = SnapshotDraft(file, PoolState())
    assert not killed.exists()
    del draft
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_snapshot_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "test.snapshot"
    SnapshotDraft(file, PoolState(pool="test")).keep(ChainHead("test", 5), 7)
    found = read_snapshot(file)
    assert found is not None
    assert (found.state.pool, found.head.next_seq, found.offset) == ("test", 5, 7)
    whole = file.read_bytes()
    for damaged in (
        b"",
        b"{}",
        whole[:-1],
        whole[:-200] + whole[-199:],
        whole + b"0" * 80,
        whole.replace(b'"offset":7', b'"offset":8'),
    ):
        file.write_bytes(damaged)
        assert read_snapshot(file) is None


class Reading:
    """A log with a digest after each job, and a view of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.story, self.digests = folder, Story(), []
        self.story.node("n1", gpus=8)
        self.cluster = MemoryCluster(lambda: 0)
        self.cluster.create_topics(pools=1)
        self.stored = 0

    def jobs(self, *names: str, lie: bool = False) -> None:
        for name in names:
            self.story.submit(name, gpus=1)
            self.digests.append(len(self.story.wires))
            self.story.cycle(StateDigest(schema_version=STATE_SCHEMA, digest="0" * 64 if lie else state_digest(self.story.state)))
        for wire in self.story.wires[self.stored :]:
            self.cluster.store(AUDIT.name, 0, None, wire.headers, wire.value)
        self.stored = len(self.story.wires)

    def projection(self) -> Projection:
        return Projection(self.cluster.client("one"), self.story.state.pool, 0, Metrics(), snapshots=self.folder)


def compare_for(seconds: float, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Comparing takes so long from now on. Returns the digests at which it is done."""
    draft, compared = Projection.draft_snapshot, list[int]()

    def slow(projection: Projection) -> SnapshotDraft:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        loop.now += seconds
        compared.append(projection.state.seq + 1)
        return draft(projection)

    monkeypatch.setattr(Projection, "draft_snapshot", slow)
    return compared


def test_far_from_the_end_states_are_not_compared_at_every_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first and the last are, and there the snapshot is taken, however slow the machine is."""
    reading, kept = Reading(tmp_path), []
    compare_for(10.0, monkeypatch)
    reading.jobs("a", "b", "c", "d", "e")
    monkeypatch.setattr("bailiff_log.projection.NEAR_END", reading.stored - reading.digests[3])
    keep = SnapshotDraft.keep
    monkeypatch.setattr(SnapshotDraft, "keep", lambda draft, head, at, beside: (kept.append(at), keep(draft, head, at, beside)))
    projection = reading.projection()
    run(projection.catch_up())
    assert kept == [reading.digests[0], *reading.digests[3:]]
    assert state_digest(projection.state) == state_digest(reading.story.state)
    assert projection.digest_seq == reading.digests[-1]


def test_a_fold_that_differs_is_found_at_the_end_at_the_latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(tmp_path)
    reading.jobs("a", "b", "c")
    reading.jobs("d", lie=True)
    monkeypatch.setattr("bailiff_log.projection.NEAR_END", 5)
    with pytest.raises(StateDiverged):
        run(reading.projection().catch_up())


def test_a_view_that_follows_compares_at_each_digest(tmp_path: Path) -> None:
    async def main() -> None:
        reading = Reading(tmp_path)
        reading.jobs("a")
        projection = reading.projection()
        await projection.catch_up()
        reading.jobs("b", lie=True)
        await projection.advance(1.0)

    with pytest.raises(StateDiverged):
        run(main())


def test_a_view_that_follows_compares_a_large_state_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All readers get a digest at once: while they compare, nobody decides."""
    compared = compare_for(1.0, monkeypatch)

    async def main() -> None:
        reading = Reading(tmp_path)
        reading.jobs("a")
        projection = reading.projection()
        await projection.catch_up()
        reading.jobs("b")
        await projection.advance(1.0)
        await asyncio.sleep(50)
        reading.jobs("c")
        await projection.advance(1.0)
        assert compared == [reading.digests[0], reading.digests[2]]
        reading.jobs("d", lie=True)
        await asyncio.sleep(50)
        with pytest.raises(StateDiverged):
            await projection.advance(1.0)

    run(main())
