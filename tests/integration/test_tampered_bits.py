"""One bit flipped, or one byte gone or doubled, anywhere: in the log, in the archive's rows, in an exported file or folder.

Every bit and byte of every header and value of the log, and every byte of the exported files, in the long run; a fixed sample
of them in the quick one, and of the archive's rows. Every value of a folder's manifest is replaced by others.
"""

import copy
import dataclasses
import json
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.kits.archive import Auditor, Log, query
from tests.kits.tampering import OURS, given, named, seals_of, walk_of, write_anew

from bailiff.audit import parallel_verify
from bailiff.audit.chain_report import verify
from bailiff.audit.log_sources import from_archive, from_file
from bailiff.audit.segment_writer import write_segments
from bailiff.audit.segments import SegmentFolder, seal_to
from bailiff.audit.verify import Verified, verified
from bailiff.client.errors import ClientError
from bailiff_bus.messages.seals import LogSealed, SealingKey
from bailiff_bus.port import Message
from bailiff_core.records import ChainHead, Wire, continues
from bailiff_core.records.merkle import Frontier, leaf_hash
from bailiff_log.archive import pack_headers, unpack_headers
from bailiff_log.keys import make_private_key
from bailiff_log.seals import SealVerifier

QUICK, SEED = 400, 7


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Message], list[LogSealed | SealingKey]]:
    """A short log as Kafka holds it, and seals over all of it."""
    log = Log()
    log.append(OURS)
    return log.messages(), seals_of(log.messages(), make_private_key(tmp_path_factory.mktemp("key") / "key"))


def changed(raw: bytes) -> Iterator[bytes]:
    """Every single bit flipped, every byte left out, every byte doubled."""
    for at in range(len(raw)):
        for bit in range(8):
            yield raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :]
        yield raw[:at] + raw[at + 1 :]
        yield raw[: at + 1] + raw[at:]


def harmed(messages: Sequence[Message]) -> Iterator[tuple[int, Message]]:
    """Each record with one change that its hash covers."""
    for at, message in enumerate(messages):
        for number, (name, content) in enumerate(message.headers):
            if not name.startswith("ce_"):  # the content type is not covered by the hash
                continue
            for other in changed(content):
                headers = (*message.headers[:number], (name, other), *message.headers[number + 1 :])
                yield at, dataclasses.replace(message, headers=headers)
        for other in changed(message.value):
            yield at, dataclasses.replace(message, value=other)


def some(everything: Sequence[tuple[int, Message]], many: int) -> list[tuple[int, Message]]:
    return random.Random(SEED).sample(everything, many) if many else list(everything)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("many", [QUICK, pytest.param(0, marks=pytest.mark.long)])
async def test_no_changed_bit_of_the_log_stays_hidden(many: int, sealed: tuple[list[Message], list]) -> None:
    messages, seals = sealed
    chain, before = walk_of(seals).chain, [(ChainHead("pool-a"), Frontier())]
    for message in messages:  # the records before the changed one are verified once
        head, tree = before[-1]
        after = continues(head, Wire(message.headers, message.value))
        assert isinstance(after, ChainHead)
        before.append((after, tree.copy()))
        before[-1][1].append(leaf_hash(bytes.fromhex(after.hash)))
    for at, message in some(list(harmed(messages)), many):
        head, tree = before[at]
        found = await verify("pool-a", given([message, *messages[at + 1 :]]), SealVerifier(chain, tree.copy()), head)
        assert not found["ok"], (at, message)
        assert named(found) & {at, at + 1}, (at, found["broken"], found["seal_problem"])


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("many", [60, pytest.param(2_000, marks=pytest.mark.long)])
async def test_no_changed_bit_of_the_archive_stays_hidden(many: int, database: str, tmp_path: Path) -> None:
    log = Log()
    log.append(OURS)
    async with Auditor(log, database, tmp_path, seal_records=7, seal_seconds=0.001).running() as auditor:
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == len(OURS))
    rows = await query(database, "SELECT seq, headers, value FROM records ORDER BY seq")
    dice = random.Random(SEED)
    connection = await asyncpg.connect(database)
    for _ in range(many):
        row = dice.choice(rows)
        column = dice.choice(("headers", "value"))
        raw = dice.choice(list(changed(row[column]))) if column == "value" else other_headers(row["headers"], dice)
        await connection.execute(f"UPDATE records SET {column} = $2 WHERE seq = $1", row["seq"], raw)
        async with from_archive(database, "pool-a") as source:
            found = await verify("pool-a", source.messages, walk_of(source.seals))
        assert not found["ok"], (row["seq"], column)
        assert named(found) & {row["seq"], row["seq"] + 1}, (row["seq"], found["broken"], found["seal_problem"])
        await connection.execute(f"UPDATE records SET {column} = $2 WHERE seq = $1", row["seq"], row[column])
    async with from_archive(database, "pool-a") as source:
        assert (await verify("pool-a", source.messages, walk_of(source.seals)))["ok"]
    await connection.close()


def other_headers(raw: bytes, dice: random.Random) -> bytes:
    """Change a random byte of a header that the hash covers."""
    headers = list(unpack_headers(raw))
    number = dice.choice([at for at, (name, _) in enumerate(headers) if name.startswith("ce_")])
    name, content = headers[number]
    headers[number] = (name, dice.choice(list(changed(content))))
    return pack_headers(tuple(headers))


