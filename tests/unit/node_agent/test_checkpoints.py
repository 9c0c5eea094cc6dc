"""The checkpoint that a task resumes from: the newest complete one of its own, whatever other files exist."""

import json
import os
from pathlib import Path

import pytest

from bailiff_node_agent.checkpoints import newest, shared_identity


def saved(folder: Path, name: str, **manifest: object) -> Path:
    path = folder / name
    path.mkdir(parents=True)
    (path / "manifest.json").write_text(json.dumps({"v": 1, "agreed": True, "world_size": 2, **manifest}))
    return path


def test_a_job_that_never_saved_begins_at_the_beginning(tmp_path: Path) -> None:
    assert newest(tmp_path / "nothing", 0)[0] is None
    (tmp_path / "attempt-0001").mkdir()
    assert newest(tmp_path, 0)[0] is None


def test_checkpoints_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    whole = saved(tmp_path, "attempt-0001/step-00000001")
    saved(tmp_path, "attempt-0001/step-00000002", agreed=False)
    (tmp_path / "attempt-0001/step-00000003").mkdir()
    (saved(tmp_path, "attempt-0001/step-00000004") / "manifest.json").write_text("{")
    (tmp_path / "attempt-0001/.tmp-step-00000005").mkdir()
    assert newest(tmp_path, 0) == (whole, 2)


def test_attempts_count_before_steps(tmp_path: Path) -> None:
    saved(tmp_path, "attempt-0001/step-00000900")
    later = saved(tmp_path, "attempt-0002/step-00000100")
    saved(tmp_path, "attempt-0002/step-00000099")
    assert newest(tmp_path, 0)[0] == later
    tenth = saved(tmp_path, "attempt-10000/step-00000001")
    assert newest(tmp_path, 0)[0] == tenth


def test_each_rank_gets_its_own_checkpoint(tmp_path: Path) -> None:
    for rank in (0, 1):
        saved(tmp_path, f"attempt-0001/step-00000007.rank-{rank:04}")
    assert newest(tmp_path, 1)[0] == tmp_path / "attempt-0001/step-00000007.rank-0001"
    assert newest(tmp_path, 2)[0] is None


@pytest.mark.parametrize("manifest", [{"agreed": False}, {"agreed": "yes"}, {"agreed": None}])
def test_what_a_gang_saved_without_agreement_is_passed_over(tmp_path: Path, manifest: dict[str, object]) -> None:
    before = saved(tmp_path, "attempt-0001/step-00000001")
    saved(tmp_path, "attempt-0001/step-00000002", **manifest)
    assert newest(tmp_path, 0)[0] == before
    alone = saved(tmp_path, "attempt-0001/step-00000003", agreed=False, world_size=1)
    assert newest(tmp_path, 0)[0] == alone


def test_what_is_not_committed_or_is_garbage_is_passed_over(tmp_path: Path) -> None:
    good = saved(tmp_path, "attempt-0001/step-00000001")
    saved(tmp_path, "attempt-0001/.tmp-step-00000009")
    saved(tmp_path, "attempt-none/step-00000009")
    for number, content in enumerate((b"", b"[]", b"[" * 100_000, b"\xff", None), start=2):
        path = tmp_path / "attempt-0001" / f"step-{number:08}"
        path.mkdir()
        if content is not None:
            (path / "manifest.json").write_bytes(content)
    (tmp_path / "attempt-0002").write_text("no folder")
    assert newest(tmp_path, 0)[0] == good


def test_agents_that_share_a_folder_read_the_same_identity(tmp_path: Path) -> None:
    first, other = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    other.mkdir()
    assert shared_identity(first) == shared_identity(first) != shared_identity(other)
    assert [path.name for path in first.iterdir()] == [".bailiff-checkpoints"]


def test_a_manifest_that_is_not_a_regular_file_is_no_checkpoint_and_never_blocks(tmp_path: Path) -> None:
    before = saved(tmp_path, "attempt-0001/step-00000007")
    for step, make in ((8, os.mkfifo), (9, Path.mkdir), (10, lambda path: path.symlink_to(before / "manifest.json"))):
        folder = tmp_path / f"attempt-0001/step-{step:08}"
        folder.mkdir()
        make(folder / "manifest.json")
    assert newest(tmp_path, 0)[0] == before
