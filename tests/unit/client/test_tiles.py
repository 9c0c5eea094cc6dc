"""`bailiff audit export --tiles`: the sealed log as C2SP tlog-tiles, which Tessera's unmodified fsck verifies."""

import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from tests.kits.go_programs import builds, built, go
from tests.kits.log_builder import Story
from tests.kits.receipts import POOL, SealedStory, messages_of, sealed
from typer.testing import CliRunner

from bailiff.audit.log_files import write_log
from bailiff.audit.segments import seal_to
from bailiff.audit.tiles import WIDTH, TilesWritten, _Tree, tile_path, write_tiles
from bailiff.cli import app
from bailiff.client.errors import ClientError, ExitCode
from bailiff_bus.messages.seals import LogSealed
from bailiff_bus.port import Message
from bailiff_core.records import record_hash
from bailiff_core.records.merkle import leaf_hash, root_of
from bailiff_log.checkpoints import Checkpoint
from bailiff_log.signed_notes import Note

TESSERA = "v1.0.4"


def grown(records: int, story: Story | None = None) -> Story:
    """A log of at least so many records."""
    story = story or Story(pool=POOL)
    story.node(f"n{len(story.wires)}", gpus=4)
    while len(story.wires) < records:
        story.submit(f"job-{len(story.wires)}", gpus=1)
    return story


async def given(messages: Sequence[Message]) -> AsyncIterator[Message]:
    for message in messages:
        yield message


async def written(folder: Path, log: SealedStory) -> TilesWritten:
    seal = log.chain.last
    assert seal is not None
    return await write_tiles(folder, POOL, given(messages_of(log.story.wires)), seal, log.cosignatures)


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("level", "index", "width", "path"),
    [
        (0, 0, 256, "tile/0/000"),
        (0, 67, 256, "tile/0/067"),
        (1, 1234067, 256, "tile/1/x001/x234/067"),
        ("entries", 1000, 17, "tile/entries/x001/000.p/17"),
        (0, 999, 1, "tile/0/999.p/1"),
    ],
)
def test_a_tile_is_named_as_the_specification_says(level: int | str, index: int, width: int, path: str) -> None:
    assert tile_path(level, index, width) == path


