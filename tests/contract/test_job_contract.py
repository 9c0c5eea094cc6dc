"""The job contract, from the job's side: what a job may rely on, whichever node runs it.

The fixture `node` gives each test a node: the test double, and a real supervisor.
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
from tests.kits.job_node import JobNode
from tests.kits.waiting import PATIENCE_S

from bailiff_job import Job
from bailiff_job.rank_env import RankEnv
from bailiff_node_agent.runtime import Launch, TaskKey
from bailiff_node_agent.runtime.process import ProcessRuntime


class Node(Protocol):
    """A node with the control directory of one task, which is a whole job of one rank."""

    control: Path
    CANCELS: bool
    """Whether it can cancel an eviction."""

    def notice(self, *, soft_s: float, hard_s: float, reason: str) -> None: ...

    def cancel_eviction(self) -> None: ...

    def close(self) -> None: ...


class NodeDouble:
    CANCELS = True

    def __init__(self, folder: Path) -> None:
        self.node = JobNode(folder)
        self.control = self.node.control

    def notice(self, *, soft_s: float, hard_s: float, reason: str) -> None:
        self.node.notice(soft_s=soft_s, hard_s=hard_s, reason=reason, agreed=0)

    def cancel_eviction(self) -> None:
        self.node.cancel_eviction()

    def close(self) -> None:
        self.node.close()


class SupervisedTask:
    """A task under its supervisor. The task itself only sleeps: the tests speak for it."""

    CANCELS = False
    KEY = TaskKey("train-7", 1, "0")

    def __init__(self, folder: Path) -> None:
        self._runner = asyncio.Runner()
        self._runtime = ProcessRuntime(folder)
        self.control = self._runtime.folders.task(self.KEY)
        self._runner.run(self._runtime.start(Launch(self.KEY, "exec sleep 300", env={"WORLD_SIZE": "1"})))
        until(lambda: (self.control / "socket").exists())

    def notice(self, *, soft_s: float, hard_s: float, reason: str) -> None:
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
        about = {"reason": reason, "preemptor": "serve-1"}
        soft_us, hard_us = now + round(soft_s * 1e6), now + round(hard_s * 1e6)
        self._runner.run(self._runtime.notice(self.KEY, about, soft_us, hard_us))

    def cancel_eviction(self) -> None:
        raise AssertionError("it cancels no eviction")

    def close(self) -> None:
        self._runner.run(self._end())
        self._runner.close()

    async def _end(self) -> None:
        await self._runtime.kill(self.KEY)
        await asyncio.wait_for(self._runtime.wait_exit(), PATIENCE_S)
        await self._runtime.close()


NODES: dict[str, Callable[[Path], Node]] = {"double": NodeDouble, "supervisor": SupervisedTask}


@pytest.fixture(params=sorted(NODES))
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    node = NODES[request.param](tmp_path / "node")
    term = signal.getsignal(signal.SIGTERM)
    yield node
    signal.signal(signal.SIGTERM, term)
    node.close()


def words(node: Node) -> tuple[int, ...]:
    return struct.unpack("<8q", (node.control / "steps").read_bytes())


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that within 60 s"
        time.sleep(0.005)


class Talk:
    """A job that speaks for itself, without the library."""

    def __init__(self, node: Node) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        here = os.open(node.control, os.O_RDONLY)
        self.socket.connect(f"/proc/self/fd/{here}/socket")
        os.close(here)
        self.lines = self.socket.makefile("rb")

    def send(self, line: bytes) -> dict[str, Any]:
        self.socket.sendall(line + b"\n")
        answer: dict[str, Any] = json.loads(self.lines.readline())
        return answer

    def say(self, what: str, **facts: Any) -> dict[str, Any]:
        return self.send(json.dumps({"type": what, **facts}).encode())

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


@pytest.fixture
def talk(node: Node) -> Iterator[Talk]:
    talk = Talk(node)
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
    ("resumed", {"step": 0, "from_attempt": None, "skipped_checkpoints": 0}),
    ("resumed", {"step": 9, "from_attempt": 1, "skipped_checkpoints": 2}),
]


def test_the_directory_is_for_the_task_alone_and_the_board_is_quiet(node: Node) -> None:
    assert stat.S_IMODE(node.control.stat().st_mode) == 0o700
    assert (node.control / "steps").stat().st_size == 64
    _, notice, agreed, proposed, _, soft_deadline, _, form = words(node)
    assert (notice, agreed, proposed, soft_deadline, form) == (0, -1, -1, 0, 1)
    assert not (node.control / "notice.json").exists()


def test_everything_that_may_be_messages_is_answered_once_it_is_on_disk(node: Node, talk: Talk) -> None:
    node.notice(soft_s=100, hard_s=130, reason="r")
    until(lambda: words(node)[1] == 1)
    for count, (what, facts) in enumerate(EVERYTHING, 1):
        assert talk.say(what, **facts) == {"ok": True}, what
        journal = (node.control / "messages.jsonl").read_text().splitlines()
        assert len(journal) == count
        assert facts.items() <= json.loads(journal[-1]).items()


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"5", b'{"type":"nonsense"}', b'{"step":1}', b'{"type":"progress"}', b"\xff\xfe", b'{"type":[]}']
)
def test_a_bad_line_is_answered_with_an_error_and_has_no_effect(line: bytes, node: Node, talk: Talk) -> None:
    assert talk.say("hello", v=1, rank=0, pid=1) == {"ok": True}
    answer = talk.send(line)
    assert answer["ok"] is False
    assert len(answer["error"]) > 10
    assert talk.say("progress", step=3, total=None) == {"ok": True}, "the line after it counts"
    assert len((node.control / "messages.jsonl").read_text().splitlines()) == 2


def test_a_client_can_reconnect(node: Node) -> None:
    for _ in range(3):
        talk = Talk(node)
        assert talk.say("hello", v=1, rank=0, pid=1) == {"ok": True}
        talk.close()


def test_a_notice_is_on_the_board_and_in_the_file(node: Node) -> None:
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    node.notice(soft_s=100, hard_s=130, reason="preempted for serve-1")
    until(lambda: words(node)[1] == 1)
    content = json.loads((node.control / "notice.json").read_text())
    assert (content["v"], content["reason"]) == (1, "preempted for serve-1")
    assert 98 <= content["soft_s"] <= 100
    assert 128 <= content["hard_s"] <= 130
    assert content["hard_deadline_boottime_ns"] - content["soft_deadline_boottime_ns"] == 30 * 10**9
    assert before <= content["soft_deadline_boottime_ns"] - 100 * 10**9 <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    until(lambda: words(node)[2] == 0)  # one rank: at the next step
    assert words(node)[5] == content["soft_deadline_boottime_ns"]


def test_a_notice_is_removed_when_the_eviction_is_cancelled(node: Node) -> None:
    if not node.CANCELS:
        pytest.skip("this node never takes a notice back")
    node.notice(soft_s=100, hard_s=130, reason="r")
    until(lambda: words(node)[1] == 1)
    node.cancel_eviction()
    until(lambda: words(node)[1] == 0)
    until(lambda: not (node.control / "notice.json").exists())
    assert words(node)[2] == -1


def test_the_node_never_writes_the_fields_of_the_job(node: Node) -> None:
    with (node.control / "steps").open("r+b") as file, mmap.mmap(file.fileno(), 64) as board:
        struct.pack_into("<q", board, 0, 41)
        struct.pack_into("<q", board, 48, 2500)
        node.notice(soft_s=100, hard_s=130, reason="r")
        until(lambda: words(node)[1] == 1)
        assert (words(node)[0], words(node)[6]) == (41, 2500)


def test_the_library_and_the_node_together(node: Node, tmp_path: Path) -> None:
    job = Job(
        RankEnv("j", 1, socket=str(node.control / "socket"), control=node.control, checkpoints=tmp_path / "checkpoints"),
        every_steps=10,
    )
    weight, sent_file = 0, node.control / "messages.jsonl"
    for step in range(job.restore(lambda folder: None), 1000):
        weight += step
        job.progress(step, 1000)
        if step == 15:
            node.notice(soft_s=100, hard_s=130, reason="r")
            until(lambda: words(node)[1:3] == (1, 0))
        if job.should_checkpoint(step):
            job.checkpoint(step, lambda folder: (folder / "w").write_text(str(weight)))  # noqa: B023
        if job.preempted:
            with pytest.raises(SystemExit) as left:
                job.exit()
            break
    assert left.value.code == 85
    content = [json.loads(line)["type"] for line in sent_file.read_text().splitlines()]
    assert [what for what in content if what != "progress"] == [
        *("hello", "resumed", "checkpoint_started", "checkpoint_committed", "acknowledged", "checkpoint_started"),
        *("checkpoint_committed", "yielding"),
    ]
    assert words(node)[0] == 15
