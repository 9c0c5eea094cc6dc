"""A disk that is full when the victim saves, and a checkpoint that is damaged when it resumes.

The small file system is a tmpfs, which only root may mount; where that is not permitted, the limit on the file size
(`RLIMIT_FSIZE`), which is always tested, replaces it.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kits.small_disk import SmallDisk
from tests.kits.survival import BEFORE, ENOUGH_S, LAST, NOTICED, SAVED, SHORT_S, Expected, Stage, story

STARTED = (*NOTICED, "acknowledged", "checkpoint_started")
GIVES_UP = Expected("preempted", STARTED, codes=(1,), resumes_at=BEFORE)
GOES_ON = Expected("preempted", (*STARTED, "yielding"), optional=("term_sent",), stuck_in="checkpoint_started", resumes_at=BEFORE)


SMALL = "256k"  # small checkpoints fit, a large one does not


@pytest.mark.parametrize(
    ("behaviour", "grace_s", "expected"),
    [
        pytest.param("FillsTheDisk", ENOUGH_S, GIVES_UP),
        pytest.param("FillsTheDiskAndContinues", SHORT_S, GOES_ON, marks=pytest.mark.long),
    ],
)
async def test_the_disk_is_full_while_it_saves(stage: Stage, behaviour: str, grace_s: float, expected: Expected) -> None:
    async with story(stage) as faulty_run:
        with contextlib.closing(SmallDisk(faulty_run.checkpoints, SMALL)):
            await faulty_run.start_victim(behaviour, grace_s=grace_s)
            await faulty_run.submit_urgent()
            await faulty_run.wait_preempted()
            assert not [*faulty_run.checkpoints.rglob(".tmp-step*")], "a checkpoint that could not be saved leaves no files"
            await faulty_run.check_urgent_and_victim(expected)


@pytest.mark.long
async def test_the_file_size_limit_is_exceeded(stage: Stage) -> None:
    async with story(stage) as faulty_run:
        await faulty_run.start_victim("LimitedFileSize")
        await faulty_run.submit_urgent()
        await faulty_run.check_urgent_and_victim(GIVES_UP)


def flip_a_bit(checkpoint: Path) -> None:
    data = bytearray((checkpoint / "state.json").read_bytes())
    data[len(data) // 2] ^= 1
    (checkpoint / "state.json").write_bytes(data)


def cut_it_short(checkpoint: Path) -> None:
    data = (checkpoint / "state.json").read_bytes()
    (checkpoint / "state.json").write_bytes(data[: len(data) // 2])


def lose_its_manifest(checkpoint: Path) -> None:
    (checkpoint / "manifest.json").unlink()


@pytest.mark.parametrize(
    "damage",
    [flip_a_bit, pytest.param(cut_it_short, marks=pytest.mark.long), pytest.param(lose_its_manifest, marks=pytest.mark.long)],
)
async def test_the_newest_checkpoint_is_damaged_when_it_resumes(stage: Stage, damage: Callable[[Path], None]) -> None:
    """It resumes from the previous checkpoint, and the record shows that."""
    async with story(stage) as faulty_run:
        await faulty_run.start_victim()
        await faulty_run.submit_urgent()
        await faulty_run.wait_preempted()
        damage(faulty_run.checkpoints / "attempt-0001" / f"step-{LAST:08}")
        await faulty_run.check_urgent_and_victim(Expected("preempted", SAVED, resumes_at=BEFORE, skipped_checkpoints=1))
