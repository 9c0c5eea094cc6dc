"""A test double of the node for the job library: a control directory, and a thread that serves its socket.

It does what agent and supervisor do for a job; both pass tests/contract/test_job_contract.py.
"""

import contextlib
import json
import mmap
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEP, NOTICE, AGREED, PROPOSED, CONFIRMED, SOFT_DEADLINE, PACE, FORMAT = range(8)
MESSAGE_FIELDS: dict[str, tuple[str, ...]] = {
    "hello": ("v", "rank", "pid"),
    "acknowledged": ("step",),
    "progress": ("step", "total"),
    "checkpoint_started": ("step",),
    "checkpoint_committed": ("step", "bytes", "microseconds", "sha256", "agreed"),
    "saving_in_flight": ("step",),
    "yielding": (),
    "done": (),
    "resumed": ("step", "from_attempt", "skipped_checkpoints"),
}


class JobNode:
    """One task's control directory, served in a thread."""

    def __init__(self, folder: Path, *, socket: bool = True, steps: bool = True) -> None:
        self.control = folder / "control"
        self.control.mkdir(mode=0o700, parents=True)
        self._words: mmap.mmap | None = None
        if steps:
            path = self.control / "steps"
            path.write_bytes(struct.pack("<8q", -1, 0, -1, -1, -1, 0, 0, 1))
            with path.open("r+b") as file:
                self._words = mmap.mmap(file.fileno(), 64)
        self._messages: list[dict[str, Any]] = []
        self._received = threading.Condition()
        self._listener: Any = None
        if socket:
            self._serve()

    # --- steps

    def word(self, at: int) -> int:
        assert self._words
        return int(struct.unpack_from("<q", self._words, at * 8)[0])

    def write(self, at: int, value: int) -> None:
        if self._words:
            struct.pack_into("<q", self._words, at * 8, value)

    # --- the notice

    def notice(self, *, soft_s: float = 120, hard_s: float = 150, agreed: int = -1, reason: str = "preempted") -> None:
        """agreed: 0 for a job of one rank."""
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        soft, hard = now + int(soft_s * 1e9), now + int(hard_s * 1e9)
        data = {
            "v": 1,
            "reason": reason,
            "preemptor": "serve-1",
            "soft_s": soft_s,
            "hard_s": hard_s,
            "soft_deadline_boottime_ns": soft,
            "hard_deadline_boottime_ns": hard,
        }
        draft = self.control / ".notice"
        draft.write_text(json.dumps(data))
        draft.replace(self.control / "notice.json")
        self.write(SOFT_DEADLINE, soft)
        self.write(AGREED, agreed)
        self.write(PROPOSED, -1)
        self.write(NOTICE, 1)

    def cancel_eviction(self) -> None:
        (self.control / "notice.json").unlink()
        self.write(NOTICE, 0)
        for at, value in ((AGREED, -1), (PROPOSED, -1), (SOFT_DEADLINE, 0)):
            self.write(at, value)

    # --- messages

    def messages(self, what: str | None = None) -> list[dict[str, Any]]:
        with self._received:
            return [each for each in self._messages if what in (None, each["type"])]

    def stages(self) -> list[str]:
        """The types of all messages but `hello` and `progress`."""
        return [each["type"] for each in self.messages() if each["type"] not in ("hello", "progress")]

    def wait_for(self, condition: Callable[[], object], seconds: float = 30) -> None:
        """Wait until the condition holds, checked at every message."""
        deadline = time.monotonic() + seconds
        with self._received:
            while not condition():
                if time.monotonic() > deadline:
                    raise AssertionError(f"timed out waiting for the condition; messages: {self._messages}")
                self._received.wait(0.01)

    def close(self) -> None:
        if self._listener:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
            self._thread.join()

    def _serve(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        here = os.open(self.control, os.O_RDONLY)  # a test folder's path may be too long for a socket address
        self._listener.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
        self._listener.listen()
        self._thread = threading.Thread(target=self._accept, args=(self._listener,))
        self._thread.start()

    def _accept(self, listener: socket.socket) -> None:
        talks = []
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                break
            talk = threading.Thread(target=self._talk, args=(connection,))
            talk.start()
            talks.append((connection, talk))
        for connection, talk in talks:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            talk.join()

    def _talk(self, connection: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            connection,
            connection.makefile("rb") as lines,
        ):  # a killed job may disconnect at any time
            for line in lines:
                answer = {"ok": True} if (problem := self._take(line)) is None else {"ok": False, "error": problem}
                connection.sendall(json.dumps(answer).encode() + b"\n")

    def _take(self, line: bytes) -> str | None:
        try:
            data = json.loads(line)
            fields = MESSAGE_FIELDS[data["type"]]
        except (ValueError, KeyError, TypeError) as problem:
            return f"no message of a job: {problem!r}; `type` is one of {', '.join(MESSAGE_FIELDS)}"
        missing = [name for name in fields if name not in data]
        if missing:
            return f"{data['type']} lacks {', '.join(missing)}"
        with (self.control / "messages.jsonl").open("ab") as journal:
            journal.write(line)
            journal.flush()
            os.fsync(journal.fileno())
        with self._received:
            self._messages.append(data)
            self._received.notify_all()
        return None


class GangOfNodes:
    """The nodes of a gang, which agree on a step through `steps` alone."""

    MARGIN = 2

    def __init__(self, *nodes: JobNode) -> None:
        self.nodes = nodes

    def notice(self, **facts: float) -> None:
        for node in self.nodes:
            node.notice(**facts)  # type: ignore[arg-type]

    def propose(self, step: int | None = None) -> int:
        """Propose a step to all ranks, beyond every published one."""
        step = max(node.word(STEP) for node in self.nodes) + self.MARGIN if step is None else step
        for node in self.nodes:
            node.write(PROPOSED, step)
        return step

    def reconcile(self) -> int | None:
        """Once: agree if all have confirmed; propose the highest step if one raised it."""
        words = [node.word(CONFIRMED) for node in self.nodes]
        proposed = self.nodes[0].word(PROPOSED)
        if max(words) > proposed:
            self.propose(max(words))
        elif all(word == proposed for word in words):
            for node in self.nodes:
                node.write(AGREED, proposed)
            return proposed
        return None
