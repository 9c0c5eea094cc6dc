"""`bailiff notify` begins where it left off: at the newest state digest that it folded, where the log allows it."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.kit import Scribe, finished_story

from bailiff.client.client import Client
from bailiff.notify.owner_projection import OwnerProjection
from bailiff_bus import topics
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, facts


@pytest.fixture
def scribe() -> Scribe:
    """A story, a state digest behind it, and one more eviction after that."""
    made = Scribe()
    finished_story(made)
    return made


def digest(scribe: Scribe) -> int:
    """Append a state digest; returns its seq."""
    scribe.cycle(facts.StateDigest(schema_version=STATE_SCHEMA, digest=state_digest(scribe.state)))
    return scribe.state.seq


class Reading:
    """One start of the notifier: which records it was told, who owns what, and from which offset it read."""

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.owners: dict[str, str] = {}
        self.state = PoolState()
        self.offsets: list[int] = []

    def tell(self, record: Record, state: PoolState, owners: Any) -> None:
        self.seqs.append(record.seq)
        self.owners, self.state = dict(owners), state


def kept(folder: Path, name: str) -> Path:
    (found,) = folder.rglob(name)
    return found


async def start(scribe: Scribe, folder: Path, since: int) -> Reading:
    found = Reading()
    async with Client(scribe.cluster.client("c"), source="test") as client:
        place = await client.pool()
        reader = client.bus.reader

        async def noted(positions: Any) -> Any:
            found.offsets += [offset for topic, _, offset in positions if topic == topics.AUDIT.name]
            return await reader(positions)

        client.bus.reader = noted  # type: ignore[method-assign]
        head = await OwnerProjection(client.bus, place, folder, found.tell).run(since, once=True)
        assert head == scribe.state.seq
    assert state_digest(found.state) == state_digest(scribe.state)
    return found


async def test_the_second_start_reads_on_from_the_digest(scribe: Scribe, tmp_path: Path) -> None:
    at = digest(scribe)
    first = await start(scribe, tmp_path, since=-1)
    assert (first.seqs[0], first.seqs[-1]) == (0, at)
    scribe.submit("late", gpus=1)
    second = await start(scribe, tmp_path, since=at)
    assert second.seqs == list(range(at, scribe.state.seq + 1))
    assert second.offsets == [at]
    assert (second.owners["train-7"], second.owners["late"]) == ("alice", "alice")


async def test_a_hook_that_is_owed_something_from_before_makes_it_read_the_whole_log(scribe: Scribe, tmp_path: Path) -> None:
    at = digest(scribe)
    await start(scribe, tmp_path, since=-1)
    assert (await start(scribe, tmp_path, since=at - 5)).seqs[0] == 0


@pytest.mark.parametrize("file", ["owners.json", "pool-a.snapshot"])
@pytest.mark.parametrize("content", [None, b"{", b"\x00\xff\n{}"])
async def test_what_is_missing_or_damaged_costs_time_and_nothing_else(
    scribe: Scribe, tmp_path: Path, file: str, content: bytes | None
) -> None:
    at = digest(scribe)
    await start(scribe, tmp_path, since=-1)
    if content is None:
        kept(tmp_path, file).unlink()
    else:
        kept(tmp_path, file).write_bytes(content)
    again = await start(scribe, tmp_path, since=at)
    assert again.seqs[0] == 0
    assert again.owners["train-7"] == "alice"


async def test_owners_of_another_digest_than_the_snapshot_are_not_believed(scribe: Scribe, tmp_path: Path) -> None:
    digest(scribe)
    await start(scribe, tmp_path, since=-1)
    owners = kept(tmp_path, "owners.json")
    before = owners.read_bytes()
    scribe.submit("late", gpus=1)
    at = digest(scribe)
    await start(scribe, tmp_path, since=at - 2)
    owners.write_bytes(before)  # as if the process had died between the two files
    again = await start(scribe, tmp_path, since=at)
    assert (again.seqs[0], again.owners["late"]) == (0, "alice")


async def test_a_log_that_does_not_confirm_what_was_kept_is_read_from_its_start(scribe: Scribe, tmp_path: Path) -> None:
    at = digest(scribe)
    await start(scribe, tmp_path, since=-1)
    other = Scribe()
    other.begin()
    found = await start(other, tmp_path, since=at)
    assert found.seqs == list(range(other.state.seq + 1))
    assert found.owners == {}
