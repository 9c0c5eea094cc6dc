"""A task's log that grows without end: the disk does not fill, and nothing of what is written gets lost on the way."""
# ruff: noqa: ASYNC240 - a file of a few KiB

import asyncio
from pathlib import Path

import pytest

from bailiff_bus import topics
from bailiff_bus.testing import MemoryCluster
from bailiff_node_agent import log_shipper
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
        assert rotate(log, LARGEST)
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


async def test_the_shipper_notes_output_that_was_rotated_away_before_it_was_sent(log: Path) -> None:
    log.write_bytes(LINE * 4096)
    assert rotate(log, LARGEST)
    cluster = MemoryCluster(clock=lambda: 0)
    cluster.create_topics(pools=1)
    producer = await cluster.client("agent").producer()
    at = ("pool-a", "n1", TaskKey("train-7", 1, "0"))
    places = {at: (log, 0)}
    async with asyncio.timeout(20):
        while places[at][1] < log.stat().st_size:
            await log_shipper._ship(producer, at, places)
    partitions = range(topics.JOB_LOGS.partition_count(1))
    sent = b"".join(message.value for part in partitions for message in cluster.messages(topics.JOB_LOGS.name, part))
    moved = log.with_name("log.1").stat().st_size
    assert sent.splitlines()[0] == f"[{moved} bytes were rotated away before they could be sent; they are in log.1]".encode()
    assert sent.count(LINE) == (log.stat().st_size - moved) // len(LINE)
