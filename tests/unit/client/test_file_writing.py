"""Files that commands write: as a whole or not at all, never over a device, and nothing is left of those that do not fit."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.kits.small_disk import SmallDisk
from tests.unit.client.kit import AnsweringBus, LogWriter, Run, command_on, preemption_story

from bailiff.client import safe_write
from bailiff.client.errors import ClientError, ExitCode
from bailiff_log import file_writing
from bailiff_log.keys import KeyFileError, make_private_key


@pytest.fixture
def bailiff(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    log_writer = preemption_story(LogWriter())
    return command_on(lambda: AnsweringBus(log_writer), monkeypatch, str(tmp_path / "cache"))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    made = SmallDisk(tmp_path / "disk", "64k")
    yield made
    made.close()


def device(path: Path) -> Path:
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 7))  # as /dev/full
    except PermissionError:
        pytest.skip("no permission to make a device")
    return path


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def link_to_full(path: Path) -> Path:
    path.symlink_to("/dev/full")
    return path


WRITERS: dict[str, Callable[[Path], list[str]]] = {
    "audit export": lambda to: ["audit", "export", str(to)],
    "events": lambda to: ["events", "--export", str(to)],
    "key new": lambda to: ["key", "new", str(to)],
}


@pytest.mark.parametrize("name", ["audit export", "events", "key new"])
@pytest.mark.parametrize("make", [device, pipe, link_to_full])
def test_a_device_is_refused_and_stays(bailiff: Run, tmp_path: Path, name: str, make: Callable[[Path], Path]) -> None:
    at = make(tmp_path / "out.jsonl")
    before = at.lstat()
    found = bailiff(*WRITERS[name](at))
    assert found.exit_code == ExitCode.USAGE
    assert "exists already" in found.stderr or "it is a device, a pipe or a socket, not a file" in " ".join(found.stderr.split())
    assert (at.lstat().st_ino, at.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert [each.name for each in tmp_path.iterdir() if each.name != "cache"] == ["out.jsonl"]


@pytest.mark.parametrize("name", ["audit export", "events", "key new"])
def test_a_full_disk_keeps_the_file_before_and_nothing_else(bailiff: Run, disk: SmallDisk, name: str) -> None:
    to = disk.folder / "out.jsonl"
    if name != "key new":
        to.write_text("the one before")
    with disk.full():
        found = bailiff(*WRITERS[name](to))
        left = {each.name for each in disk.folder.iterdir()} - {"ballast"}
    assert found.exit_code == ExitCode.USAGE
    assert "cannot be written: No space left on device" in " ".join(found.stderr.split())
    assert left == ({"out.jsonl"} if name != "key new" else set())
    assert name == "key new" or to.read_text() == "the one before"


def test_keys_and_folders_of_files_leave_nothing_on_a_full_disk(disk: SmallDisk) -> None:
    with disk.full():
        with pytest.raises(KeyFileError, match="No space left"):
            make_private_key(disk.folder / "key")
        with pytest.raises(ClientError, match="No space left"):
            safe_write.put(disk.folder / "tile", bytes(1 << 20))
        assert [each.name for each in disk.folder.iterdir()] == ["ballast"]


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with file_writing.replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    interrupted = ExitStack()
    interrupted.enter_context(file_writing.replacing(path)).write(b"half")
    assert interrupted.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None) is False
    assert (path.read_text(), [*tmp_path.iterdir()]) == ("new", [path])


def test_modes_and_existing_files_are_kept(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    file_writing.write(secret, "1", mode=0o600, only_new=True)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        file_writing.write(secret, "2", mode=0o600, only_new=True)
    assert (secret.read_text(), [*tmp_path.iterdir()]) == ("1", [secret])
