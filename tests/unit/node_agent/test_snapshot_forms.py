"""Snapshots that are compressed or encrypted: read again by whom they are for, and by nobody else."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bailiff_bus.messages.commands import SnapshotForm
from bailiff_log.credentials import encryption_key_id
from bailiff_node_agent.runtime import Image, TaskKey
from bailiff_node_agent.runtime.supervisor.criu import INVENTORY
from bailiff_node_agent.snapshots import BadImage, DiskImages, coding

OWN, OTHER, SOMEBODY = os.urandom(32), os.urandom(32), os.urandom(32)
KEYS = tuple(map(encryption_key_id, (OWN, OTHER)))
SECRET = b"a secret of the program "
FIRST, SECOND = TaskKey("job", 0, "0"), TaskKey("job", 1, "0")
FORMS = {
    "compressed": SnapshotForm(compressed=True),
    "encrypted": SnapshotForm(readers=KEYS),
    "compressed and encrypted": SnapshotForm(compressed=True, readers=KEYS),
}


class Kept:
    """A node that stores a snapshot, in parts of 64 KiB."""

    def __init__(self, folder: Path, form: SnapshotForm) -> None:
        self.folder, self.form = folder / "snapshots" / "job", form
        self.store = DiskImages(folder / "staging", OWN)
        self.files = {
            "pages-1.img": SECRET * 20_000,
            "core-1.img": SECRET,
            "core-2.img": SECRET[::-1],
            "empty.img": b"",
            INVENTORY: b"run 1",
            "pages-2.img": bytes(coding.PART),
        }

    async def stored(self) -> tuple[str, int]:
        self.folder.parent.mkdir(mode=0o700, exist_ok=True)
        image = await self.store.make(self.folder, FIRST, form=self.form)
        for name, content in self.files.items():
            (image.folder / image.name / name).write_bytes(content)
        (image.folder / image.name / "dump.log").write_text("told")
        return await self.store.seal(Image.from_data(image.to_data()), {"runtime": {"main": 3}})

    async def read(self, sha256: str) -> dict[str, bytes]:
        image, manifest, _ = await self.store.verify(self.folder, 0, SECOND, sha256)
        assert image.facts == manifest["runtime"] == {"main": 3}
        assert image.about["bytes"] == sum(map(len, self.files.values()))
        found = image.folder / image.name
        assert (found.stat().st_mode & 0o777, {each.stat().st_mode & 0o777 for each in found.iterdir()}) == (0o700, {0o600})
        return {each.name: each.read_bytes() for each in found.iterdir()}

    @property
    def path(self) -> Path:
        return self.folder / "attempt-0000" / "snapshot.rank-0000"

    def staged(self) -> list[Path]:
        return [each for each in self.store.staging.rglob("*") if each.is_file()]


@pytest.fixture(params=FORMS)
def kept(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    monkeypatch.setattr(coding, "PART", 1 << 16)
    return Kept(tmp_path, FORMS[request.param])


async def test_it_is_read_as_it_was(kept: Kept) -> None:
    sha256, size = await kept.stored()
    assert kept.staged() == [], "nothing stays where it was saved"
    assert await kept.read(sha256) == kept.files
    on_disk = {each.name: each.read_bytes() for each in kept.path.iterdir()}
    assert size == sum(len(content) for name, content in on_disk.items() if name != "manifest.json")
    if kept.form.compressed:
        assert size < len(kept.files["pages-1.img"]) // 10
    if kept.form.readers:
        assert [name for name, content in on_disk.items() if SECRET in content] == []
    await kept.store.clear(SECOND, saved=False)
    assert kept.staged() == []


async def test_only_the_nodes_that_it_is_for_read_it(tmp_path: Path) -> None:
    kept = Kept(tmp_path, FORMS["encrypted"])
    sha256, _ = await kept.stored()
    kept.store.decryption_key = OTHER
    assert await kept.read(sha256) == kept.files
    for key in (SOMEBODY, None):
        kept.store.decryption_key = key
        with pytest.raises(BadImage, match="it was encrypted for other nodes than this one"):
            await kept.read(sha256)


async def test_a_node_without_a_key_keeps_nothing_that_is_to_be_encrypted(tmp_path: Path) -> None:
    kept = Kept(tmp_path, SnapshotForm(readers=()))
    with pytest.raises(BadImage, match="the policy wants it encrypted, and this node has no key"):
        await kept.stored()
    assert not kept.path.exists()


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _swap_parts(path: Path) -> None:
    content = path.read_bytes()
    half = len(content) // 2
    path.write_bytes(content[half:] + content[:half])


def _swap_files(path: Path) -> None:
    first, second = path.with_name("core-1.img"), path.with_name("core-2.img")
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


TAMPERED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a bit": (_flip, "pages-1.img was changed"),
    "the order": (_swap_parts, "pages-1.img was changed"),
    "the end": (lambda path: os.truncate(path, path.stat().st_size - 1), "pages-1.img was changed"),
    "other files": (_swap_files, "core-[12].img was changed"),
    "the inventory": (lambda path: _flip(path.with_name(INVENTORY)), f"{INVENTORY} was changed"),
    "the manifest": (lambda path: _flip(path.with_name("manifest.json")), "its manifest is not the one on record"),
    "a file less": (lambda path: path.unlink(), "files are missing or were added: pages-1.img"),
}


@pytest.mark.parametrize("how", TAMPERED)
async def test_what_was_changed_is_named_and_not_read(kept: Kept, how: str) -> None:
    change, why = TAMPERED[how]
    sha256, _ = await kept.stored()
    change(kept.path / "pages-1.img")
    with pytest.raises(BadImage, match=why):
        await kept.read(sha256)
    assert kept.staged() == []


def test_a_part_is_read_at_its_own_place_only() -> None:
    own, _ = coding._new_coding(FORMS["encrypted"])
    part = own.coded(SECRET, 1, 1)
    assert own.read(part, 1, 1, len(SECRET)) == SECRET
    for file, number in ((1, 2), (2, 1)):
        with pytest.raises(ValueError, match="cannot be read with this key"):
            own.read(part, file, number, len(SECRET))


def test_a_part_that_grows_when_it_is_read_takes_no_more_memory_than_it_is_said_to() -> None:
    own, _ = coding._new_coding(FORMS["compressed"])
    bomb = own.coded(bytes(64 << 20), 0, 0)
    with pytest.raises(ValueError, match="cannot be read"):
        own.read(bomb, 0, 0, 1 << 16)


async def test_a_failure_leaves_nothing_half_stored(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bailiff_node_agent.snapshots.coding._keep", full)
    with pytest.raises(OSError, match="No space left"):
        await kept.stored()
    assert not kept.path.exists()