@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 511, 512, 513, pytest.param(66_000, marks=pytest.mark.slow)])
def test_the_tiles_hold_the_tree_of_the_seals(size: int) -> None:
    from bailiff.audit.tiles import _root

    entries = [number.to_bytes(32, "big") for number in range(size)]
    tree, tiles = _Tree(), dict[str, bytes]()
    for each in entries:
        tiles |= dict(tree.add(each))
    tiles |= dict(tree.partial())
    leaves = [leaf_hash(each) for each in entries]
    assert _root(tree) == root_of(leaves).hex()
    for level, span in ((0, 1), (1, WIDTH), (2, WIDTH * WIDTH)):
        hashes = [root_of(leaves[at : at + span]) for at in range(0, size - size % span, span)]
        for index in range(0, len(hashes), WIDTH):
            tile = hashes[index : index + WIDTH]
            assert tiles.pop(tile_path(level, index // WIDTH, len(tile))) == b"".join(tile)
    bundles = [entries[at : at + WIDTH] for at in range(0, size, WIDTH)]
    for index, bundle in enumerate(bundles):
        assert tiles.pop(tile_path("entries", index, len(bundle))) == b"".join(b"\x00\x20" + each for each in bundle)
    assert tiles == {}


async def test_an_export_has_the_seals_checkpoint_its_cosignatures_and_its_key(tmp_path: Path) -> None:
    log = sealed(grown(300))
    assert await written(tmp_path, log) == TilesWritten(len(log.story.wires), 0, 7)
    found = files(tmp_path)
    note = Note.parse(found["checkpoint"].decode())
    seal = log.chain.last
    assert seal is not None
    assert Checkpoint.parse(note.text) == Checkpoint(note.text.split("\n")[0], seal.size, bytes.fromhex(seal.root))
    assert [each.name for each in note.signatures] == [note.text.split("\n")[0], "witness.example/w1"]
    first = found["tile/entries/000"][2:34]
    assert first.hex() == record_hash(log.story.wires[0])
    assert found["key"].decode().startswith(f"bailiff/{POOL}/{first.hex()}+")


async def test_an_export_continues_what_is_there_and_writes_only_what_is_new(tmp_path: Path) -> None:
    story = grown(200)
    small = len(story.wires)
    await written(tmp_path, sealed(story))
    assert f"tile/0/000.p/{small}" in files(tmp_path)
    grown(600, story)
    second = await written(tmp_path, sealed(story))
    assert (second.before, second.records) == (small, len(story.wires))
    assert f"tile/0/000.p/{small}" not in files(tmp_path)
    anew = tmp_path / "anew"
    await written(anew, sealed(story))
    assert {path: raw for path, raw in files(tmp_path).items() if not path.startswith("anew/")} == files(anew)
    assert await written(anew, sealed(story)) == TilesWritten(len(story.wires), len(story.wires), 0)


async def test_an_export_that_was_interrupted_leaves_the_checkpoint_before_and_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bailiff.client import safe_write

    story = grown(200)
    await written(tmp_path, sealed(story))
    before = files(tmp_path)
    grown(600, story)
    put, left = safe_write.put, 3

    def until_the_disk_is_full(path: Path, raw: bytes) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise ClientError(ExitCode.USAGE, f"{path}: cannot be written: No space left on device")
        put(path, raw)

    monkeypatch.setattr(safe_write, "put", until_the_disk_is_full)
    with pytest.raises(ClientError, match="No space left"):
        await written(tmp_path, sealed(story))
    assert {path: raw for path, raw in files(tmp_path).items() if path in before} == before
    monkeypatch.setattr(safe_write, "put", put)
    await written(tmp_path, sealed(story))
    await written(tmp_path / "anew", sealed(story))
    assert {path: raw for path, raw in files(tmp_path).items() if not path.startswith("anew/")} == files(tmp_path / "anew")


async def test_a_folder_of_another_or_longer_log_is_left_alone(tmp_path: Path) -> None:
    story = grown(300)
    await written(tmp_path, sealed(story))
    before = files(tmp_path)
    with pytest.raises(ClientError, match="the log was cut, or is an older copy") as no:
        await written(tmp_path, sealed(story, 280))
    assert no.value.exit_code is ExitCode.FOUND_WRONG
    other = Story(pool=POOL, begin=1)
    with pytest.raises(ClientError, match="has the tiles of"):
        await written(tmp_path, sealed(grown(300, other)))
    (tmp_path / "tile/0/000").write_bytes(b"\x00" * 32 * WIDTH)
    with pytest.raises(ClientError, match="has other hashes than the log"):
        await written(tmp_path, sealed(story))
    assert files(tmp_path).keys() == before.keys()


async def test_a_log_that_is_not_the_sealed_one_is_not_exported(tmp_path: Path) -> None:
    story, other = grown(20), grown(20, Story(pool=POOL, begin=1))
    seal = sealed(other).chain.last
    assert isinstance(seal, LogSealed)
    with pytest.raises(ClientError, match="not those that were sealed"):
        await write_tiles(tmp_path, POOL, given(messages_of(story.wires)), seal)
    assert not (tmp_path / "checkpoint").exists()


async def test_the_command_exports_the_newest_seal_of_a_log(tmp_path: Path) -> None:
    story = grown(300)
    log = sealed(story, 100, 290)
    with (tmp_path / "log.jsonl").open("w", encoding="utf-8") as out:
        seals = [seal_to(each) for each in log.bodies]
        await write_log(out, POOL, 0, given(messages_of(story.wires)), seals, [each.to_data() for each in log.cosignatures])
    command = ["audit", "export", str(tmp_path / "tiles"), "--tiles", "--file", str(tmp_path / "log.jsonl")]
    done = await _in_thread(command)
    assert done.exit_code == 0, done.output
    assert "290 records of pool-a, 290 of them new; 7 files written" in done.output
    assert "tile/0/001.p/34" in files(tmp_path / "tiles")


async def _in_thread(command: list[str]):
    import asyncio

    return await asyncio.to_thread(CliRunner().invoke, app, command)


# --- Tessera


def checking(folder: Path) -> subprocess.Popen[str]:
    """Tessera's fsck, unmodified, at work on this folder. It ends with 0 in any case, or, at a wrong tile, never."""
    name = f"bailiff-test-tessera-{TESSERA}"
    module = f"github.com/transparency-dev/tessera/cmd/fsck@{TESSERA}"
    program = built(name, lambda into: go(["install", module], into, {"GOBIN": str(into)}) and None) / "fsck"
    command = [str(program), "--ui=false", f"--storage_url=file://{folder}/", f"--public_key={folder / 'key'}"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def fsck(folder: Path) -> str:
    """What it says."""
    with checking(folder) as process:
        return process.communicate()[1]


@builds
@pytest.mark.slow
@pytest.mark.parametrize("size", [5, 256, 300, 1_030])
async def test_tessera_verifies_an_export(tmp_path: Path, size: int) -> None:
    log = sealed(grown(size), size)
    await written(tmp_path, log)
    assert f"Successfully fsck'd log with size {size}" in fsck(tmp_path)


@builds
@pytest.mark.slow
async def test_tessera_finds_what_was_changed(tmp_path: Path) -> None:
    log = sealed(grown(600), 600)
    await written(tmp_path / "right", log)
    for path in ("tile/0/000", "tile/entries/001", "tile/entries/002.p/88", "checkpoint"):
        shutil.copytree(tmp_path / "right", tmp_path / "wrong", dirs_exist_ok=True)
        raw = bytearray((tmp_path / "wrong" / path).read_bytes())
        raw[raw.index(b"\n600\n") + 6 if path == "checkpoint" else -20] ^= 1
        (tmp_path / "wrong" / path).write_bytes(raw)
        with checking(tmp_path / "wrong") as process:
            for _ in range(10):  # one after the other: where it never ends, it had the time for it
                assert "Successfully" in fsck(tmp_path / "right")
            process.kill()
            said = process.communicate()[1]
        assert "Successfully" not in said, path
        assert "fsck.go" in said or "fsck failed" in said, path


@builds
@pytest.mark.slow
async def test_tessera_verifies_an_export_that_grew(tmp_path: Path) -> None:
    story = grown(200)
    await written(tmp_path, sealed(story))
    grown(600, story)
    await written(tmp_path, sealed(story, 200, 600))
    assert "Successfully fsck'd log with size 600" in fsck(tmp_path)
