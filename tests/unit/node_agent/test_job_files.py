"""What a job leaves behind, made by somebody who wants the agent to fail: it is walked and removed within limits."""

import asyncio
import errno
import os
import resource
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.kits.hostile_files import immutable, nest, spoil

from bailiff_node_agent.runtime import TaskKey, job_files
from bailiff_node_agent.runtime.job_files import Unfinished, disk_usage
from bailiff_node_agent.runtime.process import ProcessRuntime
from bailiff_node_agent.runtime.supervisor import safe_open
from bailiff_node_agent.scratch import Scratch

KEY = TaskKey("train-7", 1, "0")


@pytest.fixture(autouse=True)
def _removed(tmp_path: Path) -> Iterator[None]:
    """A tree that is left by a test that fails would end pytest itself, which removes its folders with recursion."""
    yield
    subprocess.run(["rm", "-rf", str(tmp_path)], check=True)


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A folder that links of a job lead to; nothing in it may change."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_bytes(b"keep")
    yield folder
    assert [(each.name, each.read_bytes()) for each in folder.iterdir()] == [("precious", b"keep")]


@pytest.fixture(autouse=True)
def few_open_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.slow
async def test_folders_nested_deeper_than_a_recursion_are_counted_and_removed(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    nest(await scratch.make(KEY), content=b"x" * 8192)
    used = await scratch.used(KEY)
    assert used.bytes >= 8192
    assert used.is_all
    await scratch.remove(KEY)
    assert await scratch.used(KEY) == (0, True)
    assert not [*(tmp_path / "scratch").iterdir(), *(tmp_path / "unfinished").iterdir()]


async def started(state: Path) -> ProcessRuntime:
    """An agent's runtime that has adopted, and removed what it could."""
    runtime = ProcessRuntime(state)
    assert await runtime.adopt() == []
    assert runtime.clearing is not None
    await runtime.clearing
    await runtime.close()
    return runtime


@pytest.mark.slow
async def test_an_agent_starts_over_what_deep_folders_left_of_an_earlier_one(tmp_path: Path) -> None:
    state = tmp_path / "state"
    await ProcessRuntime(state).close()
    nest(state / "unfinished" / "train-7-half-removed")
    nest(state / "control" / "train-8.1.0")
    assert (await started(state)).left == {}
    assert not [*(state / "unfinished").iterdir(), *(state / "control").iterdir()]


async def test_an_agent_adopts_before_it_has_removed_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much an earlier task has left, the tasks that run are watched again at once."""
    state = tmp_path / "state"
    await ProcessRuntime(state).close()
    nest(state / "control" / "train-8.1.0", 3)
    begun = threading.Event()

    def endless(path: Path, limit: int) -> job_files.Removal:
        begun.set()
        return job_files.Removal(limit, OSError(f"{path} has more"))

    monkeypatch.setattr(job_files, "remove_tree", endless)
    runtime = ProcessRuntime(state)
    assert await runtime.adopt() == []
    assert not (state / "control" / "train-8.1.0").exists(), "its name is free"
    assert await asyncio.to_thread(begun.wait, 30)
    await runtime.close()


async def test_what_cannot_be_removed_is_set_aside_and_told_and_tried_again_at_the_next_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Immutable for root, too."""
    state = tmp_path / "state"
    await ProcessRuntime(state).close()
    stays = state / "control" / "train-8.1.0"
    nest(stays, 3)
    with ExitStack() as stack:
        try:
            stack.enter_context(immutable(stays / "d" / "d" / "d" / "file"))
        except OSError as problem:
            pytest.skip(str(problem))
        runtime = await started(state)
        assert not stays.exists(), "its name is free"
        assert [*runtime.left.values()] == ["Operation not permitted"]
        assert [*runtime.left] == [*(state / "unfinished").iterdir()]
        assert "Operation not permitted" in capsys.readouterr().out
        assert len((await started(state)).left) == 1
    assert (await started(state)).left == {}
    assert not [*(state / "unfinished").iterdir()]


async def test_what_cannot_even_be_renamed_is_told_and_the_agent_starts(tmp_path: Path) -> None:
    state = tmp_path / "state"
    await ProcessRuntime(state).close()
    for path in (state / "control" / "train-8.1.0", state / "scratch" / "train-8.1.0"):
        nest(path, 1)
    try:
        with immutable(state / "control" / "train-8.1.0"), immutable(state / "scratch" / "train-8.1.0"):
            assert [*(await started(state)).left] == [state / "control" / "train-8.1.0"]
            scratch = Scratch(state)
            assert scratch.abandoned([]) == []
            assert [*scratch.unfinished.left] == [state / "scratch" / "train-8.1.0"]
            assert scratch.abandoned([TaskKey("train-8", 1, "0")]) == []
    except OSError as problem:
        pytest.skip(str(problem))
    scratch = Scratch(state)
    await scratch.unfinished.remove(*scratch.abandoned([]))
    assert (await started(state)).left == scratch.unfinished.left == {}


@pytest.mark.parametrize("seed", range(30))
async def test_whatever_a_job_leaves_is_counted_and_removed_and_nothing_beyond_it(
    tmp_path: Path, outside: Path, seed: int
) -> None:
    folder, aside = tmp_path / "left", Unfinished(tmp_path / "aside")
    spoil(folder, seed, outside)
    assert disk_usage(folder).bytes < 1 << 20
    await aside.discard(folder)
    assert aside.left == {}
    assert not folder.exists()
    assert not aside.found()


async def test_a_link_in_the_place_of_a_folder_is_removed_and_not_followed(tmp_path: Path, outside: Path) -> None:
    link, aside = tmp_path / "left", Unfinished(tmp_path / "aside")
    link.symlink_to(outside)
    assert disk_usage(link) == (0, False)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "inner").symlink_to("../outside/precious")
    (tmp_path / "own" / "folder").symlink_to("../outside")
    assert disk_usage(tmp_path / "own") == (0, True), "nor counted"
    await aside.discard(link)
    assert not link.is_symlink()
    assert not aside.found()


