"""The wall between a job and its node, from the job's side: whichever node stands behind it, this is what a job meets.

A node is given by the fixture `wall`. What a test asks of it beyond the control directory is what the rest of Bailiff
asks of it, too: give notice, spare.
"""

import asyncio
import json
import mmap
import os
import signal
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.job_node import JobNode

from bailiff_job import Job
from bailiff_job.place import Place
from bailiff_node_agent.runtime import Launch, ProcessRuntime, TaskKey


class Wall(Protocol):
    """A node with the control directory of one task, which is a whole job of one rank."""

    control: Path
    SPARES: bool
    """Whether it ever takes a notice back."""

    def notice(self, *, soft_s: float, hard_s: float, reason: str) -> None: ...

    def spare(self) -> None: ...

    def close(self) -> None: ...


class DoubleWall:
    SPARES = True

    def __init__(self, folder: Path) -> None:
        self.node = JobNode(folder)
        self.control = self.node.control

    def notice(self, *, soft_s: float, hard_s: float, reason: str) -> None:
        self.node.notice(soft_s=soft_s, hard_s=hard_s, reason=reason, agreed=0)

    def spare(self) -> None:
        self.node.spare()

    def close(self) -> None:
        self.node.close()


class RealWall:
    """A task under its supervisor. The task itself only sleeps: the tests speak for it."""

    SPARES = False
    KEY = TaskKey("train-7", 1, "0")

    def __init__(self, folder: Path) -> None:
        self._runner = asyncio.Runner()
        self._runtime = ProcessRuntime(folder)
        self.control = self._runtime.control_dir(self.KEY)
        self._runner.run(self._runtime.start(Launch(self.KEY, "exec sleep 300", env={"WORLD_SIZE": "1"})))
        until(lambda: (self.control / "socket").exists())

    def notice(self, *, soft_s: float, hard_s: float, reason: str) -> None:
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
        about = {"reason": reason, "for_job": "serve-1"}
        soft_us, hard_us = now + round(soft_s * 1e6), now + round(hard_s * 1e6)
        self._runner.run(self._runtime.notice(self.KEY, about, soft_us, hard_us))

    def spare(self) -> None:
        raise AssertionError("it spares nobody who was told")

    def close(self) -> None:
        self._runner.run(self._end())
        self._runner.close()

    async def _end(self) -> None:
        await self._runtime.kill(self.KEY)
        await asyncio.wait_for(self._runtime.wait_exit(), 20)
        await self._runtime.close()


WALLS: dict[str, Callable[[Path], Wall]] = {"double": DoubleWall, "supervisor": RealWall}


@pytest.fixture(params=sorted(WALLS))
def wall(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Wall]:
    wall = WALLS[request.param](tmp_path / "node")
    term = signal.getsignal(signal.SIGTERM)
    yield wall
    signal.signal(signal.SIGTERM, term)
    wall.close()


def words(wall: Wall) -> tuple[int, ...]:
    return struct.unpack("<8q", (wall.control / "steps").read_bytes())


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that within 20 s"
        time.sleep(0.005)


class Talk:
    """A job that speaks for itself, without the library."""

    def __init__(self, wall: Wall) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        here = os.open(wall.control, os.O_RDONLY)
        self.socket.connect(f"/proc/self/fd/{here}/socket")
        os.close(here)
        self.lines = self.socket.makefile("rb")

    def send(self, line: bytes) -> dict[str, Any]:
        self.socket.sendall(line + b"\n")
        answer: dict[str, Any] = json.loads(self.lines.readline())
        return answer

    def say(self, what: str, **facts: Any) -> dict[str, Any]:
        return self.send(json.dumps({"say": what, **facts}).encode())

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


@pytest.fixture
def talk(wall: Wall) -> Iterator[Talk]:
    talk = Talk(wall)
    yield talk
    talk.close()


SHA = "0" * 64
EVERYTHING = [
    ("hello", {"v": 1, "rank": 0, "pid": 1}),
    ("acknowledged", {"step": 7}),
    ("progress", {"step": 7, "total": 10}),
    ("progress", {"step": 8, "total": None}),
    ("checkpoint_started", {"step": 8}),
    ("saving_in_flight", {"step": 8}),
    ("checkpoint_committed", {"step": 8, "bytes": 5, "microseconds": 9, "sha256": SHA, "agreed": True}),
    ("yielding", {}),
    ("resumed", {"step": 0, "from_attempt": None, "passed_over": 0}),
    ("resumed", {"step": 9, "from_attempt": 1, "passed_over": 2}),
]


