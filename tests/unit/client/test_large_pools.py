"""What `bailiff list` and `bailiff explain` read and decode of a pool that one user floods: the same, however many jobs wait."""

import asyncio
import copy
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from tests.bench.flooded_log import FloodedLog
from tests.kits.memory_bus import MemoryBus, MemoryCluster, MemoryReader

from bailiff.client.client import FIRST, Client
from bailiff.client.job_filter import JobFilter, page
from bailiff.explain.question import answer, log_of
from bailiff_bus.port import READ_LIMIT
from bailiff_bus.topics import AUDIT
from bailiff_core.fold.snapshot import from_snapshot, state_digest, to_snapshot
from bailiff_core.model.undecoded import Undecoded
from bailiff_core.records import Wire

SINCE = 20  # jobs submitted since the last state digest, two records each
LIMIT = 50
NEW = FIRST + 1 + 2 * SINCE  # messages: the log's first, the digest, and those after it
HEAD = 1  # the last record that was folded, read again: the log still has it
RUNNING = 15
KINDS = 24  # the flood's jobs are of 24 projects, and else alike
POOLS = {100: None, 1_000: pytest.mark.slow, 10_000: pytest.mark.long}
of_any_size = pytest.mark.parametrize("begun", [100], indirect=True)
"""What is shown depends on no size: it compares what was kept with the whole log."""


@dataclass(frozen=True)
class Begun:
    """What all tests of a pool of one size begin with. folder: of a command that has a snapshot of it."""

    writer: FloodedLog
    log: list[Wire]
    folder: Path


