"""Whatever a job puts in the place of a file that the node reads or writes: nobody waits, nothing else is read or changed."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.kits.hostile_files import KINDS, leased, nest

from bailiff_node_agent.checkpoints import IDENTITY_FILE, newest, shared_identity
from bailiff_node_agent.disk import DamagedFile
from bailiff_node_agent.log_rotation import rotate
from bailiff_node_agent.log_shipper import _read
from bailiff_node_agent.runtime.control_dir import JournalReader
from bailiff_node_agent.runtime.supervisor import safe_open
from bailiff_node_agent.runtime.supervisor.notice import withdraw_notice, write_notice
from bailiff_node_agent.runtime.supervisor.steps import INITIAL_STEPS, read_steps, write_step
from bailiff_node_agent.runtime.task_record import read_json

SECRET = b'{"agreed": true, "world_size": 1}\n'
"""It would count as a manifest, a journal's line and a record, if anybody read it through a link."""


@pytest.fixture(params=["openat2", "step by step"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel opens, and as where it has no such call."""
    if request.param == "step by step":
        monkeypatch.setattr(safe_open, "_has_openat2", lambda: False)
    elif not safe_open._has_openat2():
        pytest.skip("this kernel has no openat2")


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A folder that is not the job's; nothing in it may change."""
    folder = tmp_path / "outside"
    folder.mkdir()
    precious = folder / "precious"
    precious.write_bytes(SECRET)
    precious.chmod(0o640)
    before = precious.stat()
    yield folder
    after = precious.stat()
    assert precious.read_bytes() == SECRET
    assert (after.st_mode, after.st_uid, after.st_size, after.st_blocks) == (
        0o100640,
        before.st_uid,
        before.st_size,
        before.st_blocks,
    )


def put(kind: str, path: Path, outside: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        KINDS[kind](path, outside)
    except PermissionError:
        pytest.skip("only root makes devices")


LINKED = [kind for kind in KINDS if kind != "hard link"]
"""What the kernel keeps a job from: a hard link to a file that it may not read (`protected_hardlinks`)."""


@pytest.mark.parametrize("kind", LINKED)
def test_no_manifest_is_read_from_anything_else(tmp_path: Path, outside: Path, kind: str) -> None:
    put(kind, tmp_path / "own/attempt-0001/step-00000001/manifest.json", outside)
    assert newest(tmp_path / "own", 0)[0] is None


@pytest.mark.parametrize("part", ["attempt-0002", "attempt-0002/step-00000002"])
def test_no_checkpoint_is_found_through_a_link(tmp_path: Path, part: str) -> None:
    real = tmp_path / "own/attempt-0001/step-00000001"
    real.mkdir(parents=True)
    (real / "manifest.json").write_bytes(SECRET)
    link = tmp_path / "own" / part
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(real if "/" in part else real.parent)
    assert newest(tmp_path / "own", 0)[0] == real
    (tmp_path / "linked").symlink_to(tmp_path / "own")
    assert newest(tmp_path / "linked", 0)[0] is None


@pytest.mark.parametrize("kind", LINKED)
def test_an_identity_that_was_replaced_counts_as_none_and_the_agent_starts(tmp_path: Path, outside: Path, kind: str) -> None:
    put(kind, tmp_path / "shared" / IDENTITY_FILE, outside)
    assert shared_identity(tmp_path / "shared") is None


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_written_to_and_read_from_a_file_of_their_own_alone(tmp_path: Path, outside: Path, kind: str) -> None:
    put(kind, tmp_path / "control/steps", outside)
    write_step(str(tmp_path / "control"), "noticed", 1)
    found = read_steps(str(tmp_path / "control"))
    assert tuple(found.values()) == INITIAL_STEPS or kind in ("sparse", "hard link")


@pytest.mark.parametrize("kind", KINDS)
def test_a_notice_is_written_and_withdrawn_over_whatever_is_there(tmp_path: Path, outside: Path, kind: str) -> None:
    (tmp_path / "task").mkdir()
    put(kind, tmp_path / "control/notice.json", outside)
    write_notice(str(tmp_path / "task"), str(tmp_path / "control"), {}, 1, 2, is_only_task=True)
    withdraw_notice(str(tmp_path / "task"), str(tmp_path / "control"))
    assert not (tmp_path / "task/notice.json").exists()
    assert kind == "folder" or not os.path.lexists(tmp_path / "control/notice.json")


@pytest.mark.parametrize("kind", LINKED)
def test_no_journal_and_no_record_are_read_from_anything_else(tmp_path: Path, outside: Path, kind: str) -> None:
    put(kind, tmp_path / "task/messages.jsonl", outside)
    assert JournalReader(tmp_path / "task").after(0) == []
    with pytest.raises(DamagedFile):
        read_json(tmp_path / "task/messages.jsonl")


@pytest.mark.parametrize("kind", LINKED)
def test_a_log_is_neither_sent_nor_rotated_from_anything_else(tmp_path: Path, outside: Path, kind: str) -> None:
    log = tmp_path / "logs/log"
    put(kind, log, outside)
    assert not rotate(log, 0)
    with suppress(OSError):
        assert _read(log, 0)[1] == b""
    assert [each.name for each in log.parent.iterdir()] == ["log"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("empty", "hard link", "sparse")])
def test_no_output_is_written_to_anything_but_a_log(tmp_path: Path, outside: Path, kind: str) -> None:
    put(kind, tmp_path / "logs/log", outside)
    with pytest.raises(OSError, match=r"no regular file|symbolic links|cross-device"):
        safe_open.open_log(str(tmp_path / "logs/log"))


def test_a_log_is_made_and_appended_to(tmp_path: Path) -> None:
    for line in (b"one\n", b"two\n"):
        handle = safe_open.open_log(str(tmp_path / "log"))
        os.write(handle, line)
        os.close(handle)
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"
    assert (tmp_path / "log").stat().st_mode == 0o100600


@pytest.mark.parametrize("call", [lambda log: rotate(log, 0), lambda log: _read(log, 0), lambda log: read_json(log)])
def test_nobody_waits_for_a_lease(tmp_path: Path, call: Callable[[Path], object]) -> None:
    """A job that holds one would keep whoever opens the file waiting for 45 seconds."""
    log = tmp_path / "log"
    log.write_bytes(b"x" * 8192)
    with leased(log), suppress(OSError, DamagedFile):
        assert not call(log)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mode_is_set_on_what_was_put_there_alone(tmp_path: Path, outside: Path, kind: str) -> None:
    """A job that replaces its socket by a link, just after the node has made it, opens no other file to everybody."""
    put(kind, tmp_path / "control/socket", outside)
    if kind == "hard link":
        return  # of a file of its own
    with suppress(OSError):
        safe_open.set_mode(str(tmp_path / "control"), "socket", 0o666)


def test_no_more_is_read_than_permitted_also_of_a_file_that_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 100)
    assert safe_open.read(str(tmp_path), "file", 100) == b"x" * 100
    with pytest.raises(OSError, match="longer than 99 bytes"):
        safe_open.read(str(tmp_path), "file", 99)


@pytest.mark.parametrize("name", ["../outside/precious", "inner/../../outside/precious", "/etc/passwd"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, outside: Path, name: str) -> None:
    (tmp_path / "own/inner").mkdir(parents=True)
    with pytest.raises(OSError, match=r"cross-device|beneath"):
        safe_open.open_file(str(tmp_path / "own"), name)
    assert outside.exists()


def test_another_file_system_in_the_folder_is_not_entered() -> None:
    """A job can mount one that never answers."""
    with pytest.raises(OSError, match=r"cross-device|another file system"):
        safe_open.open_file("/", "proc/version")
    assert not safe_open.exists("/", "proc/self")


@pytest.mark.slow
def test_four_thousand_links_to_one_folder_are_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with a manifest of a megabyte: reading them all took minutes."""
    real = tmp_path / "own/attempt-0001/step-00000001"
    real.mkdir(parents=True)
    (real / "manifest.json").write_bytes(b" " * (1 << 20))
    for number in range(2, 4_002):
        (tmp_path / f"own/attempt-{number:04}").symlink_to("attempt-0001")
        (tmp_path / f"own/attempt-0001/step-{number:08}").symlink_to("step-00000001")
    read: list[str] = []
    monkeypatch.setattr(safe_open, "read", lambda folder, name, most: read.append(name) or original(folder, name, most))
    assert newest(tmp_path / "own", 0)[0] is None
    assert len(read) <= 1_000


original = safe_open.read


def test_what_is_read_for_one_start_is_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    big = tmp_path / "big"
    big.write_bytes(b" " * (1 << 20))
    for number in range(100):
        folder = tmp_path / f"own/attempt-0001/step-{number:08}"
        folder.mkdir(parents=True)
        (folder / "manifest.json").hardlink_to(big)
    read: list[int] = []

    def counted(folder: str, name: str, most: int) -> bytes:
        content = original(folder, name, most)
        read.append(len(content))
        return content

    monkeypatch.setattr(safe_open, "read", counted)
    assert newest(tmp_path / "own", 0)[0] is None
    assert sum(read) == 32 << 20


def test_no_more_entries_are_looked_at_than_permitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bailiff_node_agent.checkpoints.MAX_ENTRIES", 50)
    for attempt in range(1, 31):
        for step in range(10):
            (tmp_path / f"attempt-{attempt:04}/step-{step:08}").mkdir(parents=True)
    listed: list[int] = []
    original_named = newest.__globals__["_named"]

    def counted(handle: int, pattern: object, most: int) -> object:
        left, found = original_named(handle, pattern, most)
        listed.append(most - left)
        return left, found

    monkeypatch.setattr("bailiff_node_agent.checkpoints._named", counted)
    assert newest(tmp_path, 0)[0] is None
    assert sum(listed) == 50


def test_a_checkpoint_below_deep_folders_is_found(tmp_path: Path) -> None:
    nest(tmp_path / "attempt-0001/step-00000001/data", 50)
    (tmp_path / "attempt-0001/step-00000001/manifest.json").write_bytes(SECRET)
    assert newest(tmp_path, 0)[0] == tmp_path / "attempt-0001/step-00000001"