def test_the_directory_is_for_the_task_alone_and_the_board_is_quiet(wall: Wall) -> None:
    assert stat.S_IMODE(wall.control.stat().st_mode) == 0o700
    assert (wall.control / "steps").stat().st_size == 64
    _, notice, agreed, proposed, _, soft_deadline, _, form = words(wall)
    assert (notice, agreed, proposed, soft_deadline, form) == (0, -1, -1, 0, 1)
    assert not (wall.control / "notice.json").exists()


def test_everything_that_may_be_said_is_answered_once_it_is_on_disk(wall: Wall, talk: Talk) -> None:
    wall.notice(soft_s=100, hard_s=130, reason="r")
    until(lambda: words(wall)[1] == 1)
    for count, (what, facts) in enumerate(EVERYTHING, 1):
        assert talk.say(what, **facts) == {"ok": True}, what
        journal = (wall.control / "said.jsonl").read_text().splitlines()
        assert len(journal) == count
        assert facts.items() <= json.loads(journal[-1]).items()


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"5", b'{"say":"nonsense"}', b'{"step":1}', b'{"say":"progress"}', b"\xff\xfe", b'{"say":[]}']
)
def test_a_bad_line_is_told_what_is_wrong_and_has_no_effect(line: bytes, wall: Wall, talk: Talk) -> None:
    assert talk.say("hello", v=1, rank=0, pid=1) == {"ok": True}
    answer = talk.send(line)
    assert answer["ok"] is False
    assert len(answer["error"]) > 10
    assert talk.say("progress", step=3, total=None) == {"ok": True}, "the line after it counts"
    assert len((wall.control / "said.jsonl").read_text().splitlines()) == 2


def test_who_comes_again_goes_on(wall: Wall) -> None:
    for _ in range(3):
        talk = Talk(wall)
        assert talk.say("hello", v=1, rank=0, pid=1) == {"ok": True}
        talk.close()


def test_a_notice_is_on_the_board_and_in_the_file(wall: Wall) -> None:
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    wall.notice(soft_s=100, hard_s=130, reason="preempted for serve-1")
    until(lambda: words(wall)[1] == 1)
    told = json.loads((wall.control / "notice.json").read_text())
    assert (told["v"], told["reason"]) == (1, "preempted for serve-1")
    assert 98 <= told["soft_s"] <= 100
    assert 128 <= told["hard_s"] <= 130
    assert told["hard_deadline_boottime_ns"] - told["soft_deadline_boottime_ns"] == 30 * 10**9
    assert before <= told["soft_deadline_boottime_ns"] - 100 * 10**9 <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    until(lambda: words(wall)[2] == 0)  # one rank: at the next step
    assert words(wall)[5] == told["soft_deadline_boottime_ns"]


def test_a_notice_goes_when_the_job_is_spared(wall: Wall) -> None:
    if not wall.SPARES:
        pytest.skip("this node never takes a notice back")
    wall.notice(soft_s=100, hard_s=130, reason="r")
    until(lambda: words(wall)[1] == 1)
    wall.spare()
    until(lambda: words(wall)[1] == 0)
    until(lambda: not (wall.control / "notice.json").exists())
    assert words(wall)[2] == -1


def test_the_node_leaves_the_jobs_words_alone(wall: Wall) -> None:
    with (wall.control / "steps").open("r+b") as file, mmap.mmap(file.fileno(), 64) as board:
        struct.pack_into("<q", board, 0, 41)
        struct.pack_into("<q", board, 48, 2500)
        wall.notice(soft_s=100, hard_s=130, reason="r")
        until(lambda: words(wall)[1] == 1)
        assert (words(wall)[0], words(wall)[6]) == (41, 2500)


def test_the_library_and_the_node_together(wall: Wall, tmp_path: Path) -> None:
    job = Job(
        Place("j", 1, 0, 1, 0, 1, "0", str(wall.control / "socket"), wall.control, tmp_path / "checkpoints", 120), every_steps=10
    )
    weight, said = 0, wall.control / "said.jsonl"
    for step in range(job.restore(lambda folder: None), 1000):
        weight += step
        job.progress(step, 1000)
        if step == 15:
            wall.notice(soft_s=100, hard_s=130, reason="r")
            until(lambda: words(wall)[1:3] == (1, 0))
        if job.should_checkpoint(step):
            job.checkpoint(step, lambda folder: (folder / "w").write_text(str(weight)))  # noqa: B023
        if job.preempted:
            with pytest.raises(SystemExit) as left:
                job.exit()
            break
    assert left.value.code == 85
    told = [json.loads(line)["say"] for line in said.read_text().splitlines()]
    assert [what for what in told if what != "progress"] == [
        "hello", "resumed", "checkpoint_started", "checkpoint_committed", "acknowledged", "checkpoint_started",
        "checkpoint_committed", "yielding",
    ]  # fmt: skip
    assert words(wall)[0] == 15
