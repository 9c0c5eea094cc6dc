"""The node's side of the wall between a job and its node, as small as it can be: a control directory and who serves it.

It is a double of what the agent and the supervisor do. What it may do is in the contract, and nothing else: both pass
tests/contract/test_job_wall.py.
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

STEP, NOTICE, AGREED, PROPOSED, CONFIRMED, SOFT_DEADLINE, RATE_MILLI, FORMAT = range(8)
SAYS: dict[str, tuple[str, ...]] = {
    "hello": ("v", "rank", "pid"),
    "acknowledged": ("step",),
    "progress": ("step", "total"),
    "checkpoint_started": ("step",),
    "checkpoint_committed": ("step", "bytes", "microseconds", "sha256", "agreed"),
    "saving_in_flight": ("step",),
    "yielding": (),
    "resumed": ("step", "from_attempt", "passed_over"),
}


class JobNode:
    """One task's control directory, served in a thread."""

    def __init__(self, folder: Path, *, socket: bool = True, board: bool = True) -> None:
        self.control = folder / "control"
        self.control.mkdir(mode=0o700, parents=True)
        self._words: mmap.mmap | None = None
        if board:
            path = self.control / "steps"
            path.write_bytes(struct.pack("<8q", -1, 0, -1, -1, -1, 0, 0, 1))
            with path.open("r+b") as file:
                self._words = mmap.mmap(file.fileno(), 64)
        self._said: list[dict[str, Any]] = []
        self._heard = threading.Condition()
        self._listener: Any = None
        if socket:
            self._serve()

    # --- the board

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
        data = {"v": 1, "reason": reason, "for_job": "serve-1", "soft_s": soft_s, "hard_s": hard_s,
                "soft_deadline_boottime_ns": soft, "hard_deadline_boottime_ns": hard}  # fmt: skip
        draft = self.control / ".notice"
        draft.write_text(json.dumps(data))
        draft.replace(self.control / "notice.json")
        self.write(SOFT_DEADLINE, soft)
        self.write(AGREED, agreed)
        self.write(PROPOSED, -1)
        self.write(NOTICE, 1)

    def spare(self) -> None:
        (self.control / "notice.json").unlink()
        self.write(NOTICE, 0)
        for at, value in ((AGREED, -1), (PROPOSED, -1), (SOFT_DEADLINE, 0)):
            self.write(at, value)

    # --- what the job says

    def said(self, what: str | None = None) -> list[dict[str, Any]]:
        with self._heard:
            return [each for each in self._said if what in (None, each["say"])]

    def stages(self) -> list[str]:
        """What was said, without the small talk."""
        return [each["say"] for each in self.said() if each["say"] not in ("hello", "progress")]

    def wait_for(self, condition: Callable[[], object], seconds: float = 30) -> None:
        """Until it is so, looking whenever something was said."""
        deadline = time.monotonic() + seconds
        with self._heard:
            while not condition():
                if time.monotonic() > deadline:
                    raise AssertionError(f"it did not come to that; said: {self._said}")
                self._heard.wait(0.01)

    def close(self) -> None:
        if self._listener:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
            self._thread.join()

    def _serve(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        here = os.open(self.control, os.O_RDONLY)  # a test's folder may have a longer path than a socket's address holds
        self._listener.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
        self._listener.listen()
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        talks = []
        while True:
            try:
                connection, _ = self._listener.accept()
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
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as lines:  # a killed job hangs up as it likes
            for line in lines:
                answer = {"ok": True} if (problem := self._take(line)) is None else {"ok": False, "error": problem}
                connection.sendall(json.dumps(answer).encode() + b"\n")

    def _take(self, line: bytes) -> str | None:
        try:
            data = json.loads(line)
            fields = SAYS[data["say"]]
        except (ValueError, KeyError, TypeError) as problem:
            return f"no message of a job: {problem!r}; `say` is one of {', '.join(SAYS)}"
        missing = [name for name in fields if name not in data]
        if missing:
            return f"{data['say']} lacks {', '.join(missing)}"
        with (self.control / "said.jsonl").open("ab") as journal:
            journal.write(line)
            journal.flush()
            os.fsync(journal.fileno())
        with self._heard:
            self._said.append(data)
            self._heard.notify_all()
        return None


class GangOfNodes:
    """The nodes of a gang's tasks, and how they agree on a step: only through what stands on the boards."""

    MARGIN = 2

    def __init__(self, *nodes: JobNode) -> None:
        self.nodes = nodes

    def notice(self, **facts: float) -> None:
        for node in self.nodes:
            node.notice(**facts)  # type: ignore[arg-type]

    def propose(self, step: int | None = None) -> int:
        """To all, beyond every step that was published."""
        step = max(node.word(STEP) for node in self.nodes) + self.MARGIN if step is None else step
        for node in self.nodes:
            node.write(PROPOSED, step)
        return step

    def settle(self) -> int | None:
        """Look once: agree where all have confirmed, propose the highest where one raised it."""
        words = [node.word(CONFIRMED) for node in self.nodes]
        proposed = self.nodes[0].word(PROPOSED)
        if max(words) > proposed:
            self.propose(max(words))
        elif all(word == proposed for word in words):
            for node in self.nodes:
                node.write(AGREED, proposed)
            return proposed
        return None