@pytest.mark.parametrize("shape", ["wide", "deep", "mixed"])
async def test_a_tree_is_removed_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    """Whoever has left most waits for the others: no part is larger than the limit."""
    monkeypatch.setattr(job_files, "BATCH", 10)
    for number in range(95):
        folder = tmp_path / "left" / ("" if shape == "wide" else "/".join("d" * (number % 40 if shape == "deep" else number % 3)))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}").touch()
    parts: list[int] = []
    remove = job_files.remove_tree

    def counted(path: Path, limit: int) -> job_files.Removal:
        removal = remove(path, limit)
        parts.append(removal.removed)
        return removal

    monkeypatch.setattr(job_files, "remove_tree", counted)
    aside = Unfinished(tmp_path / "aside")
    await aside.discard(tmp_path / "left")
    assert aside.left == {}
    assert not aside.found()
    assert len(parts) >= 9
    assert max(parts) <= 11, "and the folder that was emptied"


async def test_a_tree_that_grows_while_it_is_removed_ends_with_what_makes_no_progress(tmp_path: Path) -> None:
    """An error of an earlier pass is no reason to stay, once the entry is gone."""
    aside = Unfinished(tmp_path / "aside")
    nest(tmp_path / "left", 2)
    busy = {"once": True}
    unlink = os.unlink

    def first_refused(name: bytes, *, dir_fd: int) -> None:
        if name == b"file" and busy.pop("once", False):
            raise OSError(errno.EBUSY, "for a moment")
        unlink(name, dir_fd=dir_fd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_files.os, "unlink", first_refused)
        await aside.discard(tmp_path / "left")
    assert aside.left == {}
    assert not aside.found()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(
    ("uid", "goes"), [(0, True), (4_000_000, True), (65534, False)], ids=["root's", "of no account", "another person's"]
)
async def test_another_persons_folder_that_a_job_has_moved_into_its_own_stays(tmp_path: Path, uid: int, goes: bool) -> None:
    folder, aside = tmp_path / "left", Unfinished(tmp_path / "aside")
    nest(folder, 1)
    os.chown(folder, 5_000, 5_000)
    os.chown(folder / "d", uid, uid)
    (folder / "own").touch()
    await aside.discard(folder)
    assert bool(aside.left) != goes
    assert [path.name for path in (tmp_path / "aside").rglob("*") if path.is_file()] == ([] if goes else ["file"])


def test_what_is_too_much_to_count_is_at_least_what_was_counted(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}").write_bytes(b"x" * 4096)
    assert disk_usage(tmp_path, limit=20) == (20 * 4096, True)
    assert disk_usage(tmp_path, limit=19) == (19 * 4096, False)


def test_a_folder_that_is_moved_out_while_it_is_walked_leads_nowhere_else(tmp_path: Path, outside: Path) -> None:
    """Its way up, `..`, is outside of the tree: what is still in the tree is counted, and the rest is not followed."""
    nest(tmp_path / "left" / "a", 5)
    nest(tmp_path / "left" / "b", 5, content=b"x" * 4096)
    walk = job_files._walk(tmp_path / "left")
    seen = []
    for status in walk:
        seen.append(status)
        moved = [name for name in ("a", "b") if len(seen) == 5 and (tmp_path / "left" / name / "d/d").exists()]
        if moved:  # it is in one of the two; both are changed below where it is
            for name in moved:
                shutil.move(tmp_path / "left" / name / "d", outside / name)
    try:
        assert None in seen, "it says that this is not all"
        inodes = {status.st_ino for status in seen if status is not None}
        assert (outside / "precious").stat().st_ino not in inodes
        assert {(tmp_path / "left" / name).stat().st_ino for name in ("a", "b")} <= inodes
    finally:
        for name in ("a", "b"):
            shutil.rmtree(outside / name)


def test_what_was_not_moved_is_still_counted(tmp_path: Path, outside: Path) -> None:
    """The walk goes on from the top, where it ended with the first folder that was moved away."""
    for name in ("a", "b", "c"):
        nest(tmp_path / "left" / name / "x", 3, content=b"x" * 4096)
    total = disk_usage(tmp_path / "left").bytes
    open_folder, opened = safe_open.open_folder, 0

    def moving(name: str | bytes, dir_fd: int | None = None) -> int:
        nonlocal opened
        handle = open_folder(name, dir_fd)
        opened += 1
        if opened == 4:  # the deepest but one of the first
            here = Path(f"/proc/self/fd/{handle}").readlink()
            shutil.move(here.parents[0], outside / "moved")
        return handle

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_files.safe_open, "open_folder", moving)
        used = disk_usage(tmp_path / "left")
    shutil.rmtree(outside / "moved")
    assert not used.is_all
    assert used.bytes == total, "it was still in the moved folder, whose files were counted, and went on with the other two"


@pytest.mark.long
async def test_a_million_files(tmp_path: Path) -> None:
    folder, aside = tmp_path / "left", Unfinished(tmp_path / "aside")
    for part in range(1_000):
        inner = folder / f"{part}"
        inner.mkdir(parents=True)
        for number in range(1_000):
            os.close(os.open(inner / f"{number}", os.O_CREAT | os.O_WRONLY))
    assert disk_usage(folder) == (0, False)
    await aside.discard(folder)
    assert aside.left == {}
    assert not aside.found()
