"""Where a node stores the snapshot of a task."""

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.kits.waiting import PATIENCE_S

from bailiff_node_agent.runtime import TaskKey, job_files
from bailiff_node_agent.runtime.supervisor import safe_open
from bailiff_node_agent.settings import SNAPSHOTS
from bailiff_node_agent.snapshots import DiskImages, images

SOMEBODY = 54_321


@pytest.mark.parametrize("times", [1, images.TRIES - 1])
def test_an_attempt_s_folder_that_another_removal_takes_away_is_made_again(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot of another task, or an earlier one that failed, was the last in it."""
    folder, opened = tmp_path / "checkpoints", taken_away(safe_open.open_folder, times)
    monkeypatch.setattr(images.safe_open, "open_folder", opened)
    made = images.make_image(folder, 0, 1)
    assert [path.name for path in (folder / made.name).parent.iterdir()] == ["snapshot.rank-0001"]


def test_a_folder_that_somebody_takes_away_each_time_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images.safe_open, "open_folder", taken_away(safe_open.open_folder, images.TRIES))
    with pytest.raises(FileNotFoundError):
        images.make_image(tmp_path / "checkpoints", 0, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_its_job_moves_no_snapshot_away(tmp_path: Path) -> None:
    """What the agent does not find again it would never remove."""
    snapshots, own = tmp_path / SNAPSHOTS, tmp_path / "train"
    made = images.make_image(snapshots / "train", 0, 1)
    sha256, _ = images.sealed(made, {"runtime": {}})
    own.mkdir()
    for each in (own, *tmp_path.parents[:-2], tmp_path):
        each.chmod(0o711)
    os.chown(own, SOMEBODY, SOMEBODY)
    path = snapshots / "train" / made.name
    for moved in (path, path.parent, snapshots / "train", snapshots):
        for place in (own / "kept", moved.with_name("kept")):
            command = ["mv", "-T", str(moved), str(place)]
            assert subprocess.run(command, user=SOMEBODY, group=SOMEBODY, extra_groups=(), capture_output=True).returncode
    images.discard_image(snapshots / "train", 0, 1, sha256)
    assert [*snapshots.iterdir()] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes another user's folder")
@pytest.mark.parametrize("which", [SNAPSHOTS, f"{SNAPSHOTS}/train", f"{SNAPSHOTS}/train/attempt-0000"])
@pytest.mark.parametrize("how", ["made", "opened"])
def test_a_folder_that_somebody_else_has_made_or_opened_gets_no_snapshot(tmp_path: Path, which: str, how: str) -> None:
    """Where the disk is shared, users may make folders there."""
    (tmp_path / which).mkdir(parents=True)
    if how == "made":
        os.chown(tmp_path / which, SOMEBODY, SOMEBODY)
    else:
        (tmp_path / which).chmod(0o777)
    with pytest.raises(PermissionError, match="was made or opened by somebody else"):
        images.make_image(tmp_path / SNAPSHOTS / "train", 0, 1)


async def test_large_snapshots_hold_up_no_other_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang of many tasks is stored for minutes: meanwhile others start, end, are saved, and their logs are cut."""
    over, store = threading.Event(), DiskImages(tmp_path / "staging")
    for slow in ("sealed", "verified"):
        monkeypatch.setattr(f"bailiff_node_agent.snapshots.store.{slow}", lambda *_: over.wait() and ("", {}))
    image = await store.make(tmp_path / SNAPSHOTS / "train", TaskKey("train", 0, "0"))
    gang = [asyncio.ensure_future(store.seal(image, {})) for _ in range(4 * job_files.THREADS)]
    gang += [asyncio.ensure_future(store.verify(tmp_path, 0, TaskKey("train", 1, "0"), "")) for _ in range(4 * job_files.THREADS)]
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert await job_files.reading(job_files.disk_usage, tmp_path)
            assert await job_files.removing(job_files.remove_tree, tmp_path / "scratch")
            assert await store.make(tmp_path / SNAPSHOTS / "other", TaskKey("other", 0, "0"))
        assert not any(each.done() for each in gang)
    finally:
        over.set()
        await asyncio.gather(*gang)


def taken_away(open_folder: Callable[..., int], times: int) -> Callable[..., int]:
    """Opens a folder; that of the attempt is removed right before, so many times."""
    left = [times]

    def opened(name: str, *above: int) -> int:
        if name.startswith("attempt-") and left[0]:
            left[0] -= 1
            with suppress(OSError):
                os.rmdir(name, dir_fd=above[0])
        return open_folder(name, *above)

    return opened