def from_folder(folder: Path) -> SegmentFolder:
    found = from_file(folder).folder
    assert found is not None
    return found


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("every", [61, pytest.param(1, marks=pytest.mark.long)])
async def test_no_changed_byte_of_an_exported_folder_stays_hidden(
    every: int, sealed: tuple[list[Message], list], tmp_path: Path
) -> None:
    """Of the files with records."""
    messages, seals = sealed
    folder = tmp_path / "kept"
    await write_segments(folder, 7, ChainHead("pool-a"), Frontier(), 0, given(messages), seals)
    files = sorted(folder.glob("*.gz"))
    assert len(files) == len(messages) // 7
    for file in files:
        whole = file.read_bytes()
        for at in range(0, len(whole), every):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            faults = from_folder(folder).faults()
            assert len(faults) == 1, (file, at)
            assert file.name in faults[0]
        file.write_bytes(whole)
    assert from_folder(folder).faults() == []
    for file in files:
        whole = file.read_bytes()
        file.unlink()
        assert any("is missing" in fault for fault in from_folder(folder).faults())
        with pytest.raises(ClientError):
            [message async for message in from_file(folder).messages]
        file.write_bytes(whole)


Place = tuple[str | int, ...]
OTHER_VALUES: list[Any] = [None, True, 0, -1, 7, 10**30, 1.5, "", "x", "../elsewhere", "00" * 32, [], [1], {}, {"a": 1}, "\ud800"]
SAYS_NOTHING = {("partition",), ("size",)}  # the position in Kafka, and how an export continues


def other_manifests(manifest: dict[str, Any], values: Sequence[Any]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The manifest with each value removed, and replaced by these."""
    for place in places_in(manifest):
        for value in (..., *values):
            other = copy.deepcopy(manifest)
            parent: Any = other
            for name in place[:-1]:
                parent = parent[name]
            if value is ...:
                del parent[place[-1]]
            else:
                parent[place[-1]] = value
            if other != manifest:
                yield place, other


def places_in(document: Any, place: Place = ()) -> Iterator[Place]:
    within = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for name, value in within:
        yield (*place, name)
        yield from places_in(value, (*place, name))


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments are verified in threads: a process for each of hundreds of folders would take long to start."""

    def threads(processes: int, mp_context: object, **begin: Any) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(processes, **begin)

    monkeypatch.setattr(parallel_verify, "ProcessPoolExecutor", threads)


async def result_of(folder: Path, key: str, processes: int) -> Verified | str:
    """As `bailiff audit verify --file FOLDER --trust KEY`."""
    try:
        return await verified(from_file(folder), [key], processes=processes)
    except ClientError as error:
        return str(error)


async def is_whole(folder: Path, key: str, compare: bool = True) -> bool:
    """compare: that it is the same whether one segment is verified after another or three at the same time."""
    found = await result_of(folder, key, 1)
    assert not compare or await result_of(folder, key, 3) == found
    return not isinstance(found, str) and found["ok"]


LEFT_OUT = {("head", "next_content"), ("head", "keys")}  # says the same as their defaults: this log is not signed


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("values", [[7, "00" * 32], pytest.param(OTHER_VALUES, marks=pytest.mark.long)])
async def test_every_statement_of_a_manifest_is_verified_against_files_and_seals(
    values: Sequence[Any], sealed: tuple[list[Message], list], tmp_path: Path
) -> None:
    messages, seals = sealed
    folder, key = tmp_path / "kept", seals[0].key
    await write_segments(folder, 6, ChainHead("pool-a"), Frontier(), 0, given(messages), seals)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert "closing" in manifest
    assert await is_whole(folder, key)
    for number, (place, other) in enumerate(other_manifests(manifest, values)):
        (folder / "manifest.json").write_text(json.dumps(other))
        harmless = (
            place in SAYS_NOTHING
            or (place == ("segments", 0) and len(other["segments"]) < len(manifest["segments"]))  # moved away
            or place[:3] == ("segments", 0, "head")  # the head before the first record of the log
            or (place[2:] in LEFT_OUT and place[3] not in other["segments"][place[1]]["head"])
            or (place == ("cosignatures",) and "cosignatures" not in other)  # none, as no witness has cosigned this log
        )
        assert harmless or not await is_whole(folder, key, compare=number % 20 == 0), (place, other)


async def test_a_folder_whose_end_or_beginning_no_seal_covers_is_reported(
    sealed: tuple[list[Message], list], tmp_path: Path
) -> None:
    """Without the seals there is only the chain, which can be forged."""
    messages, seals = sealed
    size, key = len(messages) // 3, seals[0].key
    anew = write_anew(messages, size + 2)
    await write_segments(tmp_path, size, ChainHead("pool-a"), Frontier(), 0, given(anew), [])
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    first_seal = [seal_to(body) for body in seals if getattr(body, "size", 0) <= size]

    for begin in (0, 1):  # the whole folder, and the folder without its first file
        kept = {**manifest, "seals": first_seal, "segments": manifest["segments"][begin:]}
        (tmp_path / "manifest.json").write_text(json.dumps(kept))
        found = await verified(from_file(tmp_path), [key])
        assert found["broken"] is None
        assert not found["ok"]
        assert f"records {size} to" in found["seal_problem"]
        assert "are not sealed" in found["seal_problem"]

    kept["segments"][0]["peaks"][0] = "00" * 32
    (tmp_path / "manifest.json").write_text(json.dumps(kept))
    assert "are not the sealed ones" in (await verified(from_file(tmp_path), [key]))["seal_problem"]
