"""Checkpoints on disk: whole or not there, the newest verified one found, two attempts told apart."""

import json
import logging
import os
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bailiff_job import CheckpointError, Superseded
from bailiff_job.clock import monotonic
from bailiff_job.rank_env import RankEnv
from bailiff_job.store import Store


def store(directory: Path, attempt: int = 1, keep: int | None = 2, **more: Any) -> Store:
    made = Store(directory, RankEnv("train-7", attempt, **more), keep)
    made.start_attempt()
    return made


def commit(store: Store, step: int, content: str | None = None, *, agreed: bool = True) -> Path:
    draft = store.draft(step)
    (draft / "layers").mkdir()
    (draft / "layers" / "one.bin").write_text(content or f"weights of {step}")
    return store.commit(draft, step, agreed=agreed, began=monotonic()).folder


def newest(store: Store) -> tuple[int | None, int]:
    checkpoint, damaged = store.latest()
    return checkpoint.step if checkpoint else None, damaged


def test_the_latest_checkpoint_is_found_with_its_manifest(tmp_path: Path) -> None:
    saves = store(tmp_path)
    for step in (9, 19):
        commit(saves, step)
    checkpoint, damaged = store(tmp_path, 2).latest()
    assert checkpoint is not None
    assert damaged == 0
    assert checkpoint.folder == tmp_path / "attempt-0001" / "step-00000019"
    manifest = json.loads((checkpoint.folder / "manifest.json").read_text())
    assert manifest["files"] == [{"name": "layers/one.bin", "bytes": 13, "sha256": manifest["files"][0]["sha256"]}]
    microseconds = manifest.pop("microseconds")
    assert microseconds > 0
    assert {name: manifest[name] for name in manifest if name != "files"} == {
        "v": 1,
        "job": "train-7",
        "attempt": 1,
        "rank": 0,
        "world_size": 1,
        "step": 19,
        "agreed": True,
    }


def damage_content(folder: Path) -> None:
    (folder / "layers/one.bin").write_text("weights of 91")


def damage_size(folder: Path) -> None:
    (folder / "layers/one.bin").write_text("w")


def damage_missing(folder: Path) -> None:
    (folder / "layers/one.bin").unlink()


def damage_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"v": 1, "job"')


def damage_no_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def damage_outside(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][0]["name"] = "../../secret"
    (folder / "manifest.json").write_text(json.dumps(manifest))


def damage_renamed(folder: Path) -> None:
    folder.rename(folder.with_name("step-00000099"))


