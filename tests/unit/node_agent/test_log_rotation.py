"""A task's log that grows without end: the disk does not fill, and nothing of what is written gets lost on the way."""
# ruff: noqa: ASYNC240 - a file of a few KiB

import asyncio
import os
from pathlib import Path

import pytest
from tests.kits.hostile_files import KINDS
from tests.kits.memory_bus import MemoryCluster

from bailiff_bus import topics
from bailiff_node_agent import log_rotation, log_shipper
from bailiff_node_agent.log_rotation import first_data, rotate
from bailiff_node_agent.runtime import TaskKey

LARGEST = 64 * 1024
LINE = b"x" * 63 + b"\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Of a file system that makes holes."""
    trial = tmp_path / "trial"
    trial.write_bytes(LINE * 4096)
    if not rotate(trial, LARGEST):
        pytest.skip("this file system makes no holes in files")
    return tmp_path / "log"


def test_a_short_log_stays_as_it_is(log: Path) -> None:
    log.write_bytes(LINE * 10)
    assert not rotate(log, LARGEST)
    assert not rotate(log.with_name("none"), LARGEST)
    assert log.read_bytes() == LINE * 10


def test_the_older_half_moves_and_what_is_appended_meanwhile_stays(log: Path) -> None:
    with log.open("ab", buffering=0) as task:  # a task holds it open for appending, as the supervisor opened it
        for number in range(4096):
            task.write(b"%063d\n" % number)
        assert rotate(log, 3 * LARGEST)
        task.write(b"%063d\n" % 4096)
    older = log.with_name("log.1").read_bytes()
    with log.open("rb") as file:
        begin = first_data(file.fileno(), 0)
        file.seek(begin)
        newer = file.read()
    assert begin == len(older)
    assert [int(line) for line in (older + newer).splitlines()] == [*range(4097)]
    assert log.stat().st_blocks * 512 < 4096 * 64
    assert log.stat().st_size == 4097 * 64


def test_again_and_again_the_disk_holds_the_newest_and_the_part_before(log: Path) -> None:
    with log.open("ab", buffering=0) as task:
        for _ in range(200):
            task.write(LINE * 128)
            rotate(log, LARGEST)
    assert log.stat().st_blocks * 512 <= LARGEST + 128 * 64 + 4096
    assert log.with_name("log.1").stat().st_size <= LARGEST


def test_of_a_log_that_grew_too_fast_the_oldest_is_dropped(log: Path) -> None:
    """Between two looks it may have become as long as it likes: neither file keeps more than its part."""
    log.write_bytes(b"".join(b"%063d\n" % number for number in range(16 * 1024)))
    assert rotate(log, LARGEST)
    lines = [int(line) for line in log.with_name("log.1").read_bytes().splitlines()]
    assert lines == [*range(14 * 1024, 15 * 1024)]
    assert log.stat().st_blocks * 512 <= LARGEST


def test_holes_of_the_task_are_not_copied_as_bytes(log: Path) -> None:
    """`ftruncate(1, 2**40)` would fill the disk outside of the job's quota."""
    with log.open("wb") as task:
        for number in range(40):
            task.seek(number << 34)
            task.write(LINE * 64)
        task.truncate(1 << 40)
    written = log.stat().st_blocks * 512
    assert rotate(log, LARGEST)
    moved, stays = (path.stat().st_blocks * 512 for path in (log.with_name("log.1"), log))
    assert 0 < moved <= LARGEST
    assert moved + stays <= written


def test_a_log_of_a_hole_alone_is_left_as_it_is(log: Path) -> None:
    with log.open("wb") as task:
        task.truncate(1 << 40)
    assert not rotate(log, 0)
    assert not log.with_name("log.1").exists()


def test_a_log_that_is_emptied_while_it_is_copied_ends_the_copy(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copying nothing, again and again, would go on for ever."""
    log.write_bytes(LINE * 4096)

    def emptied(*given: int) -> int:
        os.truncate(log, 0)
        return sendfile(*given)

    sendfile = os.sendfile
    monkeypatch.setattr(log_rotation.os, "sendfile", emptied)
    rotate(log, LARGEST)
    assert log.stat().st_size == 0


def test_holes_that_the_task_fills_meanwhile_are_copied_up_to_the_limit(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with log.open("wb") as task:
        for number in range(40):
            task.seek(number << 20)
            task.write(LINE * 64)

    def filled(*given: int) -> int:
        with log.open("r+b") as task:
            task.write(LINE * (16 << 14))
        return sendfile(*given)

    sendfile = os.sendfile
    monkeypatch.setattr(log_rotation.os, "sendfile", filled)
    assert rotate(log, LARGEST)
    assert log.with_name("log.1").stat().st_blocks * 512 <= LARGEST


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_in_the_place_of_the_rotated_part_is_replaced_or_left(log: Path, tmp_path: Path, kind: str) -> None:
    (tmp_path / "precious").write_bytes(b"keep")
    log.write_bytes(LINE * 4096)
    for name in ("log.1", "log.1.new"):
        KINDS[kind](log.with_name(name), tmp_path)
    assert rotate(log, LARGEST) == (kind != "folder")
    assert (tmp_path / "precious").read_bytes() == b"keep"


async def test_the_shipper_notes_output_that_was_rotated_away_before_it_was_sent(log: Path) -> None:
    log.write_bytes(LINE * 4096)
    assert rotate(log, LARGEST)
    cluster = MemoryCluster(clock=lambda: 0)
    cluster.create_topics(pools=1)
    producer = await cluster.client("agent").producer()
    at = ("pool-a", "n1", TaskKey("train-7", 1, "0"))
    places = {at: (log, 0)}
    async with asyncio.timeout(60):
        while places[at][1] < log.stat().st_size:
            await log_shipper._ship(producer, at, places)
    partitions = range(topics.JOB_LOGS.partition_count(1))
    sent = b"".join(message.value for part in partitions for message in cluster.messages(topics.JOB_LOGS.name, part))
    moved = len(LINE) * 4096 - LARGEST
    assert (
        sent.splitlines()[0]
        == f"[{moved} bytes were rotated away before they could be sent; the newest of them are in log.1]".encode()
    )
    assert sent.count(LINE) == (log.stat().st_size - moved) // len(LINE)