class Flooded:
    """A pool of many pending jobs, and the folder of a command. read: how many messages were read from Kafka."""

    def __init__(self, begun: Begun, folder: Path) -> None:
        self._begun, self.folder, self.read = begun, folder, 0
        self.jobs = len(begun.writer.state.jobs)
        self.some = f"job-{self.jobs // 2}"
        self.cluster = MemoryCluster(lambda: 0)
        self.cluster.create_topics(pools=1)
        self.log = list[Wire]()
        self.store(begun.log)

    def store(self, part: Iterable[Wire]) -> None:
        for wire in part:
            self.cluster.store(AUDIT.name, 0, None, wire.headers, wire.value)
            self.log.append(wire)

    @cached_property
    def _writer(self) -> FloodedLog:
        """Goes on where the log begun ends."""
        writer = copy.copy(self._begun.writer)
        writer.state = from_snapshot(to_snapshot(writer.state))
        return writer

    def flood(self, jobs: int) -> None:
        self.store(self._writer.flood(jobs))
        self.jobs += jobs

    def digest(self) -> Iterable[Wire]:
        return self._writer.digest()

    @property
    def newest(self) -> str:
        return f"job-{self.jobs}"

    def files(self) -> list[Path]:
        return [each for each in self.folder.rglob("*") if each.is_file()]

    def client_without_cache(self) -> Client:
        return Client(MemoryBus(self.cluster, "other"), source="test", actor="ada")

    def client(self) -> Client:
        return Client(MemoryBus(self.cluster, "client"), source="test", actor="ada", cache=self.folder)

    def count_reads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on."""
        read = MemoryReader.read

        async def counted(reader: MemoryReader, *arguments: Any, **options: Any) -> Any:
            found = await read(reader, *arguments, **options)
            self.read += len(found)
            return found

        monkeypatch.setattr(MemoryReader, "read", counted)


async def decoded(client: Client) -> int:
    jobs = (await client.projection()).state.jobs
    assert isinstance(jobs, Undecoded)
    return jobs.decoded


@pytest.fixture(scope="module", params=[pytest.param(jobs, marks=mark or ()) for jobs, mark in POOLS.items()])
def begun(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Begun:
    writer = FloodedLog(1)
    parts = (writer.fill(), writer.flood(request.param - SINCE), writer.digest(), writer.flood(SINCE))
    made = Begun(writer, [wire for part in parts for wire in part], tmp_path_factory.mktemp("snapshot"))

    async def first() -> None:
        async with Flooded(made, made.folder).client() as client:
            await client.projection()

    asyncio.run(first())
    return made


@pytest.fixture
def flooded(begun: Begun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flooded:
    shutil.copytree(begun.folder, tmp_path, dirs_exist_ok=True)
    made = Flooded(begun, tmp_path)
    made.count_reads(monkeypatch)
    return made


async def test_a_list_reads_what_is_new_and_decodes_its_page(flooded: Flooded) -> None:
    async with flooded.client() as client:
        state = (await client.projection()).state
        shown = page(state, 0, JobFilter(), limit=LIMIT, own="ada")
        assert (shown.total, len(shown.rows)) == (flooded.jobs, LIMIT)
        assert (flooded.read, await decoded(client)) == (NEW, LIMIT + 1), "and the last job of the queue"


async def test_an_explanation_reads_the_records_of_the_job_and_decodes_one_job_of_each_kind(flooded: Flooded) -> None:
    async with flooded.client() as client:
        found = await answer(await log_of(client, None), flooded.some)
        questions = [section.question for section in found.sections]
        assert questions[:2] == ["What is its state?", "Why is it pending?"], "and, in a pool with contested GPUs, the next turn"
        assert (flooded.read, await decoded(client)) == (NEW + READ_LIMIT, RUNNING + KINDS + 2), "itself, and the queue's last"


@pytest.fixture
def kept(flooded: Flooded, monkeypatch: pytest.MonkeyPatch) -> Flooded:
    """A command has folded what is new, and kept what it changed."""
    monkeypatch.setattr("bailiff_log.projection.KEPT_FROM", 2 * SINCE)

    async def folds() -> None:
        async with flooded.client() as client:
            await client.projection()

    asyncio.run(folds())
    assert [each.name for each in sorted(flooded.files())] == ["pool-a.changes", "pool-a.snapshot"]
    flooded.read = 0
    return flooded


async def test_what_a_command_folded_is_not_read_again(kept: Flooded) -> None:
    async with kept.client() as client:
        state = (await client.projection()).state
        assert (kept.read, state_digest(state)) == (FIRST + HEAD, await digest_without_cache(kept))
    kept.flood(3)
    kept.read = 0
    async with kept.client() as client:
        shown = page((await client.projection()).state, 0, JobFilter(), limit=LIMIT, own="ada")
        assert (shown.total, kept.read, await decoded(client)) == (kept.jobs, FIRST + HEAD + 2 * 3, LIMIT + 1)


@of_any_size
async def test_a_job_is_explained_from_what_was_kept_as_from_the_whole_log(kept: Flooded) -> None:
    for job in (kept.some, kept.newest):
        async with kept.client() as client, kept.client_without_cache() as other:
            found = await answer(await log_of(client, None), job)
            assert found == await answer(await log_of(other, None), job)


@of_any_size
@pytest.mark.parametrize("kind", ["changes", "snapshot"])
async def test_damaged_files_are_not_used(kept: Flooded, kind: str) -> None:
    (path,) = (each for each in kept.files() if each.suffix == f".{kind}")
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    async with kept.client() as client:
        assert state_digest((await client.projection()).state) == await digest_without_cache(kept)


@of_any_size
async def test_changes_of_a_log_that_was_cut_are_not_used(kept: Flooded) -> None:
    kept.cluster.truncate(AUDIT.name, 0, len(kept.log) - 4)
    async with kept.client() as client:
        assert (await client.projection()).state.seq == len(kept.log) - 5
        assert state_digest((await client.projection()).state) == await digest_without_cache(kept)


async def test_records_before_what_was_kept_are_found(kept: Flooded) -> None:
    async with kept.client() as client:
        after = len(kept.log) - 10
        seen = [each async for each in client.observe(None, after, lambda entry, _: [entry.record.seq], on=False)]
        assert seen == list(range(after, len(kept.log)))


async def digest_without_cache(flooded: Flooded) -> str:
    async with flooded.client_without_cache() as client:
        return state_digest((await client.projection()).state)


@of_any_size
async def test_a_new_digest_renews_the_snapshot_only_once_many_records_have_come(
    kept: Flooded, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = (each for each in kept.files() if each.suffix == ".snapshot")
    before = path.stat().st_ino
    for renewed in (False, True):
        kept.store(kept.digest())
        kept.flood(3)
        async with kept.client() as client:
            assert state_digest((await client.projection()).state) == await digest_without_cache(kept)
        assert (path.stat().st_ino != before) is renewed
        monkeypatch.setattr("bailiff_log.projection.RENEWED_AFTER", 2 * SINCE)


@of_any_size
async def test_a_state_that_is_not_that_of_the_log_is_folded_anew(kept: Flooded, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the changes were kept by another release, which folds otherwise."""
    monkeypatch.setattr("bailiff_log.projection.RENEWED_AFTER", 0)
    monkeypatch.setattr("bailiff_log.projection.KEPT_FROM", 1)
    kept.flood(1)
    async with kept.client() as client:
        projection = await client.projection()
        projection.state.nodes[0].name = "another"
        kept.flood(1)
        await projection.catch_up()
        projection.keep_changes()
    kept.store(kept.digest())
    async with kept.client() as client:
        assert state_digest((await client.projection()).state) == await digest_without_cache(kept)