DAMAGES = (damage_content, damage_size, damage_missing, damage_manifest, damage_no_manifest, damage_outside, damage_renamed)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_latest_checkpoint_is_skipped_with_a_warning(
    damage: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saves = store(tmp_path)
    commit(saves, 9)
    damage(commit(saves, 19))
    with caplog.at_level(logging.WARNING):
        assert newest(store(tmp_path, 2)) == (9, 1)
    assert "is damaged and is skipped" in caplog.text


def test_all_damaged_is_none(tmp_path: Path) -> None:
    saves = store(tmp_path)
    for step in (9, 19):
        damage_content(commit(saves, step))
    assert newest(store(tmp_path, 2)) == (None, 2)


def test_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    saves = store(tmp_path, keep=2)
    for step in range(5):
        commit(saves, step)
    later = store(tmp_path, 2, keep=2)
    commit(later, 5)
    assert sorted(path.name for path in tmp_path.glob("attempt-*/step-*")) == ["step-00000004", "step-00000005"]
    for step in (6, 7):
        commit(later, step)
    assert sorted(path.name for path in tmp_path.glob("attempt-*/step-*")) == ["step-00000006", "step-00000007"]


def test_an_unagreed_one_does_not_push_out_one_that_counts(tmp_path: Path) -> None:
    saves = store(tmp_path, keep=1)
    commit(saves, 1)
    commit(saves, 2, agreed=False)
    assert newest(saves) == (1, 0)


def test_a_damaged_one_that_was_passed_over_does_not_count_as_kept(tmp_path: Path) -> None:
    saves = store(tmp_path)
    commit(saves, 1)
    damage_content(commit(saves, 2))
    later = store(tmp_path, 2, keep=2)
    assert newest(later) == (1, 1)
    damage_content(commit(later, 3))
    assert newest(store(tmp_path, 3)) == (1, 2)


def test_an_older_attempt_that_still_runs_saves_no_more(tmp_path: Path) -> None:
    older = store(tmp_path)
    commit(older, 9)
    late = older.draft(19)
    (late / "w").write_text("late")
    newer = store(tmp_path, 2)
    with pytest.raises(Superseded, match="attempt 2 of job train-7 has started"):
        older.commit(late, 19, agreed=True, began=monotonic())
    with pytest.raises(Superseded):
        older.draft(29)
    assert newest(newer) == (9, 0)


def test_what_an_older_attempt_wrote_after_a_newer_one_had_started_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = store(tmp_path)
    commit(older, 9)
    store(tmp_path, 2)
    monkeypatch.setattr(Store, "_newer_attempt", lambda self: None)  # it had looked just before the newer one came
    commit(older, 19)
    monkeypatch.undo()
    assert newest(store(tmp_path, 2)) == (9, 0)
    assert newest(store(tmp_path, 3)) == (9, 0)


def test_attempt_comes_before_step(tmp_path: Path) -> None:
    commit(store(tmp_path), 90)
    commit(store(tmp_path, 2), 20)
    assert newest(store(tmp_path, 3)) == (20, 0)


def test_the_same_step_again_replaces(tmp_path: Path) -> None:
    saves = store(tmp_path)
    commit(saves, 9, "first")
    folder = commit(saves, 9, "second")
    assert (folder / "layers/one.bin").read_text() == "second"
    assert newest(saves) == (9, 0)


def test_what_is_no_file_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    saves = store(tmp_path)
    commit(saves, 9)
    draft = saves.draft(19)
    (draft / "latest").symlink_to("/etc")
    with pytest.raises(ValueError, match="latest is neither a file nor a folder"):
        saves.commit(draft, 19, agreed=True, began=monotonic())
    other = saves.draft(19)
    (other / "manifest.json").write_text("{}")
    with pytest.raises(ValueError, match="is reserved for Bailiff"):
        saves.commit(other, 19, agreed=True, began=monotonic())
    assert newest(saves) == (9, 0)


def test_what_a_broken_off_save_left_is_removed(tmp_path: Path) -> None:
    saves = store(tmp_path)
    commit(saves, 9)
    (saves.draft(19) / "half").write_text("half")
    later = store(tmp_path, 2)
    checkpoint, _ = later.latest()
    later.clean_up(checkpoint)
    assert not list(tmp_path.rglob(".tmp-*"))
    assert newest(later) == (9, 0)


def test_steps_that_are_done_again_do_not_mix_with_those_before(tmp_path: Path) -> None:
    """torchrun starts its processes again within one attempt: what lay beyond the restored step is no more."""
    saves = store(tmp_path, keep=None)
    for step in (1, 2, 3):
        commit(saves, step)
    damage_content(tmp_path / "attempt-0001" / "step-00000003")
    again = store(tmp_path, restart="1")
    checkpoint, _ = again.latest()
    again.clean_up(checkpoint)
    assert sorted(path.name for path in tmp_path.glob("attempt-*/step-*")) == ["step-00000001", "step-00000002"]


def test_durable_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file and folder is synced before the rename, and the folder that holds the name after it."""
    saves = store(tmp_path)
    done: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def synced(handle: int) -> None:
        done.append(f"sync {Path(f'/proc/self/fd/{handle}').readlink().name.partition('-')[0]}")
        fsync(handle)

    def renamed(self: Path, target: Path) -> Path:
        done.append("rename")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    commit(saves, 9)
    assert done == ["sync one.bin", "sync layers", "sync .tmp", "sync manifest.json", "sync .tmp", "rename", "sync attempt"]


def test_the_disk_is_full(tmp_path: Path) -> None:
    saves = store(tmp_path)
    commit(saves, 9)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    draft = saves.draft(19)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        with pytest.raises(OSError, match="File too large"):
            (draft / "weights").write_bytes(bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    saves.discard(draft)
    assert newest(saves) == (9, 0)
    assert not list(tmp_path.rglob(".tmp-*"))


def test_keeping_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        Store(tmp_path, RankEnv("j", 1), keep=0)


class TestGang:
    def test_the_newest_step_that_all_ranks_have(self, tmp_path: Path) -> None:
        ranks = [store(tmp_path, rank=rank, world_size=2) for rank in range(2)]
        for rank in ranks:
            commit(rank, 9)
        commit(ranks[0], 19)
        assert restored(tmp_path, 2) == [9, 9]

    def test_a_damaged_part_of_one_rank_makes_all_ranks_use_an_older_checkpoint(self, tmp_path: Path) -> None:
        ranks = [store(tmp_path, rank=rank, world_size=2) for rank in range(2)]
        for step in (9, 19):
            folders = [commit(rank, step) for rank in ranks]
        damage_content(folders[1])
        assert restored(tmp_path, 2) == [9, 9]

    def test_an_unagreed_step_is_no_step_of_the_gang(self, tmp_path: Path) -> None:
        ranks = [store(tmp_path, rank=rank, world_size=2) for rank in range(2)]
        for rank in ranks:
            commit(rank, 9)
            commit(rank, 19, agreed=False)
        assert restored(tmp_path, 2) == [9, 9]

    def test_what_only_one_rank_has_is_not_pruned_for(self, tmp_path: Path) -> None:
        ranks = [store(tmp_path, rank=rank, world_size=2, keep=1) for rank in range(2)]
        for rank in ranks:
            commit(rank, 9)
        commit(ranks[0], 19)
        assert restored(tmp_path, 2) == [9, 9]

    def test_with_another_number_of_ranks_each_part_is_still_verified(self, tmp_path: Path) -> None:
        ranks = [store(tmp_path, rank=rank, world_size=4) for rank in range(4)]
        for step in (9, 19):
            folders = [commit(rank, step) for rank in ranks]
        damage_content(folders[3])
        assert restored(tmp_path, 2) == [9, 9]

    def test_a_rank_that_does_not_answer_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for rank in range(2):
            commit(store(tmp_path, rank=rank, world_size=2), 9)
        monkeypatch.setattr("bailiff_job.store.GANG_TIMEOUT_S", 0.0)
        with pytest.raises(CheckpointError, match="rank 1 did not verify"):
            store(tmp_path, 2, rank=0, world_size=2).latest()


def restored(directory: Path, world_size: int) -> list[int | None]:
    """What each rank of the next attempt gets, all asking at once."""
    with ThreadPoolExecutor(world_size) as pool:
        ranks = [store(directory, 2, rank=rank, world_size=world_size) for rank in range(world_size)]
        return [step for step, _ in pool.map(newest, ranks)]
