"""Where a node stores the snapshot of a task."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from bailiff_node_agent.runtime.supervisor import safe_open
from bailiff_node_agent.snapshots import images


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


def test_a_manifest_that_somebody_else_has_put_there_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job may make many folders beside its snapshot, with large manifests."""
    folder, reads = tmp_path / "checkpoints", list[object]()
    made = images.make_image(folder, 0, 1)
    sha256, _ = images.sealed(made, {"runtime": {}})
    read = safe_open.read
    monkeypatch.setattr(images.safe_open, "read", lambda *given: reads.append(given) or read(*given))
    monkeypatch.setattr(images.os, "geteuid", lambda: folder.stat().st_uid + 1)
    images.discard_image(folder, 0, 1, sha256)
    assert ((folder / made.name).exists(), reads) == (True, [])
    monkeypatch.undo()
    images.discard_image(folder, 0, 1, sha256)
    assert not (folder / made.name).exists()


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
