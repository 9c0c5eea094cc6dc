"""`bailiff notify` resumes at the newest state digest that it folded, if the log confirms it."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.kit import LogWriter, finished_story

from bailiff.client.client import Client
from bailiff.notify.owner_projection import OwnerProjection
from bailiff_bus import topics
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, facts


@pytest.fixture
def log_writer() -> LogWriter:
    """A log with two evictions, both finished."""
    return finished_story(LogWriter())


def digest(log_writer: LogWriter) -> int:
    """Appends a state digest. Returns its seq."""
    log_writer.cycle(facts.StateDigest(schema_version=STATE_SCHEMA, digest=state_digest(log_writer.state)))
    return log_writer.state.seq


class Reading:
    """One start of the notifier: seqs of the records it received, owners of the jobs, and offsets it read from."""

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.owners: dict[str, str] = {}
        self.state = PoolState()
        self.offsets: list[int] = []

    def take(self, record: Record, state: PoolState, owners: Any) -> None:
        self.seqs.append(record.seq)
        self.owners, self.state = dict(owners), state


def kept_file(folder: Path, name: str) -> Path:
    (found,) = folder.rglob(name)
    return found


async def start(log_writer: LogWriter, folder: Path, since: int) -> Reading:
    found = Reading()
    async with Client(log_writer.cluster.client("c"), source="test") as client:
        place = await client.pool()
        reader = client.bus.reader

        async def recording_reader(positions: Any) -> Any:
            found.offsets += [offset for topic, _, offset in positions if topic == topics.AUDIT.name]
            return await reader(positions)

        client.bus.reader = recording_reader  # type: ignore[method-assign]
        head = await OwnerProjection(client.bus, place, folder, found.take).run(since, once=True)
        assert head == log_writer.state.seq
    assert state_digest(found.state) == state_digest(log_writer.state)
    return found


async def test_the_second_start_reads_from_the_digest(log_writer: LogWriter, tmp_path: Path) -> None:
    at = digest(log_writer)
    first = await start(log_writer, tmp_path, since=-1)
    assert (first.seqs[0], first.seqs[-1]) == (0, at)
    log_writer.submit("late", gpus=1)
    second = await start(log_writer, tmp_path, since=at)
    assert second.seqs == list(range(at, log_writer.state.seq + 1))
    assert second.offsets == [at]
    assert (second.owners["train-7"], second.owners["late"]) == ("alice", "alice")


async def test_a_pending_delivery_before_the_digest_requires_the_whole_log(log_writer: LogWriter, tmp_path: Path) -> None:
    at = digest(log_writer)
    await start(log_writer, tmp_path, since=-1)
    assert (await start(log_writer, tmp_path, since=at - 5)).seqs[0] == 0


@pytest.mark.parametrize("file", ["owners.json", "pool-a.snapshot"])
@pytest.mark.parametrize("content", [None, b"{", b"\x00\xff\n{}"])
async def test_missing_or_damaged_files_are_rebuilt_from_the_log(
    log_writer: LogWriter, tmp_path: Path, file: str, content: bytes | None
) -> None:
    at = digest(log_writer)
    await start(log_writer, tmp_path, since=-1)
    if content is None:
        kept_file(tmp_path, file).unlink()
    else:
        kept_file(tmp_path, file).write_bytes(content)
    again = await start(log_writer, tmp_path, since=at)
    assert again.seqs[0] == 0
    assert again.owners["train-7"] == "alice"


async def test_owners_with_another_digest_than_the_snapshot_are_ignored(log_writer: LogWriter, tmp_path: Path) -> None:
    digest(log_writer)
    await start(log_writer, tmp_path, since=-1)
    owners = kept_file(tmp_path, "owners.json")
    before = owners.read_bytes()
    log_writer.submit("late", gpus=1)
    at = digest(log_writer)
    await start(log_writer, tmp_path, since=at - 2)
    owners.write_bytes(before)  # as after a crash between the two writes
    again = await start(log_writer, tmp_path, since=at)
    assert (again.seqs[0], again.owners["late"]) == (0, "alice")


async def test_a_snapshot_that_the_log_does_not_confirm_is_ignored(log_writer: LogWriter, tmp_path: Path) -> None:
    at = digest(log_writer)
    await start(log_writer, tmp_path, since=-1)
    other = LogWriter()
    other.begin()
    found = await start(other, tmp_path, since=at)
    assert found.seqs == list(range(other.state.seq + 1))
    assert found.owners == {}
